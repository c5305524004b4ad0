"""Predicates: which elements of one parameter a step prunes, computed for any span on demand.

A predicate holds a few numbers and a way to read the scores, whatever the size of the parameter.
"""

from prune_gui.pruning.predicates.element_cuts import ElementCut, NMCut, NMGroups, RowCut
from prune_gui.pruning.predicates.masks import CustomMask, PackedMask, PluginMask
from prune_gui.pruning.predicates.predicate import ElementRank, Predicate
from prune_gui.pruning.predicates.unit_cuts import (
    AnyCut,
    BlockCut,
    Blocks,
    ChannelCut,
    PrunedUnits,
    UnitCut,
    UnitSlices,
    count_per_channel,
)

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
