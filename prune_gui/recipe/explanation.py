"""Why one weight was pruned, or kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prune_gui.pruning.predicates import ElementRank


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry of a parameter, and how it stood in every step that looked at it.

    Attributes:
        name: of the parameter.
        index: of the entry, along every dimension.
        value: in the file.
        pruned_by: the step that pruned it; 0: it is kept, 255: pruned in the file.
        element_ranks: by step, up to the one that pruned it.
    """

    name: str
    index: tuple[int, ...]
    value: float
    pruned_by: int
    element_ranks: Mapping[int, ElementRank]
