"""Batched selection: many small tensors are concatenated and ranked as one, which is far faster.

Ties are pruned in the order of the tensors in any case, so a cut through them all is also a cut
through each. `bounds` has the start of each tensor, and the end of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, runtime_checkable

import numpy as np

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints
from prune_gui.pruning.kernels import batch_loops as batched_kernels
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.keys import (
    KeySource,
    Ranking,
    RemainingMask,
    are_compatible,
    joined,
    with_equal_nans,
)
from prune_gui.pruning.selection.radix_select import (
    MAX_SMALL_ELEMENTS,
    Cut,
    find_cuts,
    mark_codes,
    work,
)

MAX_BATCH_TENSORS: Final = 4096
"""Maximum number of tensors in a batch: some milliseconds of work, so that Cancel is prompt."""


def find_cuts_batched(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return the cuts of `find_cuts`; far faster for thousands of small tensors."""
    batches = list(batches_of_small(rankings))
    extra_bytes = sum(_extra_bytes(batch) for batch in batches)
    with monitor.plan(sum(work(ranking.keys) for ranking in rankings) + extra_bytes):
        groups = list(parallel.run(partial(_group, monitor=monitor), batches))
        cuts = find_cuts([group.ranking for group in groups], k, monitor)
        split = parallel.run(
            lambda pair: _split_cut(*pair, monitor), zip(groups, cuts, strict=True)
        )
        return [cut for group_cuts in split for cut in group_cuts]


def mark_batched(
    every: Sequence[KeySource], cuts: Sequence[Cut], bounds: Ints, step: int, codes: Codes
) -> None:
    """Apply `mark_codes` to whole concatenated tensors."""
    if all(are_compatible(keys, every[0]) for keys in every):
        _mark_each(joined(every), cuts, bounds, step, codes)
        return
    for keys, cut, start, stop in zip(every, cuts, bounds, bounds[1:], strict=False):
        mark_codes(keys, cut, 0, step, codes[start:stop])


def batches_of_small(rankings: Sequence[Ranking]) -> Iterator[list[Ranking]]:
    """Yield the rankings in order, in batches of small compatible ones and as single ones."""
    batch: list[Ranking] = []
    elements = 0
    for ranking in rankings:
        size = ranking.keys.size
        fits = (
            bool(batch)
            and len(batch) < MAX_BATCH_TENSORS
            and elements + size <= parallel.CHUNK_ELEMENTS
            and max(size, batch[0].keys.size) <= MAX_SMALL_ELEMENTS
            and are_compatible(ranking.keys, batch[0].keys)
        )
        if batch and not fits:
            yield batch
            batch, elements = [], 0
        batch.append(ranking)
        elements += size
    if batch:
        yield batch


def concatenate(batch: Sequence[Ranking]) -> tuple[Ranking, Ints]:
    """Return the rankings of a batch as one, without limits (`most`), and its bounds."""
    keys = tuple(ranking.keys for ranking in batch)
    bounds = np.cumsum([0, *(own.size for own in keys)])
    masks = tuple(ranking.remaining_mask for ranking in batch)
    remaining_mask = None if masks.count(None) == len(masks) else _ConcatenatedMasks(masks, bounds)
    return Ranking(joined(keys), remaining_mask), bounds


def prunable_counts(batch: Sequence[Ranking], remaining: Ints) -> Ints:
    """Return the number of prunable elements of each ranking, given those of remaining ones."""
    return np.minimum(np.array([ranking.limit for ranking in batch], np.int64), remaining)


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """A batch of rankings that are cut as one; `limits` prune `max_pruned` elements of each."""

    ranking: Ranking
    bounds: Ints | None = None
    limits: tuple[Cut, ...] | None = None


def _group(batch: Sequence[Ranking], monitor: Monitor) -> _Group:
    """Return a batch as one ranking, whose remaining mask excludes elements beyond the limits."""
    if len(batch) == 1:
        return _Group(batch[0])
    ranking, bounds = concatenate(batch)
    if not _has_limits(batch):
        return _Group(ranking, bounds)
    monitor.advance(ranking.nbytes)
    sorted_keys = SortedKeys.of(ranking.keys, ranking.remaining_mask, bounds)
    limits = tuple(sorted_keys.cut(prunable_counts(batch, sorted_keys.remaining)))
    remaining_mask = _MaskWithinLimits(ranking, bounds, limits)
    return _Group(replace(ranking, remaining_mask=remaining_mask), bounds, limits)


def _has_limits(batch: Sequence[Ranking]) -> bool:
    return any(ranking.max_pruned is not None for ranking in batch)


def _extra_bytes(batch: Sequence[Ranking]) -> int:
    nbytes = sum(ranking.nbytes for ranking in batch)
    return (len(batch) > 1) * (1 + _has_limits(batch)) * nbytes


@runtime_checkable
class BatchedMask(Protocol):
    """A remaining mask that can be computed for many whole tensors at once."""

    def __call__(self, start: int, stop: int) -> Flags:
        """Return a boolean array over the flat indices [start, stop), False where pruned."""

    @staticmethod
    def together(every: Sequence[RemainingMask | None], bounds: Ints) -> Flags:
        """Return the concatenated remaining masks of tensors."""


