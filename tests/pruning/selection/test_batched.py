"""Batched selection from many small tensors, compared with selection tensor by tensor."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.selection import batched
from prune_gui.pruning.selection.batched import find_cuts_batched, mark_batched
from prune_gui.pruning.selection.keys import KeySource, RandomKeys, Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import find_cuts, mark
from prune_gui.pruning.selection.scores import TensorScores

# Few distinct values, so that ties are common; NaN among them.
numbers = st.lists(st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, np.inf, np.nan]), max_size=9)


@st.composite
def rankings(draw: st.DrawFn) -> list[Ranking]:
    """Rankings of one dtype, some with a remaining mask and some with a limit."""
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float64]))
    result = []
    for values in draw(st.lists(numbers, min_size=1, max_size=8)):
        keys = ScoreKeys.of(TensorScores.of(torch.tensor(values, dtype=dtype)))
        flags = st.lists(st.booleans(), min_size=len(values), max_size=len(values))
        remaining_mask = np.array(draw(flags), np.bool_) if draw(st.booleans()) else None
        limit = draw(st.none() | st.integers(0, remaining_count(keys, remaining_mask)))
        result.append(
            Ranking(keys, None if remaining_mask is None else partial(part, remaining_mask), limit)
        )
    return result


def remaining_count(keys: KeySource, remaining_mask: NDArray[np.bool_] | None) -> int:
    return keys.size if remaining_mask is None else int(remaining_mask.sum())


def part(remaining_mask: NDArray[np.bool_], start: int, stop: int) -> NDArray[np.bool_]:
    return remaining_mask[start:stop]


def prunable_count(ranking: Ranking) -> int:
    size = ranking.keys.size
    remaining = (
        size if ranking.remaining_mask is None else int(ranking.remaining_mask(0, size).sum())
    )
    return remaining if ranking.max_pruned is None else ranking.max_pruned


@given(rankings(), st.sampled_from([1, 3, 4096]), st.data())
def test_batched_cuts_equal_unbatched_cuts(every, batch_tensors, data):
    k = data.draw(st.integers(0, sum(map(prunable_count, every))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "MAX_BATCH_TENSORS", batch_tensors)
        cuts = find_cuts_batched(every, k, Monitor())
    expected = find_cuts([*every, empty_like(every[0])], k, Monitor())
    assert [cut.pruned for cut in cuts] == [cut.pruned for cut in expected[:-1]]
    assert sum(cut.pruned for cut in cuts) == k
    for ranking, one, other in zip(every, cuts, expected[:-1], strict=True):
        size = ranking.keys.size
        remaining_mask = (
            np.ones(size, bool)
            if ranking.remaining_mask is None
            else ranking.remaining_mask(0, size)
        )
        marked = mark(ranking.keys, one, 0, size) & remaining_mask
        assert np.array_equal(marked, mark(ranking.keys, other, 0, size) & remaining_mask)
        assert one.non_finite == other.non_finite


def empty_like(ranking: Ranking) -> Ranking:
    """Return a ranking without elements: with two rankings, `find_cuts` uses histograms."""
    dtype = ranking.keys.dtype
    return Ranking(ScoreKeys.of(TensorScores.of(torch.zeros(0, dtype=dtype))))


@given(rankings(), st.data())
def test_batched_marks_equal_marks_tensor_by_tensor(every, data):
    k = data.draw(st.integers(0, sum(map(prunable_count, every))))
    keys, cuts = [one.keys for one in every], find_cuts_batched(every, k, Monitor())
    bounds = np.cumsum([0, *(key.size for key in keys)])
    codes = np.zeros(bounds[-1], np.uint8)
    mark_batched(keys, cuts, bounds, 3, codes)
    alone = [mark(key, cut, 0, key.size) for key, cut in zip(keys, cuts, strict=True)]
    assert np.array_equal(codes, 3 * np.concatenate(alone))


@pytest.mark.parametrize("chunk", [5, 64, parallel.CHUNK_ELEMENTS])
def test_keys_of_different_kinds_are_selected_together(monkeypatch, chunk):
    random_keys = [RandomKeys(0, f"p{i}", 10) for i in range(20)]
    scores = [torch.rand(10) for _ in range(20)]
    every: list[KeySource] = [*random_keys, *(ScoreKeys.of(TensorScores.of(own)) for own in scores)]
    expected = find_cuts([Ranking(keys) for keys in every], 150, Monitor())
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    cuts = find_cuts_batched([Ranking(keys) for keys in every], 150, Monitor())
    assert [cut.pruned for cut in cuts] == [cut.pruned for cut in expected]


def test_progress_of_batched_tensors_ends_at_its_total():
    reported: list[tuple[int, int]] = []
    keys = [ScoreKeys.of(TensorScores.of(torch.rand(10))) for _ in range(30)]
    monitor = Monitor(lambda done, total: reported.append((done, total)))
    find_cuts_batched([Ranking(own) for own in keys], 100, monitor)
    assert reported[-1][0] == reported[-1][1] > 0
