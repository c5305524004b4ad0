"""Sorted keys of many small tensors, compared with each tensor alone."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning.selection.batched import SortedKeys, concatenate
from prune_gui.pruning.selection.keys import RandomKeys, Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import find_cuts, mark
from prune_gui.pruning.selection.scores import TensorScores

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn]
numbers = st.lists(st.sampled_from([0.0, -0.0, 0.5, -2.0, np.inf, np.nan, -np.nan]), max_size=9)


@st.composite
def tensors(draw: st.DrawFn) -> list[tuple[Ranking, int]]:
    """Rankings of one dtype, and the number of elements to prune of each."""
    dtype, cases = draw(st.sampled_from(DTYPES)), []
    for values in draw(st.lists(numbers, min_size=1, max_size=8)):
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
