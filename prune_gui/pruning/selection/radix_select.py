"""The exact k smallest of any set of tensors, by counting: no sort, no copy, no concatenation.

The keys of all tensors are counted by their leading 16 bits; the bin in which the k-th smallest
lies is counted by the next 16, and so on: one pass over 8- and 16-bit types, two over 32-bit ones.
What comes out is a number or two per tensor, and does not depend on the order of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby
from operator import itemgetter, not_
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.selection.chunk_spans import chunk_spans
from prune_gui.pruning.selection.histogram_cache import (
    NOTHING,
    DigitHistogram,
    HistogramCache,
    LRUCache,
)
from prune_gui.pruning.selection.keys import (
    Bits,
    KeySource,
    RemainingMask,
    ScoreKeys,
    with_equal_nans,
)
from prune_gui.pruning.selection.scores import TensorScores

DIGIT_BITS = 16
SMALL: Final = 1 << 14
"""Entries of a tensor that is not worth a count by itself."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entries that a step may prune.

    Attributes:
        keys: what they are ranked by.
        remaining_mask: which of them are still there; None: all.
        most: how many of them may go; None: all.
        remembered: knows counts from earlier.
    """

    keys: KeySource
    remaining_mask: RemainingMask | None = None
    most: int | None = None
    remembered: HistogramCache | None = None


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


@dataclass(slots=True)
class _Search:
    """Rankings that are cut at the same key, and what is known of it.

    Attributes:
        members: their places in the list of all rankings.
        k: how many of their entries go.
        prefix: the leading bits of the key at which they are cut.
    """

    members: list[int]
    k: int
    prefix: int = 0


def find_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return the cut of each ranking that together prune the `k` smallest keys of all of them.

    Of equal keys the earlier ranking's go first, then those of lower flat index. A ranking that
    would lose more than its `most` is cut there by itself, and the cut moves up for the others.

    Args:
        rankings: all of the same key width; at least `k` entries in all that may go.
        k: how many entries to prune.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    monitor.expect(sum(work(ranking.keys) for ranking in rankings))
    if len(rankings) == 1 and rankings[0].keys.size <= SMALL:
        monitor.advance(work(rankings[0].keys))
        return [_cut_small(rankings[0], k)]
    cuts = _find_cuts(rankings, k, monitor)
    keys = [
        with_equal_nans(ranking.keys, cut.threshold)
        for ranking, cut in zip(rankings, cuts, strict=True)
    ]
    if all(key is ranking.keys for ranking, key in zip(rankings, keys, strict=True)):
        return cuts
    equal = [replace(ranking, keys=key) for ranking, key in zip(rankings, keys, strict=True)]
    return _find_cuts(equal, k, monitor)


def _cut_small(ranking: Ranking, k: int) -> Cut:
    """Return the cut of a ranking of few entries."""
    size, first = ranking.keys.size, ranking.keys.first_non_finite
    bits = with_equal_nans(ranking.keys, ranking.keys.magnitude).bits(0, size)
    keys = bits & bits.dtype.type(ranking.keys.magnitude)
    remaining_mask = None if ranking.remaining_mask is None else ranking.remaining_mask(0, size)
    there = keys if remaining_mask is None else keys[remaining_mask]
    non_finite = 0 if first is None else int(np.count_nonzero(there >= first))
    if k == 0:
        return Cut(0, -1, 0, non_finite)
    threshold = np.partition(there, k - 1)[k - 1]
    equal = keys == threshold
    ties = np.flatnonzero(equal if remaining_mask is None else equal & remaining_mask)
    wanted = k - int(np.count_nonzero(there < threshold))
    last_tie = size - 1 if wanted == ties.size else int(ties[wanted - 1])
    return Cut(int(threshold), last_tie, k, non_finite)


def _find_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    width = {ranking.keys.width for ranking in rankings}.pop()
    below = [0] * len(rankings)
    non_finite = [0] * len(rankings)
    searches = [_Search(list(range(len(rankings))), k)]
    for above in range(8 * width, 0, -DIGIT_BITS):
        counts = _count(rankings, above, searches, monitor)
        if above == 8 * width:
            non_finite = [_non_finite(*pair) for pair in zip(rankings, counts, strict=True)]
        searches = [
            narrower
            for search in searches
            for narrower in _narrow(search, rankings, counts, below, min(DIGIT_BITS, above))
        ]
    cuts: dict[int, Cut] = {}
    for search in searches:
        wanted = search.k - sum(below[i] for i in search.members)
        for i in search.members:
            digit = search.prefix & ((1 << min(DIGIT_BITS, above)) - 1)
            there = counts[i].at(digit)
            ties = min(wanted, there, _most(rankings[i]) - below[i])
            wanted -= ties
            if ties == 0:
                last = -1
            elif ties == there:
                last = rankings[i].keys.size - 1
            else:
                known = [part.at(digit) for part in counts[i].parts]
                last = nth_tie(rankings[i], search.prefix, ties, monitor, known)
            cuts[i] = Cut(search.prefix, last, below[i] + ties, non_finite[i])
    return [cuts[i] for i in range(len(rankings))]


@dataclass(frozen=True, slots=True)
class Below:
    """How many entries of a ranking lie below a key.

    Attributes:
        below: entries still there whose key is lower.
        there: all entries still there.
        non_finite: how many of those are NaN or infinite.
    """

    below: int
    there: int
    non_finite: int


def count_below(rankings: Sequence[Ranking], key: int, monitor: Monitor) -> list[Below]:
    """Count the entries of each ranking that lie below a key, digit by digit as `find_cuts` does.

    Where counts are remembered, to cut there then costs no other look at the entries.

    Args:
        rankings: all of the same key width.
        key: at most the least one that is not finite.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    width, below = {ranking.keys.width for ranking in rankings}.pop(), [0] * len(rankings)
    first: list[DigitHistogram] = []
    left = sum(work(ranking.keys) for ranking in rankings)
    monitor.expect(left)
    for above in range(8 * width, 0, -DIGIT_BITS):
        search = _Search(list(range(len(rankings))), 0, key >> above)
        counts = _count(rankings, above, [search], monitor)
        first = first or counts
        left -= sum(ranking.keys.size * width for ranking in rankings)
        rest = max(above - DIGIT_BITS, 0)
        digit = key >> rest & ((1 << (above - rest)) - 1)
        below = [known + one.below(digit) for known, one in zip(below, counts, strict=True)]
        if key == key >> rest << rest:  # the digits that are left are 0: nothing is lower
            break
    monitor.advance(left)
    return [
        Below(lower, one.total, _non_finite(ranking, one))
        for ranking, lower, one in zip(rankings, below, first, strict=True)
    ]


