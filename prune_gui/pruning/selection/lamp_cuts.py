"""Selection of the k elements of lowest LAMP score in any set of tensors, without a sort or a copy.

score(w) = w^2 / (sum of v^2 over the elements v of the tensor with |v| >= |w|): Lee et
al., "Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021.

Within a tensor the score grows with |w|. A *group* is the set of keys with the same leading
bits. The counts of groups bound the sum of the squares above each, and so the scores of its
elements; a pass over a group adds up exactly what is above it. The groups of all tensors then bound
the k-th lowest score, and only groups that overlap these bounds are split further. In a 16-bit type
the first pass resolves every single key. In a 32-bit type it leaves about one group per tensor, and
the second pass resolves each key of that group. A third pass reads few tensors, if any. Small
tensors are joined to batches, and the keys of each are sorted on every pass: that gives the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.pruning.arrays import Flags, Ints, Numbers
from prune_gui.pruning.kernels import batch_loops as batched_kernels
from prune_gui.pruning.kernels.key_loops import count_digits_between
from prune_gui.pruning.selection.batched import (
    SortedKeys,
    batches_of_small,
    concatenate,
    prunable_counts,
)
from prune_gui.pruning.selection.digit_histograms import DIGIT_BITS, key_parts, span_histogram
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.keys import KeySource, Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut, find_cuts, nth_tie, work


def find_lamp_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return a cut per ranking; together they prune the `k` elements of lowest LAMP score.

    Elements of equal score are pruned in the order of rankings, then of keys, then of flat indices.
    Non-finite numbers rank highest and are left out of the sums. Scores are float64; the sums of
    squares do not depend on the number of threads. `rankings` have `ScoreKeys`, of any dtypes.
    """
    groups = [_groups(batch) for batch in batches_of_small(rankings)]
    with monitor.plan(sum(own.work for own in groups)):
        _split(groups, dict.fromkeys(range(len(groups)), 0), monitor)
        for attempt in count():
            table = _GroupTable.of(groups)
            unclear = table.unclear(k, halve=attempt % 2 == 1)
            if not unclear:
                break
            _split(groups, unclear, monitor)
        taken = zip(groups, np.split(table.take(k), table.ends[:-1]), strict=True)
        cuts = parallel.run(lambda pair: pair[0].cuts(pair[1], monitor), taken)
        return [cut for own in cuts for cut in own]


def _groups(batch: Sequence[Ranking]) -> ScoreGroups:
    return BatchedGroups.whole(batch) if len(batch) > 1 else TensorGroups.whole(batch[0])


@dataclass(frozen=True, slots=True)
class _GroupTable:
    """The groups of all owners (tensors or batches) in order, one array element per group.

    `ends` are the numbers of groups up to the end of each owner.
    """

    ends: Ints
    single: Flags  # whether all elements have the same score
    min_scores: Numbers
    max_scores: Numbers
    units: Ints

    @classmethod
    def of(cls, owners: Sequence[ScoreGroups]) -> _GroupTable:
        ends = np.cumsum([len(own.bits) for own in owners])
        size = ends[-1]  # millions for large models, so nothing is stored twice
        single, units = np.empty(size, np.bool_), np.empty(size, np.int64)
        min_scores, max_scores = np.empty(size), np.empty(size)
        for own, end in zip(owners, ends.tolist(), strict=True):
            rows = slice(end - len(own.bits), end)
            single[rows], units[rows] = own.bits == 0, own.units
            min_scores[rows], max_scores[rows] = own.bounds()
        return cls(ends, single, min_scores, max_scores, units)

    def unclear(self, k: int, *, halve: bool) -> dict[int, int]:
        """Return, by owner, the index of a group to split before the k lowest scores are known.

        Each owner with unclear groups has one: the nearest to an estimate of the k-th lowest score.
        With `halve`, the estimate is the median of the unclear groups, so that their number falls
        fast for any distribution of scores.
        """
        if k == 0:
            return {}
        low, high = (
            _kth_lowest(bounds, self.units, k) for bounds in (self.min_scores, self.max_scores)
        )
        overlaps = (self.units > 0) & (self.min_scores <= high) & (self.max_scores >= low)
        unclear = np.flatnonzero(overlaps & ~self.single)
        if not unclear.size:
            return {}
        if halve:
            estimate = float(np.median(self.min_scores[unclear]))
        else:
            below = int(self.units[self.max_scores < low].sum())
            estimate = self._estimate(np.flatnonzero(overlaps), k - below, low, high)
        distances = np.maximum(
            self.min_scores[unclear] - estimate, estimate - self.max_scores[unclear]
        )
        every_owner = np.searchsorted(self.ends, unclear, "right")
        order = np.lexsort((distances, every_owner))
        owners, first = np.unique(every_owner[order], return_index=True)
        starts = np.append(0, self.ends)[owners]
        indices = unclear[order[first]] - starts
        return dict(zip(owners.tolist(), indices.tolist(), strict=True))

    def _estimate(self, some: NDArray[np.intp], k: int, low: float, high: float) -> float:
        """Estimate the k-th lowest score of some groups, as if scores within each were uniform."""
        min_scores, units = self.min_scores[some], self.units[some]
        widths = np.maximum(self.max_scores[some] - min_scores, 1e-300)
        for _ in range(60):
            middle = (low + high) / 2
            if (units * np.clip((middle - min_scores) / widths, 0, 1)).sum() < k:
                low = middle
            else:
                high = middle
        return high

    def take(self, k: int) -> Ints:
        """Return the number of elements to prune of each group, of equal scores the first."""
        taken = np.zeros_like(self.units)
        if k:
            cut = _kth_lowest(self.min_scores, self.units, k)
            below, ties = self.min_scores < cut, self.min_scores == cut
            taken[below], units = self.units[below], self.units[ties]
            taken[ties] = np.clip(k - taken.sum() - (np.cumsum(units) - units), 0, units)
        return taken


