"""Radix selection: the exact k lowest keys of any set of tensors, without a sort or a copy.

The keys of all tensors are counted by their leading digit, of 16 bits. The bin of the k-th lowest
key is then counted by the next digit, and so on: one pass over 8- and 16-bit types, two over 32-bit
types. The result is a cut per tensor, and does not depend on the order of the work.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, groupby
from operator import itemgetter, not_
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui import parallel
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.device_select import kept_on_device
from prune_gui.pruning.selection.digit_histograms import DIGIT_BITS, digit_histograms
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.keys import (
    BLOCK_ELEMENTS,
    DeviceKeys,
    KeySource,
    RandomKeys,
    Ranking,
    ScoreKeys,
    blocks,
    chunk_spans,
    with_equal_nans,
)
from prune_gui.pruning.selection.scores import TensorScores, is_on_cpu

RANDOM_DEVIATIONS: Final = 8
RANDOM_SPARE: Final = 64
"""Half the width of the interval of random keys that is searched: in standard deviations of the
number of keys below the threshold, and further keys."""
MAX_SMALL_ELEMENTS: Final = 1 << 14
"""Elements of a tensor up to which a sort is faster than histograms."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an unstructured step stops pruning one parameter.

    Elements whose key is below `threshold` are pruned, and those whose key equals it (ties) up to
    the flat index `last_tie`, which is -1 if no tie is pruned. `non_finite` remaining scores rank
    highest.
    """

    threshold: int
    last_tie: int
    pruned: int
    non_finite: int = 0


@dataclass(slots=True)
class _Search:
    """The search for the common cut of some rankings, of which `prefix` is known so far."""

    members: list[int]
    k: int
    prefix: int = 0


def find_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return a cut per ranking; together the cuts prune the `k` lowest keys of all rankings.

    Of equal keys, those of earlier rankings are pruned first, then those of lower flat index. A
    ranking that would lose more than its `max_pruned` gets a cut of its own, and that of the others
    moves up.
    """
    monitor.expect(sum(work(ranking.keys) for ranking in rankings))
    if len(rankings) == 1 and rankings[0].keys.size <= MAX_SMALL_ELEMENTS:
        monitor.advance(work(rankings[0].keys))
        return [_cut_small(rankings[0], k)]
    if k and all(_is_random(ranking) for ranking in rankings):
        found = _cut_random(rankings, k, monitor)
        if found is not None:
            return found
    cuts = _find_cuts(rankings, k, monitor)
    keys = [
        with_equal_nans(ranking.keys, cut.threshold)
        for ranking, cut in zip(rankings, cuts, strict=True)
    ]
    if all(key is ranking.keys for ranking, key in zip(rankings, keys, strict=True)):
        return cuts
    with_single_nans = [
        replace(ranking, keys=key) for ranking, key in zip(rankings, keys, strict=True)
    ]
    return _find_cuts(with_single_nans, k, monitor)


def _is_random(ranking: Ranking) -> bool:
    is_whole = ranking.remaining_mask is None and ranking.max_pruned is None
    return is_whole and type(ranking.keys) is RandomKeys


