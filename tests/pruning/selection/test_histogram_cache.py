"""Tests of the cache of digit histograms."""

import numpy as np

from prune_gui.pruning.selection.histogram_cache import (
    OVERHEAD_BYTES,
    DigitHistogram,
    HistogramCache,
    LRUCache,
)


def histogram(values: int) -> DigitHistogram:
    return DigitHistogram.of(np.ones(values, np.uint32))


def test_the_least_recently_used_histogram_is_evicted_first():
    cache = LRUCache(2 * histogram(10).nbytes)
    for name in "ab":
        cache.put(name, histogram(10))
    assert cache.get("a") is not None
    cache.put("c", histogram(10))
    assert [name for name in "abc" if cache.get(name) is not None] == ["a", "c"]


def test_a_histogram_above_the_limit_is_not_cached():
    cache = LRUCache(histogram(10).nbytes)
    cache.put("a", histogram(11))
    assert cache.get("a") is None


def test_the_limit_holds_for_many_small_histograms():
    cache = LRUCache(100 * OVERHEAD_BYTES)
    for name in range(1000):
        cache.put(name, histogram(0))
    assert [name for name in range(1000) if cache.get(name) is not None] == list(range(900, 1000))


def test_histograms_of_many_cuts_do_not_evict_those_of_leading_digits():
    caches = HistogramCache()
    caches.leading.put("w", histogram(1000))
    for cut in range(200):
        caches.further.put(cut, histogram(1 << 16))
    assert caches.leading.get("w") is not None
    assert caches.further.get(0) is None
    assert caches.further.get(199) is not None
