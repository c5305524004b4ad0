"""Many small tensors ranked as one, laid end to end: to look at each by itself takes far longer.

Ties go in that order anyway, so a cut through all of them is a cut through each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import kernels, parallel
from prune_gui.pruning.keys import (
    Alive,
    Bits,
    KeySource,
    are_alike,
    bits_together,
    with_equal_nans,
)
from prune_gui.pruning.selection import SMALL, Cut, Ranking, find_cuts, mark_codes, work

TOGETHER: Final = 4096
"""How many are, at most: some milliseconds of work, so that Cancel is prompt."""


def find_cuts_together(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return what `find_cuts` does, far sooner where there are thousands of small tensors.

    Raises:
        Cancelled: the monitor said so.
    """
    groups = list(_groups(rankings))
    joined = [_joined(group) for group in groups]
    again = sum(one.keys.size * one.keys.width for one in joined if isinstance(one.keys, _Joined))
    with monitor.plan(sum(work(one.keys) for one in joined) + again):
        cuts = find_cuts(joined, k, monitor)

        def deal(place: int) -> list[Cut]:
            ranking = joined[place]
            if not isinstance(ranking.keys, _Joined):
                return [cuts[place]]
            monitor.advance(ranking.keys.size * ranking.keys.width)
            return _deal(ranking, ranking.keys.bounds, cuts[place])

        return [own for dealt in parallel.run(deal, range(len(joined))) for own in dealt]


def mark_together(
    every: Sequence[KeySource],
    cuts: Sequence[Cut],
    bounds: NDArray[np.int64],
    step: int,
    codes: NDArray[np.uint8],
) -> None:
    """Do as `mark_codes` for whole tensors, one after the other.

    Args:
        every: the keys of each.
        cuts: through those.
        bounds: where each tensor begins, and where the last one ends.
        step: any code but 0.
        codes: of all entries.
    """
    alike = all(are_alike(keys, every[0]) for keys in every)
    highest = max(cut.threshold for cut in cuts)
    if not alike or with_equal_nans(every[0], highest) is not every[0]:
        for keys, cut, start, stop in zip(every, cuts, bounds, bounds[1:], strict=False):
            mark_codes(keys, cut, 0, step, codes[start:stop])
        return
    bits = bits_together(every)
    kernels.mark_below_each(
        bits,
        bits.dtype.type(every[0].magnitude),
        bounds,
        np.array([cut.threshold for cut in cuts], bits.dtype),
        np.array([cut.last_tie for cut in cuts], np.int64),
        np.uint8(step),
        codes,
    )


def _groups(rankings: Sequence[Ranking]) -> Iterator[list[Ranking]]:
    """Cut rankings into runs of small ones that can be joined, and single ones."""
    group: list[Ranking] = []
    entries = 0
    for ranking in rankings:
        size = ranking.keys.size
        fits = (
            bool(group)
            and len(group) < TOGETHER
            and entries + size <= parallel.CHUNK
            and ranking.most is group[0].most is None
            and max(size, group[0].keys.size) <= SMALL
            and are_alike(ranking.keys, group[0].keys)
        )
        if group and not fits:
            yield group
            group, entries = [], 0
        group.append(ranking)
        entries += size
    if group:
        yield group


def _joined(group: Sequence[Ranking]) -> Ranking:
    """Return rankings as one."""
    if len(group) == 1:
        return group[0]
    keys = tuple(ranking.keys for ranking in group)
    bounds = np.cumsum([0, *(one.size for one in keys)])
    every = tuple(ranking.alive for ranking in group)
    alive = None if every.count(None) == len(every) else _AliveOfEach(every, bounds)
    return Ranking(_Joined(keys, bounds), alive)


@dataclass(frozen=True, eq=False)
class _Joined:
    """The keys of some tensors that are alike, one tensor after the other.

    Attributes:
        members: the keys of each.
        bounds: int64, where each tensor begins, and where the last one ends.
    """

    members: tuple[KeySource, ...]
    bounds: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.bounds[-1])

    @property
    def width(self) -> int:
        """Bytes per key."""
        return self.members[0].width

    @property
    def magnitude(self) -> int:
        """Which of the bits make the key."""
        return self.members[0].magnitude

    @cached_property
    def first_non_finite(self) -> int | None:
        """The least key that stands for infinity or NaN."""
        return self.members[0].first_non_finite

    @cached_property
    def first_nan(self) -> int | None:
        """The least key that stands for NaN."""
        return self.members[0].first_nan

    def bits(self, start: int, stop: int) -> Bits:
        """Return the raw bits of the flat entries [start, stop)."""
        return bits_together(self.members)[start:stop]

    def value(self, key: int) -> float:
        """Return the number that a key stands for."""
        return self.members[0].value(key)


@runtime_checkable
class AskedTogether(Protocol):
    """Tells which entries are still there, and of many whole tensors at once."""

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Do as every `Alive` does."""

    @staticmethod
    def together(every: Sequence[Alive | None], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return where entries of some tensors, one after the other, are still there.

        Args:
            every: of this kind; None where all entries are.
            bounds: where each tensor begins, and where the last one ends.
        """


@dataclass(frozen=True, eq=False, slots=True)
class _AliveOfEach:
    """Tells which entries of some tensors, one after the other, are still there."""

    every: tuple[Alive | None, ...]
    bounds: NDArray[np.int64]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        first = next(filter(None, self.every))
        if isinstance(first, AskedTogether) and {type(one) for one in self.every if one} == {
            type(first)
        }:
            return first.together(self.every, self.bounds)[start:stop]
        there = np.ones(self.bounds[-1], np.bool_)
        for alive, begin, end in zip(self.every, self.bounds, self.bounds[1:], strict=False):
            if alive is not None:
                there[begin:end] = alive(0, int(end - begin))
        return there[start:stop]


def _deal(ranking: Ranking, bounds: NDArray[np.int64], cut: Cut) -> list[Cut]:
    """Return what a cut through joined rankings comes to in each of them."""
    keys = with_equal_nans(ranking.keys, cut.threshold)
    bits = keys.bits(0, keys.size)
    key, first = bits.dtype.type, ranking.keys.first_non_finite
    found = np.zeros((len(bounds) - 1, 4), np.int64)
    kernels.count_cut_of_each(
        bits,
        key(keys.magnitude),
        None if ranking.alive is None else ranking.alive(0, keys.size),
        bounds,
        key(cut.threshold),
        cut.last_tie,
        key(keys.magnitude if first is None else first),
        found,
    )
    below, there, go, odd = found.T
    starts, ends = bounds[:-1], bounds[1:]
    last_ties = np.select([go == 0, go == there], [-1, ends - starts - 1], cut.last_tie - starts)
    columns = (last_ties, below + go, odd if first is not None else np.zeros_like(odd))
    return [Cut(cut.threshold, *own) for own in zip(*(c.tolist() for c in columns), strict=True)]
