"""What a step says of one parameter: which entries it prunes, for any stretch of them on demand.

A predicate is a few numbers and a way to read what it ranks, whatever the parameter's size.
"""

from prune_gui.pruning.predicates.base import Predicate, Standing
from prune_gui.pruning.predicates.channels import ChannelCut, Chosen, count_per_channel
from prune_gui.pruning.predicates.entries import EntryCut, RowCut
from prune_gui.pruning.predicates.given import GivenMask

__all__ = [
    "ChannelCut",
    "Chosen",
    "EntryCut",
    "GivenMask",
    "Predicate",
    "RowCut",
    "Standing",
    "count_per_channel",
]
