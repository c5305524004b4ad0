"""What a step says of one parameter: which entries it prunes, for any stretch of them on demand.

A predicate is a few numbers and a way to read what it ranks, whatever the parameter's size.
"""

from prune_gui.pruning.predicates.base import Predicate, Standing
from prune_gui.pruning.predicates.blocks import BlockCut, Blocks
from prune_gui.pruning.predicates.channels import ChannelCut, Chosen, count_per_channel
from prune_gui.pruning.predicates.entries import EntryCut, RowCut
from prune_gui.pruning.predicates.given import GivenMask
from prune_gui.pruning.predicates.groups import Groups, NMCut
from prune_gui.pruning.predicates.made import MadeMask, PackedMask

__all__ = [
    "BlockCut",
    "Blocks",
    "ChannelCut",
    "Chosen",
    "EntryCut",
    "GivenMask",
    "Groups",
    "MadeMask",
    "NMCut",
    "PackedMask",
    "Predicate",
    "RowCut",
    "Standing",
    "count_per_channel",
]
