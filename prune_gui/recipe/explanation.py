"""Why one weight was pruned, or kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prune_gui.pruning.predicates import ElementRank


@dataclass(frozen=True, slots=True)
class Explanation:
    """One element of a parameter, and its rank in every step that ranked it.

    Attributes:
        name: name of the parameter.
        index: index of the element, one number per dimension.
        value: its value in the file.
        pruned_by: the step that pruned it, from 1; 0 if it is kept, 255 if the file has it pruned.
        element_ranks: its rank by step number, up to the step that pruned it.
    """

    name: str
    index: tuple[int, ...]
    value: float
    pruned_by: int
    element_ranks: Mapping[int, ElementRank]
