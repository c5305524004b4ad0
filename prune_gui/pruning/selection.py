"""The exact k smallest of any set of tensors, by counting: no sort, no copy, no concatenation.

The keys of all tensors are counted by their leading 16 bits; the bin in which the k-th smallest
lies is counted by the next 16, and so on: one pass over 8- and 16-bit types, two over 32-bit ones.
What comes out is a number or two per tensor, and does not depend on the order of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import kernels, parallel
from prune_gui.pruning.keys import Alive, KeySource, TensorKeys, ranking_dtype

DIGIT_BITS = 16


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entries that a step may prune: their keys, and which of them are still there (None: all)."""

    keys: KeySource
    alive: Alive | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an unstructured step stops pruning one parameter.

    Entries whose key is below `threshold` go; of those equal to it, the ones whose flat index is at
    most `last_tie`.

    Attributes:
        threshold: a key.
        last_tie: a flat index; -1 where no tie goes.
        pruned: how many entries still there before go.
        non_finite: how many of them are NaN or infinite; they rank as the largest.
    """

    threshold: int
    last_tie: int
    pruned: int
    non_finite: int = 0


@dataclass(frozen=True, slots=True)
class _Counts:
    """How often each value of a digit occurs in one ranking, for those that do occur."""

    values: NDArray[np.intp]
    counts: NDArray[np.int64]

    def below(self, value: int) -> int:
        return int(self.counts[: np.searchsorted(self.values, value)].sum())

    def at(self, value: int) -> int:
        return self.below(value + 1) - self.below(value)


def find_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return the cut of each ranking that together prune the `k` smallest keys of all of them.

    Of equal keys the earlier ranking's go first, then those of lower flat index.

    Args:
        rankings: all of the same key width; at least `k` entries in all that are still there.
        k: how many entries to prune.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    width = {ranking.keys.width for ranking in rankings}.pop()
    monitor.expect(sum(work(ranking.keys) for ranking in rankings))
    pruned = [0] * len(rankings)
    non_finite = [0] * len(rankings)
    prefix, wanted = 0, k
    for above in range(8 * width, 0, -DIGIT_BITS):
        counts = _count(rankings, above, prefix, monitor)
        if above == 8 * width:
            non_finite = [_non_finite(*pair) for pair in zip(rankings, counts, strict=True)]
        values, totals = _add(counts)
        reached = np.cumsum(totals)
        place = int(np.searchsorted(reached, max(wanted, 1)))
        digit = int(values[place]) if place < len(values) else 0
        pruned = [a + b.below(digit) for a, b in zip(pruned, counts, strict=True)]
        wanted -= sum(count.below(digit) for count in counts)
        prefix = prefix << min(DIGIT_BITS, above) | digit
    cuts = []
    for i, ranking in enumerate(rankings):
        there = counts[i].at(digit)
        ties = min(wanted, there)
        wanted -= ties
        if ties == 0:
            last = -1
        elif ties == there:
            last = ranking.keys.size - 1
        else:
            last = _tie(ranking, prefix, ties, monitor)
        cuts.append(Cut(prefix, last, pruned[i] + ties, non_finite[i]))
    return cuts


def work(keys: KeySource) -> int:
    """Return how many bytes `find_cuts` reads to rank these keys, over all its passes."""
    return keys.size * keys.width * math.ceil(8 * keys.width / DIGIT_BITS)


def smallest(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Mark the `k` entries of least absolute value.

    Args:
        scores: any real floating type, shape and strides, on the CPU.
        k: between 0 and the number of entries.

    Returns:
        A boolean tensor of the same shape, True at the k smallest. Of equal scores the lower flat
        index goes first; NaN ranks above infinity, infinity above every number.
    """
    contiguous = scores.contiguous()
    keys = TensorKeys(lambda: contiguous, scores.numel(), ranking_dtype({scores.dtype}))
    [cut] = find_cuts([Ranking(keys)], k, Monitor())
    marked = np.empty(keys.size, np.bool_)

    def fill(stretch: tuple[int, int]) -> None:
        marked[slice(*stretch)] = mark(keys, cut, *stretch)

    for _ in parallel.run(fill, parallel.chunks(keys.size)):
        pass
    return torch.from_numpy(marked).view(scores.shape)


def mark(keys: KeySource, cut: Cut, start: int, stop: int) -> NDArray[np.bool_]:
    """Return a boolean array over the flat entries [start, stop), True where `cut` prunes."""
    bits = keys.bits(start, stop)
    as_key = bits.dtype.type
    out = np.empty(stop - start, np.bool_)
    kernels.mark_below(
        bits, as_key(keys.magnitude), as_key(cut.threshold), cut.last_tie - start, out
    )
    return out


def _count(rankings: Sequence[Ranking], above: int, prefix: int, monitor: Monitor) -> list[_Counts]:
    """Count the digit just under bit `above` among keys that begin with `prefix`."""
    shift = max(above - DIGIT_BITS, 0)
    digit = (1 << (above - shift)) - 1

    def count(task: tuple[int, int, int]) -> tuple[int, NDArray[np.int64]]:
        index, start, stop = task
        ranking = rankings[index]
        bits = ranking.keys.bits(start, stop)
        alive = None if ranking.alive is None else ranking.alive(start, stop)
        key = bits.dtype.type
        magnitude = key(ranking.keys.magnitude)
        counts = np.zeros(digit + 1, np.int64)
        if above == 8 * ranking.keys.width:
            kernels.count_digits(bits, magnitude, alive, key(shift), key(digit), counts)
        else:
            kernels.count_digits_below(
                bits, magnitude, alive, key(shift), key(digit), key(above), key(prefix), counts
            )
        monitor.advance(bits.nbytes)
        return index, counts

    tasks = [
        (index, *stretch)
        for index, ranking in enumerate(rankings)
        for stretch in parallel.chunks(ranking.keys.size)
    ]
    found = [_sparse(np.zeros(0, np.int64)) for _ in rankings]
    for index, parts in groupby(parallel.run(count, tasks), key=itemgetter(0)):
        total = np.zeros(digit + 1, np.int64)
        for _, counts in parts:
            total += counts
        found[index] = _sparse(total)
    return found


def _sparse(counts: NDArray[np.int64]) -> _Counts:
    values = np.flatnonzero(counts)
    return _Counts(values, counts[values])


def _add(parts: Sequence[_Counts]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Add the counts of all rankings: the values that occur, ascending, and how often."""
    values, where = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    totals = np.zeros(len(values), np.int64)
    np.add.at(totals, where, np.concatenate([part.counts for part in parts]))
    return values, totals


def _non_finite(ranking: Ranking, counts: _Counts) -> int:
    """Count NaN and infinity: in every float type they fill whole values of the leading digit."""
    first = ranking.keys.first_non_finite
    if first is None:
        return 0
    shift = max(8 * ranking.keys.width - DIGIT_BITS, 0)
    return int(counts.counts.sum()) - counts.below(first >> shift)


def _tie(ranking: Ranking, threshold: int, ordinal: int, monitor: Monitor) -> int:
    """Return the flat index of the `ordinal`-th entry still there whose key is `threshold`."""
    left = ordinal
    for start, stop in parallel.chunks(ranking.keys.size):
        monitor.advance()
        bits = ranking.keys.bits(start, stop)
        alive = None if ranking.alive is None else ranking.alive(start, stop)
        key = bits.dtype.type
        place, passed = kernels.find_tie(
            bits, key(ranking.keys.magnitude), alive, key(threshold), left
        )
        if place >= 0:
            return start + place
        left -= passed
    raise AssertionError("fewer ties than were counted")
