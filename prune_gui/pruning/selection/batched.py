"""Many small tensors ranked as one, laid end to end: to look at each by itself takes far longer.

Ties go in that order anyway, so a cut through all of them is a cut through each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.selection.batched_sort import SortedKeys
from prune_gui.pruning.selection.keys import (
    Bits,
    KeySource,
    RemainingMask,
    are_alike,
    bits_together,
    with_equal_nans,
)
from prune_gui.pruning.selection.radix_select import (
    SMALL,
    Cut,
    Ranking,
    find_cuts,
    mark_codes,
    work,
)

BATCH_TENSORS: Final = 4096
"""How many are, at most: some milliseconds of work, so that Cancel is prompt."""


def find_cuts_batched(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return what `find_cuts` does, far sooner where there are thousands of small tensors.

    Raises:
        Cancelled: the monitor said so.
    """
    runs = list(batches_of_small(rankings))
    again = sum(_read_again(run) for run in runs)
    with monitor.plan(sum(work(ranking.keys) for ranking in rankings) + again):
        groups = list(parallel.run(partial(_group, monitor=monitor), runs))
        cuts = find_cuts([group.ranking for group in groups], k, monitor)
        dealt = parallel.run(lambda pair: _deal(*pair, monitor), zip(groups, cuts, strict=True))
        return [own for every in dealt for own in every]


