"""Many small tensors cut as one, against each by itself."""

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
from prune_gui.pruning.selection.keys import KeySource, RandomKeys, ScoreKeys
from prune_gui.pruning.selection.radix_select import Ranking, find_cuts, mark
from prune_gui.pruning.selection.scores import TensorScores

# Few distinct values, so that ties are common; NaN among them.
numbers = st.lists(st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, np.inf, np.nan]), max_size=9)


@st.composite
def rankings(draw: st.DrawFn) -> list[Ranking]:
    """Some tensors, of part of which only some entries are still there, and some of them held."""
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float64]))
    found = []
    for values in draw(st.lists(numbers, min_size=1, max_size=8)):
        keys = ScoreKeys.of(TensorScores.of(torch.tensor(values, dtype=dtype)))
        some = st.lists(st.booleans(), min_size=len(values), max_size=len(values))
        remaining_mask = np.array(draw(some), np.bool_) if draw(st.booleans()) else None
        most = draw(st.none() | st.integers(0, there(keys, remaining_mask)))
        found.append(
            Ranking(keys, None if remaining_mask is None else partial(part, remaining_mask), most)
        )
    return found


def there(keys: KeySource, remaining_mask: NDArray[np.bool_] | None) -> int:
    return keys.size if remaining_mask is None else int(remaining_mask.sum())


def part(remaining_mask: NDArray[np.bool_], start: int, stop: int) -> NDArray[np.bool_]:
    return remaining_mask[start:stop]


def may_go(ranking: Ranking) -> int:
    size = ranking.keys.size
    left = size if ranking.remaining_mask is None else int(ranking.remaining_mask(0, size).sum())
    return left if ranking.most is None else ranking.most


@given(rankings(), st.sampled_from([1, 3, 4096]), st.data())
def test_small_tensors_are_cut_together_as_each_by_itself(every, together, data):
    k = data.draw(st.integers(0, sum(map(may_go, every))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "BATCH_TENSORS", together)
        found = find_cuts_batched(every, k, Monitor())
    wanted = find_cuts([*every, nothing_like(every[0])], k, Monitor())
    assert [cut.pruned for cut in found] == [cut.pruned for cut in wanted[:-1]]
    assert sum(cut.pruned for cut in found) == k
    for ranking, one, other in zip(every, found, wanted[:-1], strict=True):
        size = ranking.keys.size
        remaining_mask = (
            np.ones(size, bool)
            if ranking.remaining_mask is None
            else ranking.remaining_mask(0, size)
        )
        marked = mark(ranking.keys, one, 0, size) & remaining_mask
        assert np.array_equal(marked, mark(ranking.keys, other, 0, size) & remaining_mask)
        assert one.non_finite == other.non_finite


def nothing_like(ranking: Ranking) -> Ranking:
    """Return a ranking without entries, so that the others are counted even if they are one."""
    dtype = ranking.keys.dtype
    return Ranking(ScoreKeys.of(TensorScores.of(torch.zeros(0, dtype=dtype))))


@given(rankings(), st.data())
def test_cuts_mark_tensors_together_as_one_by_one(every, data):
    k = data.draw(st.integers(0, sum(map(may_go, every))))
    keys, cuts = [one.keys for one in every], find_cuts_batched(every, k, Monitor())
    bounds = np.cumsum([0, *(key.size for key in keys)])
    codes = np.zeros(bounds[-1], np.uint8)
    mark_batched(keys, cuts, bounds, 3, codes)
    alone = [mark(key, cut, 0, key.size) for key, cut in zip(keys, cuts, strict=True)]
    assert np.array_equal(codes, 3 * np.concatenate(alone))


@pytest.mark.parametrize("chunk", [5, 64, parallel.CHUNK_ELEMENTS])
def test_random_keys_and_kinds_that_differ_are_cut_together_too(monkeypatch, chunk):
    mixed = [RandomKeys(0, f"p{i}", 10) for i in range(20)]
    scores = [torch.rand(10) for _ in range(20)]
    every: list[KeySource] = [*mixed, *(ScoreKeys.of(TensorScores.of(own)) for own in scores)]
    wanted = find_cuts([Ranking(keys) for keys in every], 150, Monitor())
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    found = find_cuts_batched([Ranking(keys) for keys in every], 150, Monitor())
    assert [cut.pruned for cut in found] == [cut.pruned for cut in wanted]


def test_progress_of_joined_tensors_ends_at_its_total():
    reported: list[tuple[int, int]] = []
    keys = [ScoreKeys.of(TensorScores.of(torch.rand(10))) for _ in range(30)]
    monitor = Monitor(lambda done, total: reported.append((done, total)))
    find_cuts_batched([Ranking(own) for own in keys], 100, monitor)
    assert reported[-1][0] == reported[-1][1] > 0
