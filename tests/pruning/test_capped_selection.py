"""Selection with a limit per tensor, and row by row, compared with plain sorting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import RowCut
from prune_gui.pruning.selection.keys import ScoreKeys, ranking_dtype
from prune_gui.pruning.selection.radix_select import find_cuts, mark
from prune_gui.pruning.selection.ranking import Ranking
from prune_gui.pruning.selection.rows import find_row_cuts
from prune_gui.pruning.selection.scores import TensorScores

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2]
# Few distinct values, so that ties are at the cut; the floats differ in every digit of a key.
numbers = st.sampled_from([0.0, 0.5, -0.5, 1.0, -3.0, 1e-3, np.nan]) | st.floats(-4, 4, width=32)


@st.composite
def capped(draw: st.DrawFn) -> tuple[list[torch.Tensor], list[np.ndarray], list[int], int]:
    """Tensors of one dtype, their remaining masks, the limit of each, and k."""
    dtype = draw(st.sampled_from(DTYPES))
    lists = draw(st.lists(st.lists(numbers, min_size=1, max_size=25), min_size=1, max_size=5))
    tensors = [torch.tensor(values, dtype=torch.float64).to(dtype) for values in lists]
    remaining_mask = [
        np.array(draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
        for values in lists
    ]
    limits = [draw(st.integers(0, int(mask.sum()))) for mask in remaining_mask]
    return tensors, remaining_mask, limits, draw(st.integers(0, sum(limits)))


def one_by_one(
    tensors: list[torch.Tensor], remaining_mask: list[np.ndarray], limits: list[int], k: int
) -> list[np.ndarray]:
    """The definition: prune sorted elements in order, except of tensors at their limit."""
    elements = sorted(
        (np.nan_to_num(abs(float(value)), nan=np.inf), np.isnan(float(value)), i, index)
        for i, tensor in enumerate(tensors)
        for index, value in enumerate(tensor.double())
        if remaining_mask[i][index]
    )
    pruned = [np.zeros(tensor.numel(), bool) for tensor in tensors]
    for _, _, i, index in elements:
        if sum(part.sum() for part in pruned) < k and pruned[i].sum() < limits[i]:
            pruned[i][index] = True
    return pruned


def within(remaining_mask: np.ndarray):
    return lambda start, stop: remaining_mask[start:stop]


@given(capped())
def test_a_tensor_at_its_limit_loses_no_more_elements(case):
    tensors, remaining_mask, limits, k = case
    shared = ranking_dtype({tensor.dtype for tensor in tensors})
    keys = [ScoreKeys(TensorScores.of(tensor), shared) for tensor in tensors]
    rankings = [
        Ranking(key, within(mask), limit)
        for key, mask, limit in zip(keys, remaining_mask, limits, strict=True)
    ]
    cuts = find_cuts(rankings, k, Monitor())
    expected = one_by_one(tensors, remaining_mask, limits, k)
    for key, cut, remaining, wanted in zip(keys, cuts, remaining_mask, expected, strict=True):
        assert np.array_equal(mark(key, cut, 0, key.size) & remaining, wanted)
        assert cut.pruned == wanted.sum()


@given(
    st.sampled_from(DTYPES),
    st.integers(1, 6),
    st.lists(numbers, min_size=5, max_size=5),
    st.data(),
)
def test_each_row_loses_its_own_smallest(dtype, rows, pool, data):
    drawn = data.draw(st.lists(st.sampled_from(pool), min_size=rows * 7, max_size=rows * 7))
    tensor = torch.tensor(drawn, dtype=torch.float64).to(dtype).view(rows, 7)
    remaining_mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=rows * 7, max_size=rows * 7))
    )
    counts = remaining_mask.reshape(rows, 7).sum(1)
    units = np.array([data.draw(st.integers(0, int(count))) for count in counts])
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)), within(remaining_mask))
    predicate = RowCut(ranking, 7, Lazy.of_value(find_row_cuts(ranking, units)))
    marked = (predicate.prunes(0, remaining_mask.size) & remaining_mask).reshape(rows, 7)
    for row, (values, row_mask) in enumerate(
        zip(tensor, remaining_mask.reshape(rows, 7), strict=True)
    ):
        [expected] = one_by_one([values], [row_mask], [7], int(units[row]))
        assert np.array_equal(marked[row], expected)


@pytest.mark.parametrize("span", [(0, 1), (3, 19), (6, 7), (20, 21)])
def test_row_cuts_of_a_span_equal_that_span_of_the_whole(span):
    tensor = torch.randint(-3, 3, (3, 7), generator=torch.Generator().manual_seed(0)).float()
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)))
    cuts = Lazy.of_value(find_row_cuts(ranking, np.array([2, 0, 7])))
    predicate = RowCut(ranking, 7, cuts)
    whole = predicate.prunes(0, 21)
    assert whole.reshape(3, 7).sum(1).tolist() == [2, 0, 7]
    assert np.array_equal(predicate.prunes(*span), whole[slice(*span)])