@dataclass(frozen=True, eq=False, slots=True)
class _ConcatenatedMasks:
    """The concatenated remaining masks of tensors; None if no element is pruned."""

    masks: tuple[RemainingMask | None, ...]
    bounds: Ints

    def __call__(self, start: int, stop: int) -> Flags:
        first = next(filter(None, self.masks))
        types = {type(mask) for mask in self.masks if mask}
        if isinstance(first, BatchedMask) and types == {type(first)}:
            return first.together(self.masks, self.bounds)[start:stop]
        remaining = np.ones(self.bounds[-1], np.bool_)
        for mask, begin, end in zip(self.masks, self.bounds, self.bounds[1:], strict=False):
            if mask is not None:
                remaining[begin:end] = mask(0, int(end - begin))
        return remaining[start:stop]


@dataclass(frozen=True, eq=False, slots=True)
class _MaskWithinLimits:
    """The remaining mask of concatenated rankings, False for elements that limits keep."""

    ranking: Ranking
    bounds: Ints
    limits: tuple[Cut, ...]

    def __call__(self, start: int, stop: int) -> Flags:
        keys, remaining_mask = self.ranking.keys, self.ranking.remaining_mask
        codes = np.zeros(keys.size, np.uint8)
        _mark_each(keys, self.limits, self.bounds, 1, codes)
        prunable = codes.view(np.bool_)
        if remaining_mask is not None:
            prunable = prunable & remaining_mask(0, keys.size)
        return prunable[start:stop]


def _mark_each(keys: KeySource, cuts: Sequence[Cut], bounds: Ints, step: int, codes: Codes) -> None:
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


def _split_cut(group: _Group, cut: Cut, monitor: Monitor) -> list[Cut]:
    ranking, bounds = group.ranking, group.bounds
    if bounds is None:
        return [cut]
    monitor.advance(ranking.nbytes)
    keys = with_equal_nans(ranking.keys, cut.threshold)
    bits = keys.bits(0, keys.size)
    key, first = bits.dtype.type, ranking.keys.first_non_finite
    counts = np.zeros((len(bounds) - 1, 4), np.int64)
    key_kernels.count_cut_of_each(
        bits,
        key(keys.magnitude),
        ranking.mask(0, keys.size),
        bounds,
        key(cut.threshold),
        cut.last_tie,
        key(keys.magnitude if first is None else first),
        counts,
    )
    below, ties, pruned_ties, non_finite = counts.T
    starts, ends = bounds[:-1], bounds[1:]
    last_ties = np.select(
        [pruned_ties == 0, pruned_ties == ties], [-1, ends - starts - 1], cut.last_tie - starts
    )
    if first is None:
        non_finite = np.zeros_like(non_finite)
    columns = (last_ties, below + pruned_ties, non_finite)
    cuts = [Cut(cut.threshold, *own) for own in zip(*(c.tolist() for c in columns), strict=True)]
    return cuts if group.limits is None else list(map(_lower, cuts, group.limits))


def _lower(cut: Cut, limit: Cut) -> Cut:
    if (limit.threshold, limit.last_tie) < (cut.threshold, cut.last_tie):
        return limit
    return replace(cut, non_finite=limit.non_finite)


@dataclass(frozen=True, eq=False, slots=True)
class SortedKeys:
    """The keys of concatenated tensors: in their order, and ascending within each tensor."""

    keys: Bits
    remaining_mask: Flags | None
    bounds: Ints
    ranked: Bits  # pruned elements are last
    remaining: Ints
    non_finite: Ints

    @classmethod
    def of(
        cls, source: KeySource, remaining_mask: RemainingMask | None, bounds: Ints
    ) -> SortedKeys:
        size, first = source.size, source.first_non_finite
        bits = with_equal_nans(source, source.magnitude).bits(0, size)
        keys: Bits = bits & bits.dtype.type(source.magnitude)
        mask = None if remaining_mask is None else remaining_mask(0, size)
        ranked = keys.copy() if mask is None else np.where(mask, keys, np.iinfo(keys.dtype).max)
        _sort(ranked, bounds)
        remaining = np.diff(bounds) if mask is None else _count(mask, bounds)
        non_finite = np.zeros_like(remaining)
        if first is not None:
            non_finite = _count(ranked >= first, bounds) - (np.diff(bounds) - remaining)
        return cls(keys, mask, bounds, ranked, remaining, non_finite)

    def cut(self, units: Ints) -> list[Cut]:
        """Return the cut of each tensor that prunes its `units` lowest keys, of ties the first."""
        thresholds = np.zeros(len(units), self.keys.dtype)
        last_ties = np.full(len(units), -1, np.int64)
        batched_kernels.cut_each(
            self.keys, self.remaining_mask, self.ranked, self.bounds, units, thresholds, last_ties
        )
        columns = (thresholds, last_ties, units, self.non_finite)
        return [Cut(*own) for own in zip(*(c.tolist() for c in columns), strict=True)]


def _sort(keys: Bits, bounds: Ints) -> None:
    """Sort the keys of each tensor in place; tensors of equal size are sorted in one call."""
    sizes = np.diff(bounds)
    for size in np.unique(sizes):
        if np.all(sizes == size):
            keys.reshape(-1, max(size, 1)).sort(axis=1)
            return
        indices = bounds[:-1][sizes == size, np.newaxis] + np.arange(size)
        keys[indices] = np.sort(keys[indices], axis=1)


def _count(marked: Flags, bounds: Ints) -> Ints:
    return np.diff(np.concatenate([[0], np.cumsum(marked)])[bounds])