def _narrow(
    search: _Search,
    rankings: Sequence[Ranking],
    counts: Sequence[DigitHistogram],
    below: list[int],
    bits: int,
) -> list[_Search]:
    """Find the next digit of the key at which the members are cut, and bring `below` up to it.

    Members that reach their `most` before it go on in searches of their own.
    """
    free = [below[i] + counts[i].total <= _most(rankings[i]) for i in search.members]
    values, totals = _add([counts[i] for i in search.members], free)
    reached = np.cumsum(totals) + sum(below[i] for i in compress(search.members, free))
    capped = list(compress(search.members, map(not_, free)))
    for i in capped:
        reached += np.minimum(_most(rankings[i]), below[i] + counts[i].up_to(values))
    place = int(np.searchsorted(reached, max(search.k, 1)))
    digit = int(values[place]) if place < len(values) else 0
    full = [i for i in capped if below[i] + counts[i].below(digit) >= _most(rankings[i])]
    if len(search.members) > 1 and full:
        alone = [_Search([i], _most(rankings[i]), search.prefix) for i in full]
        rest = sorted(set(search.members) - set(full))
        together = _Search(rest, search.k - sum(one.k for one in alone), search.prefix)
        return [
            narrower
            for part in ([*alone, together] if rest else alone)
            for narrower in _narrow(part, rankings, counts, below, bits)
        ]
    for i in search.members:
        below[i] += counts[i].below(digit)
    return [_Search(search.members, search.k, search.prefix << bits | digit)]


def _most(ranking: Ranking) -> int:
    """Return how many entries of a ranking may go."""
    return ranking.keys.size if ranking.most is None else ranking.most


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
    keys = ScoreKeys.of(TensorScores.of(scores.contiguous()))
    [cut] = find_cuts([Ranking(keys)], k, Monitor())
    marked = np.zeros(keys.size, np.uint8)

    def fill(span: tuple[int, int]) -> None:
        mark_codes(keys, cut, span[0], 1, marked[slice(*span)])

    for _ in parallel.run(fill, parallel.chunks(keys.size)):
        pass
    return torch.from_numpy(marked.view(np.bool_)).view(scores.shape)


def mark(keys: KeySource, cut: Cut, start: int, stop: int) -> NDArray[np.bool_]:
    """Return a boolean array over the flat entries [start, stop), True where `cut` prunes."""
    codes = np.zeros(stop - start, np.uint8)
    mark_codes(keys, cut, start, 1, codes)
    return codes.view(np.bool_)


def mark_codes(keys: KeySource, cut: Cut, start: int, step: int, codes: NDArray[np.uint8]) -> None:
    """Set to `step` those codes that are 0 and whose entry `cut` prunes.

    Args:
        keys: of the tensor.
        cut: through its keys.
        start: flat index of the first code's entry.
        step: any code but 0.
        codes: of consecutive entries.
    """
    keys = with_equal_nans(keys, cut.threshold)
    bits = keys.bits(start, start + codes.size)
    as_key = bits.dtype.type
    key_kernels.mark_below(
        bits,
        as_key(keys.magnitude),
        as_key(cut.threshold),
        cut.last_tie - start,
        np.uint8(step),
        codes,
    )


