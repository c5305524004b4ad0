"""Selection with a limit per tensor, and row by row, compared with plain sorting."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import RowCut
from prune_gui.pruning.selection import rows as row_cuts
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys, ranking_dtype
from prune_gui.pruning.selection.radix_select import find_cuts, mark
from prune_gui.pruning.selection.rows import RowShape, find_row_cuts
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
    st.sampled_from([(1, 1, 7), (1, 6, 7), (7, 5, 1), (3, 4, 2), (2, 1, 3), (3, 1, 1)]),
    st.lists(numbers, min_size=5, max_size=5),
    st.sampled_from([1, 9, 1 << 26]),
    st.data(),
)
def test_each_row_loses_its_own_smallest(dtype, shape, pool, gathered, data):
    size, shape = math.prod(shape), RowShape(*shape)
    drawn = data.draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
    tensor = torch.tensor(drawn, dtype=torch.float64).to(dtype).view(shape)
    remaining_mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    rows = np.moveaxis(remaining_mask.reshape(shape), 1, 0).reshape(shape.rows, -1)
    units = np.array([data.draw(st.integers(0, int(count))) for count in rows.sum(1)])
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)), within(remaining_mask))
    with mock.patch.object(row_cuts, "GATHERED_ELEMENTS", gathered):
        cuts = find_row_cuts(ranking, units, shape)
    predicate = RowCut(ranking, shape, Lazy.of_value(cuts))
    marked = predicate.prunes(0, size) & remaining_mask
    start = data.draw(st.integers(0, size))
    assert np.array_equal(predicate.prunes(start, size), predicate.prunes(0, size)[start:])
    of_rows = np.moveaxis(marked.reshape(shape), 1, 0).reshape(shape.rows, -1)
    values = tensor.movedim(1, 0).flatten(1)
    for row, (own, row_mask) in enumerate(zip(values, rows, strict=True)):
        [expected] = one_by_one([own], [row_mask], [shape.columns], int(units[row]))
        assert np.array_equal(of_rows[row], expected)
    for flat in np.flatnonzero(remaining_mask):
        rank = predicate.element_rank(int(flat))
        row, _ = shape.row_and_column(int(flat))
        assert (rank.pruned, rank.ranked) == (marked[flat], rows[row].sum())
        assert (rank.rank < units[row]) == rank.pruned


@pytest.mark.parametrize("span", [(0, 1), (3, 19), (6, 7), (20, 21)])
def test_row_cuts_of_a_span_equal_that_span_of_the_whole(span):
    tensor = torch.randint(-3, 3, (3, 7), generator=torch.Generator().manual_seed(0)).float()
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)))
    cuts = Lazy.of_value(find_row_cuts(ranking, np.array([2, 0, 7]), RowShape(1, 3, 7)))
    predicate = RowCut(ranking, RowShape(1, 3, 7), cuts)
    whole = predicate.prunes(0, 21)
    assert whole.reshape(3, 7).sum(1).tolist() == [2, 0, 7]
    assert np.array_equal(predicate.prunes(*span), whole[slice(*span)])
