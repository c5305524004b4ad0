"""The recipes that the trials of a search choose from: a ranking with other shares and powers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from prune_gui.architecture.blocks import natural_key
from prune_gui.evaluation.portfolio import NamedRanking
from prune_gui.evaluation.trials import names_by_group
from prune_gui.pruning.decisions.target import max_prunable
from prune_gui.recipe.patterns import patterns_for

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution


Interval = tuple[float, float]

DECIMALS: Final = 2
"""All numbers are multiples of 0.01."""
MAX_GROUPS: Final = 12
MAX_SHIFT: Final = 1.0
"""Limit on the change of the log-odds of a group's share."""
POWERS: Final = ("row_power", "column_power")
LIMIT: Final = "max_sparsity"


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """The elements of a parameter: pruned by earlier steps, with the step of the ranking, all."""

    earlier: int
    usual: int
    size: int

    def most(self, limit: float) -> int:
        """Return how many may be pruned if the sparsity is limited."""
        remaining = self.size - self.earlier
        return self.earlier + max_prunable(limit, remaining=remaining, total=self.size)


class TuningSpace:
    """The numbers that can be varied around a ranking at a sparsity, and the recipes they give.

    A recipe has one step for each group of parameters, and prunes as many elements as the ranking.

    Attributes:
        intervals: the lowest and highest value of each number by name: a shift of the log-odds of
            the share of each group (see `allocated`); the powers of row and column, if the ranking
            has them; the limit on the sparsity of a parameter, if it has one.
        origin: the numbers that give what the ranking itself prunes, rounded.
    """

    def __init__(self, ranking: NamedRanking, resolution: Resolution, amount: float) -> None:
        self._ranking = ranking
        method = resolution.recipe.steps[-1].method
        self._ranks_elements = method.unit == "entry" and method.ranking_scope == "global"
        pruned, counts = resolution.outcomes[-1].pruned, resolution.counts
        groups = _groups(list(pruned))
        tensors = resolution.checkpoint.tensors.values()
        self._patterns = [patterns_for(names, tensors) for names in groups.values()]
        self._members = [
            [ParameterCounts(counts[name][0] - pruned[name], *counts[name]) for name in names]
            for names in groups.values()
        ]
        self._total = sum(member.usual for group in self._members for member in group)
        self._shifts = [f"shift {label}" for label in groups] if len(groups) > 1 else []
        around: Interval = (-MAX_SHIFT, MAX_SHIFT)
        self.intervals = dict.fromkeys(self._shifts, around)
        self.origin = dict.fromkeys(self._shifts, 0.0)
        fields = type(method).model_fields
        self._own: list[str] = [name for name in (*POWERS, LIMIT) if name in fields]
        for name in self._own:
            self.origin[name] = round(getattr(method, name), DECIMALS)
            half_kept = math.ceil((1 + amount) / 2 * 10**DECIMALS) / 10**DECIMALS
            lowest = round(half_kept, DECIMALS) if name == LIMIT else 0.0
            self.intervals[name] = (min(lowest, self.origin[name]), 1.0)

    def steps(self, numbers: Mapping[str, float]) -> Iterator[dict[str, object]]:
        """Yield the steps for some numbers in the intervals, as in a recipe file."""
        own = {name: numbers[name] for name in self._own}
        limit = own.get(LIMIT, 1.0)
        rooms = [_room(group, limit) for group in self._members]
        shifts = [numbers.get(name, 0.0) for name in self._shifts] or [0.0]
        counts = allocated(rooms, shifts, self._total)
        for patterns, room, count in zip(self._patterns, rooms, counts, strict=True):
            amount = count if self._ranks_elements else count / room.size
            step = self._ranking.step(patterns, amount)
            yield {**step, **own, "amount": amount, "amount_of": "reach"}


def _room(group: Sequence[ParameterCounts], limit: float) -> Room:
    return Room(
        sum(member.earlier for member in group),
        sum(member.usual for member in group),
        sum(member.most(limit) for member in group),
        sum(member.size for member in group),
    )


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Return at most `MAX_GROUPS` groups of parameters by label.

    The parameters themselves, or those with the same first parts of their names, as many parts as
    fit. If these are less than half of `MAX_GROUPS`, one part more, and neighbours are merged.
    """
    depth = 1 + max(name.count(".") for name in names)
    finer = groups = names_by_group(names, depth)
    while len(groups) > MAX_GROUPS:
        depth -= 1
        finer, groups = groups, names_by_group(names, depth)
    if len(groups) < MAX_GROUPS / 2 < len(finer):
        return dict(_merged(finer))
    return groups


def _merged(groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield `MAX_GROUPS` runs of consecutive groups."""
    labels = sorted(groups, key=natural_key)
    for start, stop in pairwise(i * len(labels) // MAX_GROUPS for i in range(MAX_GROUPS + 1)):
        run = labels[start:stop]
        label = run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
        yield label, [name for each in run for name in groups[each]]


HALVINGS: Final = 100
"""Steps of the bisection, after which float64 has no number left between its ends."""
LARGEST_OFFSET: Final = 100.0
"""Limit on the log-odds that are added to all groups."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many elements of a group are pruned by earlier steps and by the ranking, and may be."""

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
