"""Batched selection from many small tensors, compared with selection tensor by tensor."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.monitor import Monitor
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

# Few distinct values, so that ties are common. Squares and sums of these are exact, so that
# different orders of summation give the same LAMP scores.
numbers = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9, np.inf, np.nan, -np.nan])
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float8_e5m2)


@st.composite
def rankings(draw: st.DrawFn, *, mixed: bool = False) -> list[Ranking]:
    """Rankings of one dtype or of several, some with a remaining mask and some with a limit."""
    dtypes = draw(st.sampled_from([DTYPES] if mixed else [(dtype,) for dtype in DTYPES]))
    result = []
    for values in draw(st.lists(st.lists(numbers, max_size=12), min_size=1, max_size=9)):
        tensor = torch.tensor(values, dtype=torch.float64).to(draw(st.sampled_from(dtypes)))
        flags = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        mask = partial(part, np.array(flags, np.bool_)) if draw(st.booleans()) else None
        ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)), mask)
        limit = draw(st.none() | st.integers(0, int(remaining_of(ranking).sum())))
        result.append(replace(ranking, max_pruned=limit))
    return result


def part(mask: np.ndarray, start: int, stop: int) -> np.ndarray:
    return mask[start:stop]


def remaining_of(ranking: Ranking) -> np.ndarray:
    size = ranking.keys.size
    return np.ones(size, bool) if ranking.remaining_mask is None else ranking.mask(0, size)


def prunable_count(ranking: Ranking) -> int:
    return min(int(remaining_of(ranking).sum()), ranking.limit)


def assert_same(every: list[Ranking], cuts: list[Cut], others: list[Cut]) -> None:
    """Check that cuts prune the same elements."""
    for ranking, one, other in zip(every, cuts, others, strict=True):
        keys, remaining = ranking.keys, remaining_of(ranking)
        marked = mark(keys, one, 0, keys.size) & remaining
        assert np.array_equal(marked, mark(keys, other, 0, keys.size) & remaining)
        assert marked.sum() == one.pruned == other.pruned
        assert one.non_finite == other.non_finite


@given(rankings(), st.sampled_from([1, 3, 4096]), st.data())
def test_batched_cuts_equal_unbatched_cuts(every, batch_tensors, data):
    k = data.draw(st.integers(0, sum(map(prunable_count, every))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "MAX_BATCH_TENSORS", batch_tensors)
        cuts = find_cuts_batched(every, k, Monitor())
    expected = find_cuts([*every, empty_like(every[0])], k, Monitor())
    assert sum(cut.pruned for cut in cuts) == k
    assert_same(every, cuts, expected[:-1])


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


@given(rankings(), st.data())
def test_sorted_keys_cut_each_tensor_as_find_cuts_does_alone(every, data):
    units = [data.draw(st.integers(0, prunable_count(ranking))) for ranking in every]
    joined, bounds = concatenate(every)
    cuts = SortedKeys.of(joined.keys, joined.remaining_mask, bounds).cut(np.array(units))
    alone = [find_cuts([own], k, Monitor())[0] for own, k in zip(every, units, strict=True)]
    assert [cut.pruned for cut in cuts] == units
    assert_same(every, cuts, alone)


def test_random_keys_of_pruned_elements_are_sorted_last():
    keys = RandomKeys(0, "p", 20)
    remaining_mask = np.arange(20) % 2 == 0
    ranked = SortedKeys.of(keys, lambda start, stop: remaining_mask[start:stop], np.array([0, 20]))
    expected = np.sort((keys.bits(0, 20) & keys.magnitude)[remaining_mask])
    assert np.array_equal(ranked.ranked[:10], expected)
    assert ranked.remaining.tolist() == [10]


def one_by_one(every: list[Ranking], k: int) -> list[Cut]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "MAX_BATCH_TENSORS", 1)
        return find_lamp_cuts(every, k, Monitor())


@given(rankings(mixed=True), st.data())
def test_batched_cuts_equal_those_of_tensors_one_by_one(every, data):
    k = data.draw(st.integers(0, sum(map(prunable_count, every))))
    cuts = find_lamp_cuts(every, k, Monitor())
    assert sum(cut.pruned for cut in cuts) == k
    assert_same(every, cuts, one_by_one(every, k))


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
def test_neither_threads_nor_batch_sizes_change_a_cut(
    monkeypatch, set_torch_threads, threads, chunk
):
    every = many_rankings()
    expected = find_lamp_cuts(every, 30_000, Monitor())
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    set_torch_threads(threads)
    assert find_lamp_cuts(every, 30_000, Monitor()) == expected
