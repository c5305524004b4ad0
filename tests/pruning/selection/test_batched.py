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
from prune_gui.pruning.selection.batched import (
    SortedKeys,
    concatenate,
    find_cuts_batched,
    mark_batched,
)
from prune_gui.pruning.selection.keys import KeySource, RandomKeys, Ranking, ScoreKeys
from prune_gui.pruning.selection.lamp_cuts import find_lamp_cuts
from prune_gui.pruning.selection.radix_select import Cut, find_cuts, mark
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


SORTED_DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn]
sorted_numbers = st.lists(
    st.sampled_from([0.0, -0.0, 0.5, -2.0, np.inf, np.nan, -np.nan]), max_size=9
)


@st.composite
def tensors(draw: st.DrawFn) -> list[tuple[Ranking, int]]:
    """Rankings of one dtype, and the number of elements to prune of each."""
    dtype, cases = draw(st.sampled_from(SORTED_DTYPES)), []
    for values in draw(st.lists(sorted_numbers, min_size=1, max_size=8)):
        tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
        flags = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        remaining_mask = np.array(flags, np.bool_) if draw(st.booleans()) else None
        remaining = len(values) if remaining_mask is None else int(remaining_mask.sum())
        read_mask = (
            None
            if remaining_mask is None
            else lambda start, stop, remaining_mask=remaining_mask: remaining_mask[start:stop]
        )
        keys = ScoreKeys.of(TensorScores.of(tensor))
        cases.append((Ranking(keys, read_mask), draw(st.integers(0, remaining))))
    return cases


@given(tensors())
def test_sorted_keys_cut_each_tensor_as_find_cuts_does_alone(cases):
    rankings = [ranking for ranking, _ in cases]
    concatenated, bounds = concatenate(rankings)
    ranked = SortedKeys.of(concatenated.keys, concatenated.remaining_mask, bounds)
    cuts = ranked.cut(np.array([units for _, units in cases]))
    for cut, (ranking, units) in zip(cuts, cases, strict=True):
        [alone] = find_cuts([ranking], units, Monitor())
        size = ranking.keys.size
        remaining = (
            np.ones(size, bool)
            if ranking.remaining_mask is None
            else ranking.remaining_mask(0, size)
        )
        marked = mark(ranking.keys, cut, 0, size) & remaining
        assert marked.sum() == cut.pruned == units
        assert np.array_equal(marked, mark(ranking.keys, alone, 0, size) & remaining)
        assert cut.non_finite == alone.non_finite


def test_random_keys_of_pruned_elements_are_sorted_last():
    keys = RandomKeys(0, "p", 20)
    remaining_mask = np.arange(20) % 2 == 0
    ranked = SortedKeys.of(keys, lambda start, stop: remaining_mask[start:stop], np.array([0, 20]))
    expected = np.sort((keys.bits(0, 20) & keys.magnitude)[remaining_mask])
    assert np.array_equal(ranked.ranked[:10], expected)
    assert ranked.remaining.tolist() == [10]


LAMP_DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2]
# Squares and sums of these are exact, so that both summations give the same scores.
exact = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9, np.inf, np.nan])


@st.composite
def rankings_for_lamp(draw: st.DrawFn) -> list[Ranking]:
    """Rankings of any dtypes, some with pruned elements and some with a limit."""
    result = []
    for _ in range(draw(st.integers(1, 9))):
        values = draw(st.lists(exact, max_size=12))
        flags = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        remaining_mask = np.array(flags if draw(st.booleans()) else [True] * len(values), np.bool_)
        tensor = torch.tensor(values, dtype=torch.float64).to(draw(st.sampled_from(LAMP_DTYPES)))
        limit = draw(st.none() | st.integers(0, int(remaining_mask.sum())))
        keys = ScoreKeys.of(TensorScores.of(tensor))
        result.append(
            Ranking(
                keys,
                lambda start, stop, remaining_mask=remaining_mask: remaining_mask[start:stop],
                limit,
            )
        )
    return result


def remaining_of(ranking: Ranking) -> np.ndarray:
    assert ranking.remaining_mask is not None
    return ranking.remaining_mask(0, ranking.keys.size)


def prunable_for_lamp(ranking: Ranking) -> int:
    count = int(remaining_of(ranking).sum())
    return count if ranking.max_pruned is None else min(count, ranking.max_pruned)


def one_by_one(every: list[Ranking], k: int) -> list[Cut]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "MAX_BATCH_TENSORS", 1)
        return find_lamp_cuts(every, k, Monitor())


@given(rankings_for_lamp(), st.data())
def test_batched_cuts_equal_those_of_tensors_one_by_one(every, data):
    k = data.draw(st.integers(0, sum(map(prunable_for_lamp, every))))
    cuts, expected = find_lamp_cuts(every, k, Monitor()), one_by_one(every, k)
    assert sum(cut.pruned for cut in cuts) == k
    for ranking, cut, other in zip(every, cuts, expected, strict=True):
        size = ranking.keys.size
        assert (cut.pruned, cut.non_finite) == (other.pruned, other.non_finite)
        assert np.array_equal(
            mark(ranking.keys, cut, 0, size) & remaining_of(ranking),
            mark(ranking.keys, other, 0, size) & remaining_of(ranking),
        )


def many_rankings(dtype: torch.dtype = torch.float32) -> list[Ranking]:
    generator = torch.Generator().manual_seed(0)
    sizes = [*range(1, 150), 20_000, 30_000, *range(50)]
    scale = [1.0, 3.0, 0.01]
    tensors = [
        torch.randn(size, generator=generator) * scale[i % 3] for i, size in enumerate(sizes)
    ]
    return [Ranking(ScoreKeys.of(TensorScores.of(tensor.to(dtype)))) for tensor in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_small_and_large_tensors_are_cut_at_the_same_score(dtype, share):
    every = many_rankings(dtype)
    k = round(share * sum(ranking.keys.size for ranking in every))
    assert find_lamp_cuts(every, k, Monitor()) == one_by_one(every, k)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunk", [200, parallel.CHUNK_ELEMENTS])
def test_neither_threads_nor_batch_sizes_change_a_cut(monkeypatch, threads, chunk):
    every = many_rankings()
    expected = find_lamp_cuts(every, 30_000, Monitor())
    before = torch.get_num_threads()
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    torch.set_num_threads(threads)
    try:
        assert find_lamp_cuts(every, 30_000, Monitor()) == expected
    finally:
        torch.set_num_threads(before)
