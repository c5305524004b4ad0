"""What is remembered of counts, and what is forgotten for it."""

import numpy as np

from prune_gui.pruning.selection.histogram_cache import (
    AT_LEAST,
    DigitHistogram,
    HistogramCache,
    LRUCache,
)


def counts(values: int) -> DigitHistogram:
    return DigitHistogram.of(np.ones(values, np.uint32))


def test_what_was_asked_for_longest_ago_is_forgotten_first():
    latest = LRUCache(2 * counts(10).nbytes)
    for name in "ab":
        latest.put(name, counts(10))
    assert latest.get("a") is not None
    latest.put("c", counts(10))
    assert [name for name in "abc" if latest.get(name) is not None] == ["a", "c"]


def test_what_is_too_large_is_not_kept():
    latest = LRUCache(counts(10).nbytes)
    latest.put("a", counts(11))
    assert latest.get("a") is None


def test_many_small_counts_take_no_more_room_than_few_large_ones():
    latest = LRUCache(100 * AT_LEAST)
    for name in range(1000):
        latest.put(name, counts(0))
    assert [name for name in range(1000) if latest.get(name) is not None] == list(range(900, 1000))


def test_the_counts_of_many_cuts_leave_those_of_whole_tensors_alone():
    remembered = HistogramCache()
    remembered.leading.put("w", counts(1000))
    for cut in range(200):
        remembered.further.put(cut, counts(1 << 16))
    assert remembered.leading.get("w") is not None
    assert remembered.further.get(0) is None
    assert remembered.further.get(199) is not None
