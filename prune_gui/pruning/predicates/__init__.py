"""Predicates: which elements of one parameter a step prunes, computed for any span on demand.

A predicate holds a few numbers and a way to read the scores, whatever the size of the parameter.
"""

from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.predicates.blocks import BlockCut, Blocks
from prune_gui.pruning.predicates.channels import ChannelCut, PrunedUnits, count_per_channel
from prune_gui.pruning.predicates.custom_mask import CustomMask
from prune_gui.pruning.predicates.cuts import ElementCut, RowCut
from prune_gui.pruning.predicates.groups import NMCut, NMGroups
from prune_gui.pruning.predicates.plugin_mask import PackedMask, PluginMask
from prune_gui.pruning.predicates.units import AnyCut, UnitCut, UnitSlices

__all__ = [
    "AnyCut",
    "BlockCut",
    "Blocks",
    "ChannelCut",
    "CustomMask",
    "ElementCut",
    "ElementRank",
    "NMCut",
    "NMGroups",
    "PackedMask",
    "PluginMask",
    "Predicate",
    "PrunedUnits",
    "RowCut",
    "UnitCut",
    "UnitSlices",
    "count_per_channel",
]