def _kth_lowest(scores: Numbers, units: Ints, k: int) -> float:
    """Return the k-th lowest score, from 1, of groups that have as many elements as `units`."""
    bits = scores.view(np.int64)  # no score is negative: their bits order as they do
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        digits = bits >> shift & ((1 << DIGIT_BITS) - 1)
        up_to = np.cumsum(np.bincount(digits, units))
        digit = int(np.searchsorted(up_to, k))
        k -= int(up_to[digit - 1]) if digit else 0
        own = digits == digit
        bits, units = bits[own], units[own]
    return float(bits.view(np.float64)[0])


def _split(groups: list[ScoreGroups], chosen: Mapping[int, int], monitor: Monitor) -> None:
    """Replace the chosen group of each owner in `chosen` by its parts, in one pass over them."""
    readers = {owner: groups[owner].readers(index) for owner, index in chosen.items()}
    batches = [(owner, own[0]) for owner, own in readers.items() if len(own) == 1]
    spans = [(owner, read) for owner, own in readers.items() if len(own) > 1 for read in own]
    results = chain(
        parallel.run(partial(_read, monitor=monitor), batches),
        parallel.spread(_read, spans, monitor),
    )
    for owner, parts in groupby(results, key=itemgetter(0)):
        groups[owner] = groups[owner].with_parts(chosen[owner], [part for _, part in parts])


def _read(task: tuple[int, Callable[[Monitor], Part]], monitor: Monitor) -> tuple[int, Part]:
    owner, read = task
    return owner, read(monitor)


PARTIAL_SUMS: Final = 256
"""Partial sums of squares, which let the loop over the numbers be vectorized."""
MAX_SQUARE: Final = 1e280
"""Larger squares, as of infinity, are reduced to this, so that their sums are finite."""
MIN_EXPONENT: Final = -1000
"""Minimum exponent of the scale of a tensor: 2 to its negative is still finite."""
NON_FINITE_SCORE: Final = 2.0
"""The score of NaN and infinity; the largest finite number of a tensor scores 1."""

Part = tuple[Any, ...]
"""The result of one pass over a group: mostly arrays with an element per part."""


