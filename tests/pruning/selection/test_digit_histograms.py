"""Grouped digits give the same cuts as passes over all elements."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.selection import digit_histograms, radix_select
from prune_gui.pruning.selection.digit_histograms import grouped_spans
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys, chunk_spans
from prune_gui.pruning.selection.radix_select import find_cuts
from prune_gui.pruning.selection.scores import TensorScores

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