def mark_batched(
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
    if all(are_alike(keys, every[0]) for keys in every):
        _mark_each(_ConcatenatedKeys(tuple(every), bounds), cuts, bounds, step, codes)
        return
    for keys, cut, start, stop in zip(every, cuts, bounds, bounds[1:], strict=False):
        mark_codes(keys, cut, 0, step, codes[start:stop])


def batches_of_small(rankings: Sequence[Ranking]) -> Iterator[list[Ranking]]:
    """Cut rankings into runs of small ones that `batch_requests` can take, and single ones."""
    group: list[Ranking] = []
    entries = 0
    for ranking in rankings:
        size = ranking.keys.size
        fits = (
            bool(group)
            and len(group) < BATCH_TENSORS
            and entries + size <= parallel.CHUNK_ELEMENTS
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


def batch_requests(run: Sequence[Ranking]) -> tuple[Ranking, NDArray[np.int64]]:
    """Return rankings as one of which all may go, and where each begins and the last one ends."""
    keys = tuple(ranking.keys for ranking in run)
    bounds = np.cumsum([0, *(one.size for one in keys)])
    every = tuple(ranking.remaining_mask for ranking in run)
    remaining_mask = None if every.count(None) == len(every) else _RemainingOfEach(every, bounds)
    return Ranking(_ConcatenatedKeys(keys, bounds), remaining_mask), bounds


def may_go(run: Sequence[Ranking], there: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many entries of each ranking may go, where so many are there."""
    most = [ranking.keys.size if ranking.most is None else ranking.most for ranking in run]
    return np.minimum(np.array(most, np.int64), there)


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Rankings that are cut as one.

    Attributes:
        ranking: all of them as one.
        bounds: where each begins, and where the last one ends; None if it is but one.
        limits: the cuts that prune all that may go of each; None if everything may.
    """

    ranking: Ranking
    bounds: NDArray[np.int64] | None = None
    limits: tuple[Cut, ...] | None = None


def _group(run: Sequence[Ranking], monitor: Monitor) -> _Group:
    """Return rankings as one, of which no more is left to prune than may go of each."""
    if len(run) == 1:
        return _Group(run[0])
    ranking, bounds = batch_requests(run)
    if not _is_held(run):
        return _Group(ranking, bounds)
    monitor.advance(ranking.keys.size * ranking.keys.width)
    found = SortedKeys.of(ranking.keys, ranking.remaining_mask, bounds)
    limits = tuple(found.cut(may_go(run, found.there)))
    remaining_mask = _RemainingWithin(ranking, bounds, limits)
    return _Group(replace(ranking, remaining_mask=remaining_mask), bounds, limits)


def _is_held(run: Sequence[Ranking]) -> bool:
    """Tell whether any ranking may lose only so much."""
    return any(ranking.most is not None for ranking in run)


def _read_again(run: Sequence[Ranking]) -> int:
    """Return how many bytes of rankings are read beside what `find_cuts` does."""
    nbytes = sum(ranking.keys.size * ranking.keys.width for ranking in run)
    return (len(run) > 1) * (1 + _is_held(run)) * nbytes


@dataclass(frozen=True, eq=False)
class _ConcatenatedKeys:
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
class BatchedSearch(Protocol):
    """Tells which entries are still there, and of many whole tensors at once."""

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Do as every `RemainingMask` does."""

    @staticmethod
    def together(
        every: Sequence[RemainingMask | None], bounds: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return where entries of some tensors, one after the other, are still there.

        Args:
            every: of this kind; None where all entries are.
            bounds: where each tensor begins, and where the last one ends.
        """


@dataclass(frozen=True, eq=False, slots=True)
class _RemainingOfEach:
    """Tells which entries of some tensors, one after the other, are still there."""

    every: tuple[RemainingMask | None, ...]
    bounds: NDArray[np.int64]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        first = next(filter(None, self.every))
        if isinstance(first, BatchedSearch) and {type(one) for one in self.every if one} == {
            type(first)
        }:
            return first.together(self.every, self.bounds)[start:stop]
        there = np.ones(self.bounds[-1], np.bool_)
        for remaining_mask, begin, end in zip(
            self.every, self.bounds, self.bounds[1:], strict=False
        ):
            if remaining_mask is not None:
                there[begin:end] = remaining_mask(0, int(end - begin))
        return there[start:stop]


@dataclass(frozen=True, eq=False, slots=True)
class _RemainingWithin:
    """Tells which entries of joined rankings are still there, and not spared by limits."""

    ranking: Ranking
    bounds: NDArray[np.int64]
    limits: tuple[Cut, ...]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        keys, remaining_mask = self.ranking.keys, self.ranking.remaining_mask
        codes = np.zeros(keys.size, np.uint8)
        _mark_each(keys, self.limits, self.bounds, 1, codes)
        there = codes.view(np.bool_)
        return (there if remaining_mask is None else there & remaining_mask(0, keys.size))[
            start:stop
        ]


def _mark_each(
    keys: KeySource,
    cuts: Sequence[Cut],
    bounds: NDArray[np.int64],
    step: int,
    codes: NDArray[np.uint8],
) -> None:
    """Do as `mark_codes` for tensors, one after the other, each by its own cut."""
    keys = with_equal_nans(keys, max(cut.threshold for cut in cuts))
    bits = keys.bits(0, keys.size)
    key_kernels.mark_below_each(
        bits,
        bits.dtype.type(keys.magnitude),
        bounds,
        np.array([cut.threshold for cut in cuts], bits.dtype),
        np.array([cut.last_tie for cut in cuts], np.int64),
        np.uint8(step),
        codes,
    )


def _deal(group: _Group, cut: Cut, monitor: Monitor) -> list[Cut]:
    """Return what a cut through a group comes to in each of its rankings."""
    ranking, bounds = group.ranking, group.bounds
    if bounds is None:
        return [cut]
    monitor.advance(ranking.keys.size * ranking.keys.width)
    keys = with_equal_nans(ranking.keys, cut.threshold)
    bits = keys.bits(0, keys.size)
    key, first = bits.dtype.type, ranking.keys.first_non_finite
    found = np.zeros((len(bounds) - 1, 4), np.int64)
    key_kernels.count_cut_of_each(
        bits,
        key(keys.magnitude),
        None if ranking.remaining_mask is None else ranking.remaining_mask(0, keys.size),
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
    cuts = [Cut(cut.threshold, *own) for own in zip(*(c.tolist() for c in columns), strict=True)]
    return cuts if group.limits is None else list(map(_lower, cuts, group.limits))


def _lower(cut: Cut, limit: Cut) -> Cut:
    """Return a cut, or the limit if that lies below it."""
    if (limit.threshold, limit.last_tie) < (cut.threshold, cut.last_tie):
        return limit
    return replace(cut, non_finite=limit.non_finite)