@dataclass(frozen=True, slots=True)
class TensorGroups:
    """Groups of the keys of one ranking, by their leading bits, ascending.

    `bits` are the numbers of unknown trailing bits: a group of 0 bits is a single key. `above` is
    at most the sum of the squares above a group, and `sums` at least that with the squares of the
    group. Both are exact for a single key. Non-finite numbers have no part in them. float64 numbers
    are divided by 2 to the `exponent` before they are squared, so that squares do not overflow; the
    scores stay the same.
    """

    ranking: Ranking
    first: Ints
    bits: Ints
    counts: Ints
    above: Numbers
    sums: Numbers
    exponent: int

    @classmethod
    def whole(cls, ranking: Ranking) -> TensorGroups:
        bits = np.array([8 * ranking.keys.width - 1])
        none, nothing = np.zeros(1, int), np.zeros(1)
        return cls(ranking, none, bits, none, nothing, nothing, largest_exponent(ranking))

    @property
    def units(self) -> Ints:
        before = np.cumsum(self.counts) - self.counts
        units: Ints = np.clip(self.ranking.limit - before, 0, self.counts)
        return units

    @property
    def work(self) -> int:
        return work(self.ranking.keys)

    def bounds(self) -> tuple[Numbers, Numbers]:
        """Return the lower and the upper bound of the scores of each group.

        Elements with keys from a to b score a^2 / `sums` at least, b^2 / (b^2 + `above`) at most.
        """
        sums, squares = self.sums, self._squares(self.first)
        low = np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)
        top = self._squares(self.first + (1 << self.bits) - 1)
        high = np.divide(top, top + self.above, out=np.ones_like(sums), where=top > 0)
        non_finite = _non_finite(self.ranking.keys, self.first)
        low[non_finite] = high[non_finite] = NON_FINITE_SCORE
        return low, np.where(self.bits > 0, high, low)

    def readers(self, index: int) -> list[Callable[[Monitor], Part]]:
        above, shift = int(self.bits[index]), self._shift(index)
        count = partial(
            _count_parts, self.ranking, above, shift, int(self.first[index]) >> above, self.exponent
        )
        return [partial(count, *span) for span in parallel.chunks(self.ranking.keys.size)]

    def with_parts(self, index: int, results: Sequence[Part]) -> TensorGroups:
        shift = self._shift(index)
        table = np.zeros(1 << (int(self.bits[index]) - shift), np.int64)
        for digits, some_counts, _ in results:
            table[digits] += some_counts
        above_all = sum(sum_above for _, _, sum_above in results)  # in order: this rounds
        occur = np.flatnonzero(table)
        first, counts = self.first[index] + (occur << shift), table[occur]
        finite = ~_non_finite(self.ranking.keys, first)

        def sums(keys: Ints) -> Numbers:
            of_each = np.where(finite, counts * self._squares(keys), 0.0)
            total: Numbers = above_all + np.cumsum(of_each[::-1])[::-1]
            return total

        least = np.append(sums(first), above_all)
        parts = first, np.full_like(first, shift), counts, least[1:], sums(first + (1 << shift) - 1)
        own = self.first, self.bits, self.counts, self.above, self.sums
        pairs = zip(own, parts, strict=True)
        columns = (np.concatenate([a[:index], b, a[index + 1 :]]) for a, b in pairs)
        first, bits, counts, above, all_sums = columns
        above[max(index - 1, 0) : index] = least[0]  # the neighbours, which may be near the cut
        all_sums[index + len(occur) :][:1] = above_all
        return replace(self, first=first, bits=bits, counts=counts, above=above, sums=all_sums)

    def cuts(self, taken: Ints, monitor: Monitor) -> list[Cut]:
        ranking, pruned = self.ranking, int(taken.sum())
        non_finite = int(self.counts[_non_finite(ranking.keys, self.first)].sum())
        if pruned == 0:
            return [Cut(0, -1, 0, non_finite)]
        last = int(np.flatnonzero(taken)[-1])
        # Either all prunable elements of the group are taken, so it was never split; or it is
        # non-finite, and NaN has many keys.
        if self.bits[last] or _non_finite(ranking.keys, self.first[last : last + 1]).any():
            return find_cuts([ranking], pruned, monitor)
        key, ties = int(self.first[last]), int(taken[last])
        all_pruned = ties == self.counts[last]
        last_tie = ranking.keys.size - 1 if all_pruned else nth_tie(ranking, key, ties)
        return [Cut(key, last_tie, pruned, non_finite)]

    def _squares(self, keys: Ints) -> Numbers:
        assert isinstance(self.ranking.keys, ScoreKeys)
        return squares_of(keys, self.ranking.keys.dtype, self.exponent)

    def _shift(self, index: int) -> int:
        return max(int(self.bits[index]) - DIGIT_BITS, 0)


