"""LAMP selection from batches of small tensors, compared with the same tensors one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.selection import batched
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys
from prune_gui.pruning.selection.lamp_cuts import find_lamp_cuts
from prune_gui.pruning.selection.radix_select import Cut, mark
from prune_gui.pruning.selection.scores import TensorScores

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2]
# Squares and sums of these are exact, so that both summations give the same scores.
exact = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9, np.inf, np.nan])


@st.composite
def rankings(draw: st.DrawFn) -> list[Ranking]:
    """Rankings of any dtypes, some with pruned elements and some with a limit."""
    result = []
    for _ in range(draw(st.integers(1, 9))):
        values = draw(st.lists(exact, max_size=12))
        flags = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        remaining_mask = np.array(flags if draw(st.booleans()) else [True] * len(values), np.bool_)
        tensor = torch.tensor(values, dtype=torch.float64).to(draw(st.sampled_from(DTYPES)))
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


def remaining(ranking: Ranking) -> np.ndarray:
    assert ranking.remaining_mask is not None
    return ranking.remaining_mask(0, ranking.keys.size)


def prunable_count(ranking: Ranking) -> int:
    count = int(remaining(ranking).sum())
    return count if ranking.max_pruned is None else min(count, ranking.max_pruned)


def one_by_one(every: list[Ranking], k: int) -> list[Cut]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "MAX_BATCH_TENSORS", 1)
        return find_lamp_cuts(every, k, Monitor())


@given(rankings(), st.data())
def test_batched_cuts_equal_those_of_tensors_one_by_one(every, data):
    k = data.draw(st.integers(0, sum(map(prunable_count, every))))
    cuts, expected = find_lamp_cuts(every, k, Monitor()), one_by_one(every, k)
    assert sum(cut.pruned for cut in cuts) == k
    for ranking, cut, other in zip(every, cuts, expected, strict=True):
        size = ranking.keys.size
        assert (cut.pruned, cut.non_finite) == (other.pruned, other.non_finite)
        assert np.array_equal(
            mark(ranking.keys, cut, 0, size) & remaining(ranking),
            mark(ranking.keys, other, 0, size) & remaining(ranking),
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


def test_progress_ends_at_its_total():
    reported: list[tuple[int, int]] = []
    monitor = Monitor(lambda done, total: reported.append((done, total)))
    find_lamp_cuts(many_rankings()[:149], 1000, monitor)
    assert reported[-1][0] == reported[-1][1] > 0


def test_cancelling_ends_the_selection():
    class Stop:
        def is_set(self) -> bool:
            return True

    with pytest.raises(Cancelled):
        find_lamp_cuts(many_rankings()[:20], 10, Monitor(cancel=Stop()))
