"""Digit histograms: the spans that are read, the cache, and grouped digits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.pruning.selection import digit_histograms, radix_select
from prune_gui.pruning.selection.digit_histograms import grouped_spans
from prune_gui.pruning.selection.histogram_cache import (
    OVERHEAD_BYTES,
    DigitHistogram,
    HistogramCache,
    LRUCache,
)
from prune_gui.pruning.selection.keys import (
    MAX_CHUNKS_PER_SPAN,
    MIN_SPANS,
    RandomKeys,
    Ranking,
    ScoreKeys,
    chunk_spans,
)
from prune_gui.pruning.selection.radix_select import find_cuts
from prune_gui.pruning.selection.scores import ScaledColumns, TensorScores

FEW = [0.0, -0.0, 0.5, -0.5, 1.0, 1.0000001, -1.0000001, 1e-40, np.inf, -np.inf, np.nan]
values = st.lists(st.sampled_from(FEW) | st.floats(-4, 4, width=32), min_size=2, max_size=60)


def ranking_of(numbers, *, cache=None, remaining_mask=None, dtype=torch.float32):
    keys = ScoreKeys(TensorScores.of(torch.tensor(numbers, dtype=dtype)), dtype)
    return Ranking(keys, remaining_mask, histogram_cache=cache)


@pytest.fixture(autouse=True, scope="module")
def _small_limits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", 7)
        patch.setattr(digit_histograms, "MIN_GROUPED_ELEMENTS", 1)
        patch.setattr(radix_select, "MAX_SMALL_ELEMENTS", 0)
        yield


@given(values, st.data())
def test_cuts_of_other_amounts_equal_those_without_a_cache(numbers, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=60, max_size=60)))
    masks = data.draw(st.sampled_from([None, lambda start, stop: mask[start:stop]]))
    count = len(numbers) if masks is None else int(mask[: len(numbers)].sum())
    ranking = ranking_of(numbers, cache=HistogramCache(), remaining_mask=masks)
    for k in data.draw(st.lists(st.integers(0, count), min_size=2, max_size=5)):
        expected = find_cuts([ranking_of(numbers, remaining_mask=masks)], k, Monitor())
        assert find_cuts([ranking], k, Monitor()) == expected


@given(values, st.data())
def test_elements_between_two_bit_patterns_are_counted(numbers, data):
    ranking = ranking_of(numbers, cache=HistogramCache())
    for k in range(len(numbers) + 1):
        find_cuts([ranking], k, Monitor())
    bits = np.array(numbers, np.float32).view(np.uint32)
    limits = st.integers(0, 2**32) | st.sampled_from(bits.tolist())
    low, high = sorted((data.draw(limits), data.draw(limits)))
    grouped = grouped_spans(ranking)
    if grouped is not None:  # equal cuts need no second pass
        found = sum(span.count_between(low, high) for span in grouped)
        assert found == np.count_nonzero((bits >= low) & (bits < high))


def test_elements_are_grouped_from_the_second_amount_on_a_span_per_thread_at_a_time():
    ranking = ranking_of(np.linspace(0.1, 9, 100).tolist(), cache=HistogramCache())
    spans = len(chunk_spans(ranking.keys))
    calls = -(-spans // torch.get_num_threads())
    for k in range(1, calls + 1):
        find_cuts([ranking], k, Monitor())
        assert grouped_spans(ranking) is None
    find_cuts([ranking], calls + 1, Monitor())
    assert len(grouped_spans(ranking)) == spans


def test_tensors_that_would_evict_each_other_are_not_grouped(monkeypatch):
    cache = HistogramCache()
    rankings = [ranking_of(np.linspace(0.1, n, 50).tolist(), cache=cache) for n in (7, 8)]
    monkeypatch.setattr(digit_histograms, "MAX_GROUPED_BYTES", 3 * 99)
    for k in range(1, 30):
        find_cuts(rankings, k, Monitor())
    assert grouped_spans(rankings[0]) is None
    monkeypatch.setattr(digit_histograms, "MAX_GROUPED_BYTES", 3 * 100)
    for k in range(30, 60):
        find_cuts(rankings, k, Monitor())
    assert grouped_spans(rankings[0]) is not None


def test_keys_of_other_widths_are_not_grouped():
    ranking = ranking_of(
        np.linspace(0.1, 9, 100).tolist(), cache=HistogramCache(), dtype=torch.float64
    )
    for k in (10, 90, 50):
        find_cuts([ranking], k, Monitor())
    assert grouped_spans(ranking) is None


def histogram(values: int) -> DigitHistogram:
    return DigitHistogram.of(np.ones(values, np.uint32))


def test_the_least_recently_used_histogram_is_evicted_first():
    cache = LRUCache(2 * histogram(10).nbytes)
    for name in "ab":
        cache.put(name, histogram(10))
    assert cache.get("a") is not None
    cache.put("c", histogram(10))
    assert [name for name in "abc" if cache.get(name) is not None] == ["a", "c"]


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


def keys_by_kind(size):
    weights = TensorScores.of(torch.zeros(1, size))
    half_precision = TensorScores.of(torch.zeros(size, dtype=torch.float16))
    return {
        "without a copy": ScoreKeys.of(weights),
        "of a wider type": ScoreKeys(half_precision, torch.float32),
        "scaled": ScoreKeys.of(ScaledColumns(weights, TensorScores.of(torch.ones(size)))),
        "at random": RandomKeys(0, "w", size),
    }


@given(st.integers(0, 500), st.sampled_from([1, 7, 64]), st.sampled_from(list(keys_by_kind(1))))
def test_spans_cover_every_key_once_in_order(size, chunk, kind):
    keys = keys_by_kind(size)[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        spans = chunk_spans(keys)
    assert [index for start, stop in spans for index in range(start, stop)] == list(range(size))


def test_spans_of_keys_that_are_copied_are_shorter(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    first_sizes = {kind: chunk_spans(keys)[0][1] for kind, keys in keys_by_kind(1000).items()}
    assert first_sizes == dict.fromkeys(first_sizes, 8) | {
        "without a copy": 8 * MAX_CHUNKS_PER_SPAN
    }


@pytest.mark.parametrize(("size", "spans"), [(24, 3), (64, 8), (128, MIN_SPANS), (512, 16)])
def test_there_are_enough_spans_for_several_threads(monkeypatch, size, spans):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    assert len(chunk_spans(keys_by_kind(size)["without a copy"])) == spans