def _cut_random(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut] | None:
    """Return the cuts of random keys in one pass, because it is known about where they are.

    None if the threshold is not within `RANDOM_DEVIATIONS` of where it is expected, which is
    improbable beyond chance.
    """
    size, every = sum(own.keys.size for own in rankings), rankings[0].keys.magnitude + 1
    half = (RANDOM_DEVIATIONS * math.sqrt(k * (1 - k / size)) + RANDOM_SPARE) / size
    low = np.uint32(max(k / size - half, 0) * every)
    high = np.uint32(min(k / size + half, 1) * every - 1)

    def search(task: tuple[int, tuple[int, int]]) -> tuple[int, int, Bits, Ints]:
        """Return the index of a ranking, its keys below, and the keys between and their indices."""
        (index, span), below = task, 0
        own, between, indices = rankings[index].keys, [], []
        positions = np.empty(BLOCK_ELEMENTS, np.uint32)
        for first, _, bits in blocks(own, *span):
            below += int(np.count_nonzero(bits < low))
            found = positions[: key_kernels.find_between(bits, ~np.uint32(0), low, high, positions)]
            between.append(bits[found])
            indices.append(found + np.int64(first))
        monitor.advance(work(own) * (span[1] - span[0]) // own.size)
        return index, below, np.concatenate(between), np.concatenate(indices)

    tasks = [(i, span) for i, own in enumerate(rankings) for span in parallel.chunks(own.keys.size)]
    parts = list(parallel.run(search, tasks))
    keys = np.concatenate([between for _, _, between, _ in parts])
    wanted = k - sum(below for _, below, _, _ in parts)
    if not 0 < wanted <= keys.size:
        return None
    threshold = int(np.partition(keys, wanted - 1)[wanted - 1])
    wanted -= int(np.count_nonzero(keys < threshold))
    cuts: list[Cut] = []
    no_index = np.empty(0, np.int64)
    of_each = {index: list(some) for index, some in groupby(parts, itemgetter(0))}
    for index, own in enumerate(rankings):
        some = of_each.get(index, [])
        lower = sum(part[1] + int(np.count_nonzero(part[2] < threshold)) for part in some)
        ties = np.concatenate([no_index, *(part[3][part[2] == threshold] for part in some)])
        pruned = min(wanted, ties.size)
        last = int(ties[pruned - 1]) if pruned else -1
        last = own.keys.size - 1 if 0 < pruned == ties.size else last
        cuts.append(Cut(threshold, last, lower + pruned, 0))
        wanted -= pruned
    return cuts


def _cut_small(ranking: Ranking, k: int) -> Cut:
    size, first = ranking.keys.size, ranking.keys.first_non_finite
    bits = with_equal_nans(ranking.keys, ranking.keys.magnitude).bits(0, size)
    keys = bits & bits.dtype.type(ranking.keys.magnitude)
    remaining_mask = ranking.mask(0, size)
    remaining = keys if remaining_mask is None else keys[remaining_mask]
    non_finite = 0 if first is None else int(np.count_nonzero(remaining >= first))
    if k == 0:
        return Cut(0, -1, 0, non_finite)
    threshold = np.partition(remaining, k - 1)[k - 1]
    equal = keys == threshold
    ties = np.flatnonzero(equal if remaining_mask is None else equal & remaining_mask)
    wanted_ties = k - int(np.count_nonzero(remaining < threshold))
    last_tie = size - 1 if wanted_ties == ties.size else int(ties[wanted_ties - 1])
    return Cut(int(threshold), last_tie, k, non_finite)


def _find_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    width = {ranking.keys.width for ranking in rankings}.pop()
    below = [0] * len(rankings)
    non_finite = [0] * len(rankings)
    searches = [_Search(list(range(len(rankings))), k)]
    cached = False
    for above in range(8 * width, 0, -DIGIT_BITS):
        prefixes = {i: search.prefix for search in searches for i in search.members}
        histograms, cached = digit_histograms(rankings, above, prefixes, monitor, group=cached)
        if above == 8 * width:
            non_finite = [_non_finite(*pair) for pair in zip(rankings, histograms, strict=True)]
        searches = [
            narrower
            for search in searches
            for narrower in _narrow(search, rankings, histograms, below, min(DIGIT_BITS, above))
        ]
    cuts: dict[int, Cut] = {}
    for search in searches:
        wanted_ties = search.k - sum(below[i] for i in search.members)
        for i in search.members:
            digit = search.prefix & ((1 << min(DIGIT_BITS, above)) - 1)
            ties = histograms[i].at(digit)
            pruned_ties = min(wanted_ties, ties, rankings[i].limit - below[i])
            wanted_ties -= pruned_ties
            if pruned_ties == 0:
                last = -1
            elif pruned_ties == ties:
                last = rankings[i].keys.size - 1
            else:
                ties_by_span = [part.at(digit) for part in histograms[i].parts]
                last = nth_tie(rankings[i], search.prefix, pruned_ties, ties_by_span)
            cuts[i] = Cut(search.prefix, last, below[i] + pruned_ties, non_finite[i])
    return [cuts[i] for i in range(len(rankings))]


@dataclass(frozen=True, slots=True)
class CountBelow:
    """The number of elements of a ranking below a key."""

    below: int
    remaining: int
    non_finite: int


def count_below(rankings: Sequence[Ranking], key: int, monitor: Monitor) -> list[CountBelow]:
    """Count the elements of each ranking below a key, which is at most `first_non_finite`.

    With a histogram cache, a later `find_cuts` with its cut at this key reads no elements again.
    """
    width, below = {ranking.keys.width for ranking in rankings}.pop(), [0] * len(rankings)
    leading: list[DigitHistogram] = []
    cached = False
    unread_bytes = sum(work(ranking.keys) for ranking in rankings)
    monitor.expect(unread_bytes)
    for above in range(8 * width, 0, -DIGIT_BITS):
        prefixes = dict.fromkeys(range(len(rankings)), key >> above)
        histograms, cached = digit_histograms(rankings, above, prefixes, monitor, group=cached)
        leading = leading or histograms
        unread_bytes -= sum(ranking.nbytes for ranking in rankings)
        shift = max(above - DIGIT_BITS, 0)
        digit = key >> shift & ((1 << (above - shift)) - 1)
        below = [count + own.below(digit) for count, own in zip(below, histograms, strict=True)]
        if key == key >> shift << shift:  # the remaining digits are 0: no key is lower
            break
    monitor.advance(unread_bytes)
    return [
        CountBelow(lower, own.total, _non_finite(ranking, own))
        for ranking, lower, own in zip(rankings, below, leading, strict=True)
    ]


def _narrow(
    search: _Search,
    rankings: Sequence[Ranking],
    histograms: Sequence[DigitHistogram],
    below: list[int],
    bits: int,
) -> list[_Search]:
    """Return the search with the next digit of the threshold, and add the keys below it to `below`.

    Members that reach their `max_pruned` below it continue in searches of their own.
    """
    uncapped = [below[i] + histograms[i].total <= rankings[i].limit for i in search.members]
    digits, totals = _sum([histograms[i] for i in search.members], uncapped)
    cumulative = np.cumsum(totals) + sum(below[i] for i in compress(search.members, uncapped))
    capped = list(compress(search.members, map(not_, uncapped)))
    for i in capped:
        cumulative += np.minimum(rankings[i].limit, below[i] + histograms[i].up_to(digits))
    index = int(np.searchsorted(cumulative, max(search.k, 1)))
    digit = int(digits[index]) if index < len(digits) else 0
    full = [i for i in capped if below[i] + histograms[i].below(digit) >= rankings[i].limit]
    if len(search.members) > 1 and full:
        single = [_Search([i], rankings[i].limit, search.prefix) for i in full]
        others = sorted(set(search.members) - set(full))
        common = _Search(others, search.k - sum(own.k for own in single), search.prefix)
        return [
            narrower
            for part in ([*single, common] if others else single)
            for narrower in _narrow(part, rankings, histograms, below, bits)
        ]
    for i in search.members:
        below[i] += histograms[i].below(digit)
    return [_Search(search.members, search.k, search.prefix << bits | digit)]


def work(keys: KeySource) -> int:
    """Return the number of bytes that `find_cuts` reads for these keys, in all its passes."""
    return keys.size * keys.width * math.ceil(8 * keys.width / DIGIT_BITS)


def smallest(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Mark the `k` elements of lowest absolute value; of ties the first, and NaN above infinity."""
    if not is_on_cpu(scores.device):
        every = deque([DeviceKeys.of(scores.contiguous(), None, largest_first=False)])
        [kept] = kept_on_device(every, k)
        return kept.logical_not_()
    keys = ScoreKeys.of(TensorScores.of(scores.contiguous()))
    [cut] = find_cuts([Ranking(keys)], k, Monitor())
    return torch.from_numpy(mark_whole(keys, cut)).view(scores.shape)


def mark_whole(keys: KeySource, cut: Cut) -> Flags:
    """Return a boolean array over all elements, True where `cut` prunes."""
    codes = np.zeros(keys.size, np.uint8)

    def fill(span: tuple[int, int]) -> None:
        mark_codes(keys, cut, span[0], 1, codes[slice(*span)])

    for _ in parallel.run(fill, parallel.chunks(keys.size)):
        pass
    return codes.view(np.bool_)


def mark(keys: KeySource, cut: Cut, start: int, stop: int) -> Flags:
    """Return a boolean array over the flat indices [start, stop), True where `cut` prunes."""
    codes = np.zeros(stop - start, np.uint8)
    mark_codes(keys, cut, start, 1, codes)
    return codes.view(np.bool_)


def mark_codes(keys: KeySource, cut: Cut, start: int, step: int, codes: Codes) -> None:
    """Set the codes of the elements that `cut` prunes to `step`, where they are 0."""
    keys = with_equal_nans(keys, cut.threshold)
    for first, stop, bits in blocks(keys, start, start + codes.size):
        as_key = bits.dtype.type
        key_kernels.mark_below(
            bits,
            as_key(keys.magnitude),
            as_key(cut.threshold),
            cut.last_tie - first,
            np.uint8(step),
            codes[first - start : stop - start],
        )


def _sum(
    histograms: Sequence[DigitHistogram], included: Sequence[bool]
) -> tuple[NDArray[np.intp], Ints]:
    """Return the values of all histograms, ascending, and the sums of counts of those included."""
    if len(histograms) == 1:  # is sorted: `np.unique` would sort it again
        [own], [flag] = histograms, included
        return own.values.astype(np.intp), own.counts.astype(np.int64) * flag
    every_value = np.concatenate([histogram.values for histogram in histograms])
    values, where = np.unique(every_value, return_inverse=True)
    totals = np.zeros(len(values), np.int64)
    counts = [own.counts * flag for own, flag in zip(histograms, included, strict=True)]
    np.add.at(totals, where, np.concatenate(counts))
    return values, totals


def _non_finite(ranking: Ranking, leading: DigitHistogram) -> int:
    """Return the number of non-finite scores, which have leading digits of their own."""
    first = ranking.keys.first_non_finite
    if first is None:
        return 0
    shift = max(8 * ranking.keys.width - DIGIT_BITS, 0)
    return leading.total - leading.below(first >> shift)


def nth_tie(ranking: Ranking, threshold: int, ordinal: int, ties: Sequence[int] = ()) -> int:
    """Return the index of the `ordinal`-th remaining `threshold`; skips spans by their `ties`."""
    for index, (start, stop) in enumerate(chunk_spans(ranking.keys)):
        if not ties or ordinal <= ties[index]:
            check_cancelled()
            bits, mask = ranking.keys.bits(start, stop), ranking.mask(start, stop)
            as_key = bits.dtype.type
            magnitude, key = as_key(ranking.keys.magnitude), as_key(threshold)
            position, seen = key_kernels.find_tie(bits, magnitude, mask, key, ordinal)
            if position >= 0:
                return start + position
        ordinal -= ties[index] if ties else seen
    raise AssertionError("fewer ties than were counted")


RowKeys = tuple[Bits, "Flags | None"]
"""The keys of some rows, and which of them remain; None if all do."""
GATHERED_ELEMENTS: Final = 1 << 26
"""Elements of rows that are copied at once if these are not consecutive."""


class RowShape(NamedTuple):
    """Where the elements of rows are in a tensor of shape (before, rows, after).

    Those of a row are consecutive if `before` is 1. They are numbered in the order of the tensor.
    """

    before: int
    rows: int
    after: int

    @property
    def columns(self) -> int:
        return self.before * self.after

    def row_and_column(self, flat: int) -> tuple[int, int]:
        """Return the row of the element at a flat index, and its number in the row."""
        before, rest = divmod(flat, self.rows * self.after)
        row, after = divmod(rest, self.after)
        return row, before * self.after + after


@dataclass(frozen=True, slots=True)
class RowCuts:
    """The cut of each row, as `Cut` with an array element per row; a tie is a column."""

    thresholds: Bits
    last_ties: Ints


def find_row_cuts(ranking: Ranking, units: Ints, shape: RowShape) -> RowCuts:
    """Return the cuts that prune the `units` smallest remaining keys of each row."""
    thresholds = np.zeros(shape.rows, ranking.keys.bits(0, 0).dtype)
    last_ties = np.full(shape.rows, -1, np.int64)
    magnitude = thresholds.dtype.type(ranking.keys.magnitude)

    def cut(read: Callable[[slice], RowKeys], within: slice) -> None:
        def cut_some(rows: slice) -> None:
            bits, mask = read(rows)
            own = units[rows], thresholds[rows], last_ties[rows]
            key_kernels.cut_rows(bits, magnitude, mask, *own)

        for _ in parallel.run(cut_some, _blocks(shape, parallel.CHUNK_ELEMENTS, within)):
            pass

    whole = slice(0, shape.rows)
    if shape.before == 1:
        cut(partial(_consecutive_rows, ranking, shape), whole)
    else:
        for block in _blocks(shape, GATHERED_ELEMENTS, whole):
            cut(partial(_rows_of, gathered_rows(ranking, shape, block), block.start), block)
    keys = with_equal_nans(ranking.keys, int(thresholds.max(initial=0)))
    if keys is not ranking.keys:
        return find_row_cuts(replace(ranking, keys=keys), units, shape)
    return RowCuts(thresholds, last_ties)


def row_keys(ranking: Ranking, shape: RowShape, row: int) -> RowKeys:
    """Return the keys of a row, and which of them remain."""
    rows = slice(row, row + 1)
    if shape.before == 1:
        return _consecutive_rows(ranking, shape, rows)
    return _rows_of(gathered_rows(ranking, shape, rows), row, rows)


def gathered_rows(ranking: Ranking, shape: RowShape, rows: slice) -> RowKeys:
    """Return the keys of some rows that are not consecutive, and which of them remain."""
    sides = rows.stop - rows.start, shape.before, shape.after
    bits = np.empty(sides, ranking.keys.bits(0, 0).dtype)
    mask = None if ranking.remaining_mask is None else np.empty(sides, np.bool_)
    slab = shape.rows * shape.after

    def gather(span: tuple[int, int]) -> None:
        first, last = span
        start, stop, part = first * slab, last * slab, (last - first, shape.rows, shape.after)
        keys = ranking.keys.bits(start, stop).reshape(part)
        bits[:, first:last] = np.moveaxis(keys[:, rows], 1, 0)
        if mask is not None and ranking.remaining_mask is not None:
            kept = ranking.remaining_mask(start, stop).reshape(part)
            mask[:, first:last] = np.moveaxis(kept[:, rows], 1, 0)

    per_task = max(1, parallel.CHUNK_ELEMENTS // slab)
    for _ in parallel.run(gather, parallel.chunks(shape.before, per_task)):
        pass
    flat = len(bits), shape.columns
    return bits.reshape(flat), None if mask is None else mask.reshape(flat)


def _consecutive_rows(ranking: Ranking, shape: RowShape, rows: slice) -> RowKeys:
    span = rows.start * shape.columns, rows.stop * shape.columns
    return ranking.keys.bits(*span), ranking.mask(*span)


def _rows_of(gathered: RowKeys, first: int, rows: slice) -> RowKeys:
    """Return some of the rows of `gathered_rows`, flat; `first` is the first one there."""
    bits, mask = gathered
    part = slice(rows.start - first, rows.stop - first)
    return bits[part].reshape(-1), None if mask is None else mask[part].reshape(-1)


def _blocks(shape: RowShape, elements: int, within: slice) -> Iterator[slice]:
    per_block = max(1, elements // max(shape.columns, 1))
    for start in range(within.start, within.stop, per_block):
        yield slice(start, min(start + per_block, within.stop))