def _count_parts(
    ranking: Ranking,
    above: int,
    shift: int,
    prefix: int,
    exponent: int,
    start: int,
    stop: int,
    monitor: Monitor,
) -> Part:
    """Return which parts of a group occur in [start, stop), and their counts.

    The last result is the sum of the squares of the finite numbers above the group.
    """
    width, first_non_finite = ranking.keys.width, ranking.keys.first_non_finite
    squares = np.zeros(PARTIAL_SUMS)
    assert first_non_finite is not None
    if above == 8 * width - 1:  # all keys
        histogram = span_histogram(ranking, shift, 8 * width, 0, start, stop)
    else:
        counts = np.zeros(1 << (above - shift), np.uint32)
        for bits, mask in key_parts(ranking, start, stop):
            key, first, end = bits.dtype.type, prefix << above, (prefix + 1) << above
            magnitude, digits = key(ranking.keys.magnitude), (key(shift), key(len(counts) - 1))
            count_digits_between(bits, magnitude, mask, key(first), key(end - 1), *digits, counts)
            finite = key(end), key(first_non_finite)
            numbers = bits.view(f"f{width}")
            batched_kernels.add_squares(
                bits, numbers, magnitude, mask, *finite, 2.0**-exponent, squares
            )
        histogram = DigitHistogram.of(counts)
    monitor.advance((stop - start) * width)
    return histogram.values, histogram.counts, squares.sum()


