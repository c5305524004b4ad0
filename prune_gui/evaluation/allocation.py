"""How much of each group of parameters is pruned, at the same number of pruned elements in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HALVINGS: Final = 100
"""Steps of the bisection, after which float64 has no number left between its ends."""
LARGEST_OFFSET: Final = 100.0
"""Limit on the log-odds that are added to all groups."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many elements of a group are pruned, and may be.

    Attributes:
        least: pruned already by earlier steps.
        usual: pruned by the ranking that the allocation starts from.
        most: the most that may be pruned.
        size: all of them. least <= most <= size.
    """

    least: int
    usual: int
    most: int
    size: int

    def share(self, shift: float) -> float:
        """Return the elements to prune, if `shift` is added to the log-odds of the usual share."""
        usual = min(max(self.usual, 0.5), self.size - 0.5)
        odds = math.log(usual / (self.size - usual)) + shift
        return min(max(self.size / (1 + math.exp(-odds)), self.least), self.most)


def allocated(rooms: Sequence[Room], shifts: Sequence[float], total: int) -> tuple[int, ...]:
    """Return how many elements of each group to prune, `total` in all.

    Each group's log-odds log(p / (1 - p)) of its usual share p change by its shift and by an offset
    that is the same for all groups, so that the sum is exact; then counts are rounded down, and the
    groups with the largest remainders get one more, the first of equal ones.
    """
    low, high = -LARGEST_OFFSET, LARGEST_OFFSET
    for _ in range(HALVINGS):
        offset = (low + high) / 2
        if sum(map(Room.share, rooms, (shift + offset for shift in shifts))) < total:
            low = offset
        else:
            high = offset
    exact = [room.share(shift + high) for room, shift in zip(rooms, shifts, strict=True)]
    counts = [math.floor(share) for share in exact]
    while (missing := total - sum(counts)) > 0:
        open_ = [i for i, room in enumerate(rooms) if counts[i] < room.most]
        if not open_:
            break
        open_.sort(key=lambda i: counts[i] - exact[i])
        for i in open_[:missing]:
            counts[i] += 1
    return tuple(counts)
