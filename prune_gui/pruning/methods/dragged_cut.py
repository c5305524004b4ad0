"""The interface to a cut that the user drags, from which a method computes its amount."""

from __future__ import annotations

from typing import NamedTuple, Protocol

Setting = tuple[str, float]
"""The name of a field of a method, and its value."""


class UnitCounts(NamedTuple):
    """Numbers of units.

    Attributes:
        below: units up to the cut that no earlier step pruned.
        remaining: units that no earlier step pruned.
        total: all units.
    """

    below: int
    remaining: int
    total: int


class DraggedCut(Protocol):
    """The cut of a draft through the weights or scores of one parameter, before the change."""

    def up_to_weight(self, weight: float) -> UnitCounts | None:
        """Count the elements with at most an absolute weight, in all that the cut ranks together.

        None if the draft does not rank weights.
        """

    def up_to_score(self, score: float) -> UnitCounts:
        """Count the elements with at most a score, in all that the cut ranks together.

        The result is exact to one group of the score histogram.
        """

    def own_up_to_weight(self, weight: float) -> UnitCounts | None:
        """Count as `up_to_weight` does, but in the parameter of the dragged cut alone."""

    def of_targets(self) -> UnitCounts | None:
        """Count the elements of all targets; 0 below. None if earlier steps changed."""

    def own_pruned_with(self, **fields: object) -> int | None:
        """Return how many elements of the parameter the draft prunes with other field values.

        None if the draft is not applicable with them.
        """

    def score_of(self, weight: float) -> float | None:
        """Return the score of an absolute weight; None if the draft ranks no elements."""

    def standard_deviation(self) -> float:
        """Return the standard deviation of the scores of the parameter; NaN if it has none."""