def squares_of(
    keys: NDArray[np.integer[Any]], dtype: torch.dtype, exponents: int | Ints = 0
) -> Numbers:
    """Return the squares of the numbers of keys, times 2 to minus twice the exponents."""
    values = numbers_of(keys, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(values, -exponents) if dtype == torch.float64 else values
        squares: Numbers = np.minimum(scaled * scaled, MAX_SQUARE)
    return squares


def numbers_of(keys: NDArray[np.integer[Any]], dtype: torch.dtype) -> Numbers:
    """Return the numbers of keys, as float64."""
    values = torch.from_numpy(keys.astype(f"i{dtype.itemsize}")).view(dtype)
    numbers: Numbers = values.double().numpy()
    return numbers


def largest_exponent(ranking: Ranking) -> int:
    """Return the exponent of the largest remaining finite number; 0 for dtypes but float64."""
    keys = ranking.keys
    assert isinstance(keys, ScoreKeys)
    if keys.dtype != torch.float64:
        return 0

    largest = partial(_largest_key, ranking)
    key = max(parallel.spread(largest, parallel.chunks(keys.size), Monitor()), default=0)
    return max(int(np.frexp(numbers_of(np.array([key]), keys.dtype))[1][0]), MIN_EXPONENT)


def _largest_key(ranking: Ranking, span: tuple[int, int], _monitor: Monitor) -> int:
    keys = ranking.keys
    assert isinstance(keys, ScoreKeys)
    span_keys = keys.bits(*span) & np.uint64(keys.magnitude)
    finite = span_keys < keys.first_non_finite
    if ranking.remaining_mask is not None:
        finite &= ranking.remaining_mask(*span)
    return int(span_keys.max(initial=0, where=finite))


def _non_finite(source: KeySource, keys: Ints) -> Flags:
    assert source.first_non_finite is not None
    return keys >= source.first_non_finite


SCORE_BITS: Final = 63
"""Bits of a score: float64 without the sign, which orders as an integer."""
OPEN_BITS: Final = 44
"""Trailing score bits that the first pass ignores: its groups are less than 0.5 % wide."""
PASSES: Final = 3
"""Usual number of passes: by leading bits, over the scores near the cut, to cut each tensor."""
NO_TENSOR: Final = -1


@dataclass(frozen=True, slots=True)
class BatchedGroups:
    """Groups of the LAMP scores in small tensors, by their leading bits, ascending.

    `first` are the bits of the lowest score of each group, and `bits` the numbers of unknown
    trailing bits: a group of 0 bits is a single score, of one of the `tensors`; others have
    `NO_TENSOR`.
    """

    batch: Sequence[Ranking]
    first: Ints
    bits: Ints
    units: Ints
    tensors: Ints

    @classmethod
    def whole(cls, batch: Sequence[Ranking]) -> BatchedGroups:
        zeros = np.zeros(1, np.int64)
        return cls(batch, zeros, zeros + SCORE_BITS, zeros, zeros + NO_TENSOR)

    @property
    def nbytes(self) -> int:
        return sum(ranking.nbytes for ranking in self.batch)

    @property
    def work(self) -> int:
        return PASSES * self.nbytes

    def bounds(self) -> tuple[Numbers, Numbers]:
        last = self.first + (1 << self.bits) - 1
        return self.first.view(np.float64), last.view(np.float64)

    def readers(self, index: int) -> list[Callable[[Monitor], Part]]:
        return [partial(self._parts, index)]

    def with_parts(self, index: int, results: Sequence[Part]) -> BatchedGroups:
        [parts] = results
        columns = zip((self.first, self.bits, self.units, self.tensors), parts, strict=True)
        return BatchedGroups(
            self.batch, *(np.concatenate([a[:index], b, a[index + 1 :]]) for a, b in columns)
        )

    def cuts(self, taken: Ints, monitor: Monitor) -> list[Cut]:
        ranked, scores, prunable = self._scores(monitor)
        units = np.zeros_like(prunable)
        if taken.any():
            last = int(np.flatnonzero(taken)[-1])
            tensor, ties = int(self.tensors[last]), int(taken[last])
            limit = int(self.first[last]) + (0 if tensor != NO_TENSOR else 1 << self.bits[last])
            batched_kernels.count_up_to(scores, ranked.bounds, prunable, limit, tensor - 1, units)
            if tensor != NO_TENSOR:
                units[tensor] += ties
        return ranked.cut(units)

    def _parts(self, index: int, monitor: Monitor) -> Part:
        """Return the non-empty parts of a group: narrower groups, or scores tensor by tensor."""
        ranked, scores, prunable = self._scores(monitor)
        if self.bits[index] > OPEN_BITS:
            max_bits = int(np.float64(NON_FINITE_SCORE).view(np.int64))
            counts = np.zeros((max_bits >> OPEN_BITS) + 1, np.int64)
            batched_kernels.count_leading_of_each(
                scores, ranked.bounds, prunable, OPEN_BITS, counts
            )
            occur = np.flatnonzero(counts)
            zeros = np.zeros_like(occur)
            return occur << OPEN_BITS, zeros + OPEN_BITS, counts[occur], zeros + NO_TENSOR
        lowest = int(self.first[index])
        last = lowest + (1 << int(self.bits[index])) - 1
        rows = np.empty((self.units[index], 3), np.int64)
        count = batched_kernels.list_between(scores, ranked.bounds, prunable, lowest, last, rows)
        first, tensors, units = rows[np.argsort(rows[:count, 0], kind="stable")].T
        return first, np.zeros_like(first), units, tensors

    def _scores(self, monitor: Monitor) -> tuple[SortedKeys, Ints, Ints]:
        """Return sorted keys, the bits of their scores, and the prunable counts of tensors."""
        monitor.advance(self.nbytes)
        ranking, bounds = concatenate(self.batch)
        ranked = SortedKeys.of(ranking.keys, ranking.remaining_mask, bounds)
        first = self.batch[0].keys
        assert isinstance(first, ScoreKeys)
        exponents: int | Ints = 0
        if first.dtype == torch.float64:
            exponents = np.repeat(_largest_exponents(ranked), np.diff(bounds))
        scores = np.zeros(len(ranked.keys))
        batched_kernels.score_each(
            ranked.ranked,
            squares_of(ranked.ranked, first.dtype, exponents),
            bounds,
            ranked.remaining,
            ranked.keys.dtype.type(first.first_non_finite),
            NON_FINITE_SCORE,
            scores,
        )
        return ranked, scores.view(np.int64), prunable_counts(self.batch, ranked.remaining)


def _largest_exponents(ranked: SortedKeys) -> Ints:
    finite = ranked.remaining - ranked.non_finite
    exponents = np.zeros_like(finite)
    largest = (ranked.bounds[:-1] + finite - 1)[finite > 0]
    exponents[finite > 0] = np.frexp(numbers_of(ranked.ranked[largest], torch.float64))[1]
    return exponents


ScoreGroups = TensorGroups | BatchedGroups
"""Groups of the elements of a tensor or of a batch of tensors, ascending by score.

Elements of a group of 0 unknown `bits` score the same; `units` is the number of its prunable
elements, and `work` about the number of bytes to read until the cuts are known. `readers` returns
functions that compute the parts of a group on any thread, and `with_parts` replaces it by them.
`cuts` prunes the lowest elements of each group, as many as are `taken`.
"""