def _count(
    rankings: Sequence[Ranking], above: int, searches: Sequence[_Search], monitor: Monitor
) -> list[DigitHistogram]:
    """Count the digit just under bit `above` among keys that begin as their search says."""
    width = rankings[0].keys.width
    prefix = {i: search.prefix for search in searches for i in search.members}
    asked = [(one.keys, one.remaining_mask, above, prefix[i]) for i, one in enumerate(rankings)]
    memories = [_memory(one, above) for one in rankings]
    known = [memory and memory.get(of) for memory, of in zip(memories, asked, strict=True)]
    shift = max(above - DIGIT_BITS, 0)

    def count(task: tuple[int, int, int]) -> tuple[int, DigitHistogram]:
        index, *span = task
        found = _count_span(rankings[index], shift, above, prefix[index], *span)
        monitor.advance((span[1] - span[0]) * width)
        return index, found

    tasks = [
        (index, *span)
        for index, ranking in enumerate(rankings)
        if known[index] is None
        for span in chunk_spans(ranking.keys)
    ]
    found = [counts or NOTHING for counts in known]
    for index, parts in groupby(parallel.run(count, tasks), key=itemgetter(0)):
        found[index] = DigitHistogram.sum([part for _, part in parts], keep=shift == 0)
    for i, memory in enumerate(memories):
        if known[i] is not None:
            monitor.advance(rankings[i].keys.size * width)
        elif memory is not None:
            memory.put(asked[i], found[i])
    return found


def _memory(ranking: Ranking, above: int) -> LRUCache | None:
    """Return what remembers the counts of the digit just under bit `above`."""
    if ranking.remembered is None:
        return None
    leading = above == 8 * ranking.keys.width
    return ranking.remembered.leading if leading else ranking.remembered.further


def _count_span(
    ranking: Ranking, shift: int, above: int, prefix: int, start: int, stop: int
) -> DigitHistogram:
    """Count the digit from bit `shift` up to bit `above` in a stretch of a ranking."""
    bits = ranking.keys.bits(start, stop)
    remaining_mask = None if ranking.remaining_mask is None else ranking.remaining_mask(start, stop)
    key, digits = bits.dtype.type, 1 << (above - shift)
    if above == 8 * ranking.keys.width:
        tables = np.zeros((2, digits), np.uint32)
        key_kernels.count_leading(bits, remaining_mask, key(shift), tables)
        return DigitHistogram.of(_by_key(tables, ranking.keys.magnitude >> shift))
    table = np.zeros(digits, np.uint32)
    key_kernels.count_digits_between(
        bits,
        key(ranking.keys.magnitude),
        remaining_mask,
        key(prefix << above),
        key(((prefix + 1) << above) - 1),
        key(shift),
        key(digits - 1),
        table,
    )
    return DigitHistogram.of(table)


def _by_key(tables: NDArray[np.uint32], magnitude: int) -> NDArray[np.uint32]:
    """Add up the tables of `kernels.count_leading`, and those digits that differ in sign alone."""
    counts: NDArray[np.uint32] = tables[0] + tables[1]
    half = len(counts) // 2
    if not magnitude & half:
        counts[:half] += counts[half:]
        counts[half:] = 0
    return counts


def _add(
    parts: Sequence[DigitHistogram], counted: Sequence[bool]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the values that occur in any part, ascending, and how often in those counted."""
    values, where = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    totals = np.zeros(len(values), np.int64)
    numbers = [part.counts * yes for part, yes in zip(parts, counted, strict=True)]
    np.add.at(totals, where, np.concatenate(numbers))
    return values, totals


def _non_finite(ranking: Ranking, counts: DigitHistogram) -> int:
    """Count NaN and infinity: in every float type they fill whole values of the leading digit."""
    first = ranking.keys.first_non_finite
    if first is None:
        return 0
    shift = max(8 * ranking.keys.width - DIGIT_BITS, 0)
    return counts.total - counts.below(first >> shift)


def nth_tie(
    ranking: Ranking,
    threshold: int,
    ordinal: int,
    monitor: Monitor,
    ties: Sequence[int] = (),
) -> int:
    """Return the flat index of the `ordinal`-th entry still there whose key is `threshold`.

    Args:
        ranking: of the entries.
        threshold: a key.
        ordinal: from 1; so many ties there are.
        monitor: asked whether to stop.
        ties: how many there are in each stretch, if that is known.
    """
    pieces = chunk_spans(ranking.keys)

    def count(span: tuple[int, int]) -> int:
        monitor.advance()
        return key_kernels.count_ties(*_sought(ranking, threshold, *span))

    left = ordinal
    for span, here in zip(pieces, ties or parallel.run(count, pieces), strict=True):
        if left <= here:
            place = key_kernels.find_tie(*_sought(ranking, threshold, *span), left)
            return span[0] + place
        left -= here
    raise AssertionError("fewer ties than were counted")


def _sought(
    ranking: Ranking, threshold: int, start: int, stop: int
) -> tuple[Bits, np.unsignedinteger[Any], NDArray[np.bool_] | None, np.unsignedinteger[Any]]:
    """Return what the loops over ties look at."""
    bits = ranking.keys.bits(start, stop)
    remaining_mask = None if ranking.remaining_mask is None else ranking.remaining_mask(start, stop)
    key = bits.dtype.type
    return bits, key(ranking.keys.magnitude), remaining_mask, key(threshold)
