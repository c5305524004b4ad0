"""Histograms of one digit of the keys of rankings, from the cache or counted on all threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui import parallel
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.pruning.arrays import Bits, Flags
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.histogram_cache import (
    EMPTY_HISTOGRAM,
    MAX_GROUPED_BYTES,
    DigitHistogram,
    GroupedDigits,
    GroupedSpan,
    LRUCache,
)
from prune_gui.pruning.selection.keys import Ranking, blocks, chunk_spans

DIGIT_BITS: Final = 16
MIN_GROUPED_ELEMENTS: Final = 1 << 20
"""Elements of a tensor from which a lookup in grouped digits is faster than a pass."""
GROUPED_BYTES: Final = 3
"""Memory per grouped element, rounded up: a digit of 2 bytes, and a share of the table of ends."""


def digit_histograms(
    rankings: Sequence[Ranking],
    above: int,
    prefixes: Mapping[int, int],
    monitor: Monitor,
    *,
    group: bool,
) -> tuple[list[DigitHistogram], bool]:
    """Return the histograms of the digit below bit `above`, and whether all were cached.

    Only keys whose leading bits are `prefixes`, by index of the ranking, are counted. With `group`,
    the last digits of 32-bit keys are grouped, or used if they are.
    """
    cache_keys = [
        (own.keys, own.remaining_mask, above, prefixes[i]) for i, own in enumerate(rankings)
    ]
    caches = [_cache(ranking, above) for ranking in rankings]
    cached = [cache and cache.get(key) for cache, key in zip(caches, cache_keys, strict=True)]
    shift = max(above - DIGIT_BITS, 0)
    to_count = [index for index, histogram in enumerate(cached) if histogram is None]
    grouped = [index for index in to_count if group and _can_group(rankings[index])]
    if GROUPED_BYTES * sum(rankings[index].keys.size for index in grouped) > MAX_GROUPED_BYTES:
        grouped = []  # they would evict each other

    tasks = [
        (index, rankings[index], shift, above, prefixes[index], *span)
        for index in sorted(set(to_count) - set(grouped))
        for span in chunk_spans(rankings[index].keys)
    ]
    histograms = [histogram or EMPTY_HISTOGRAM for histogram in cached]
    counted = parallel.spread(_count_span, tasks, monitor)
    for index, parts in groupby(counted, key=itemgetter(0)):
        histograms[index] = DigitHistogram.sum([part for _, part in parts], keep=shift == 0)
    for index in grouped:
        histograms[index] = _grouped_histogram(rankings[index], prefixes[index])
        monitor.advance(rankings[index].nbytes)
    for i, cache in enumerate(caches):
        if cached[i] is not None:
            monitor.advance(rankings[i].nbytes)
        elif cache is not None:
            cache.put(cache_keys[i], histograms[i])
    return histograms, not to_count


def _count_span(
    task: tuple[int, Ranking, int, int, int, int, int], monitor: Monitor
) -> tuple[int, DigitHistogram]:
    index, ranking, shift, above, prefix, start, stop = task
    histogram = span_histogram(ranking, shift, above, prefix, start, stop)
    monitor.advance((stop - start) * ranking.keys.width)
    return index, histogram


def _can_group(ranking: Ranking) -> bool:
    return (
        ranking.histogram_cache is not None
        and 8 * ranking.keys.width == 2 * DIGIT_BITS
        and ranking.keys.size >= MIN_GROUPED_ELEMENTS
    )


def grouped_spans(ranking: Ranking) -> list[GroupedSpan] | None:
    """Return the grouped elements of each span; None if some are not grouped."""
    grouped = _known_groups(ranking)
    if grouped is None:
        return None
    spans = [span for span in grouped.spans if span is not None]
    return spans if len(spans) == len(grouped.spans) else None


def _known_groups(ranking: Ranking) -> GroupedDigits | None:
    cache = ranking.histogram_cache
    return None if cache is None else cache.grouped.get((ranking.keys, ranking.remaining_mask))


def _grouped_histogram(ranking: Ranking, prefix: int) -> DigitHistogram:
    """Return the histogram of the last digits of 32-bit keys with a prefix.

    Groups a span per thread at most, so that no call takes much longer than a pass.
    """
    spans, cache = chunk_spans(ranking.keys), ranking.histogram_cache
    grouped = _known_groups(ranking) or GroupedDigits.nothing(len(spans), ranking.keys.magnitude)
    missing = [index for index, span in enumerate(grouped.spans) if span is None]
    to_group = set(missing[: torch.get_num_threads()])

    def work(index: int) -> tuple[int, GroupedSpan | DigitHistogram]:
        if index in to_group:
            return index, _group_span(ranking, spans[index])
        return index, span_histogram(ranking, 0, DIGIT_BITS, prefix, *spans[index])

    found = dict(parallel.run(work, missing))
    new = {index: one for index, one in found.items() if isinstance(one, GroupedSpan)}
    parts = [found.get(index, one) for index, one in enumerate(grouped.spans)]
    if new and cache is not None:
        both = tuple(new.get(index, one) for index, one in enumerate(grouped.spans))
        grouped = replace(grouped, spans=both)
        cache.grouped.put((ranking.keys, ranking.remaining_mask), grouped)
    histograms = [
        grouped.histogram(one, prefix) if isinstance(one, GroupedSpan) else one for one in parts
    ]
    return DigitHistogram.sum([one for one in histograms if one is not None], keep=True)


def _group_span(ranking: Ranking, span: tuple[int, int]) -> GroupedSpan:
    counts = _leading_counts(ranking, DIGIT_BITS, *span)
    bits = ranking.keys.bits(*span)
    ends = np.cumsum(counts, dtype=np.uint32) - counts
    digits = np.empty(counts.sum(), np.uint16)
    key_kernels.group_digits(bits, ranking.mask(*span), ends, digits)
    check_cancelled()
    return GroupedSpan(digits, ends)


def _cache(ranking: Ranking, above: int) -> LRUCache[DigitHistogram] | None:
    if ranking.histogram_cache is None:
        return None
    leading = above == 8 * ranking.keys.width
    return ranking.histogram_cache.leading if leading else ranking.histogram_cache.further


def span_histogram(
    ranking: Ranking, shift: int, above: int, prefix: int, start: int, stop: int
) -> DigitHistogram:
    """Return the histogram of bits `shift` to `above` - 1 in a span of a ranking."""
    if above == 8 * ranking.keys.width:
        counts = _leading_counts(ranking, shift, start, stop)
        half = len(counts) // 2
        if not ranking.keys.magnitude >> shift & half:  # add digits that differ only in the sign
            counts[:half] += counts[half:]
            counts[half:] = 0
        return DigitHistogram.of(counts)
    digits = 1 << (above - shift)
    table = np.zeros(digits, np.uint32)
    for bits, remaining_mask in key_parts(ranking, start, stop):
        key = bits.dtype.type
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


def _leading_counts(ranking: Ranking, shift: int, start: int, stop: int) -> NDArray[np.uint32]:
    """Return how often each value of ``bits >> shift`` occurs: uint32, indexed by value."""
    tables = np.zeros((2, 1 << 8 * ranking.keys.width - shift), np.uint32)
    for bits, remaining_mask in key_parts(ranking, start, stop):
        key_kernels.count_leading(bits, remaining_mask, bits.dtype.type(shift), tables)
    counts: NDArray[np.uint32] = tables[0] + tables[1]
    return counts


def key_parts(ranking: Ranking, start: int, stop: int) -> Iterator[tuple[Bits, Flags | None]]:
    """Yield the keys in [start, stop), and which of them remain, in `blocks`."""
    for first, last, bits in blocks(ranking.keys, start, stop):
        yield bits, ranking.mask(first, last)
