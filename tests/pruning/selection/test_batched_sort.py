"""Many small tensors with sorted keys, against each by itself."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning.selection.batched import batch_requests
from prune_gui.pruning.selection.batched_sort import SortedKeys
from prune_gui.pruning.selection.keys import RandomKeys, ScoreKeys
from prune_gui.pruning.selection.radix_select import Ranking, find_cuts, mark
from prune_gui.pruning.selection.scores import TensorScores

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn]
numbers = st.lists(st.sampled_from([0.0, -0.0, 0.5, -2.0, np.inf, np.nan, -np.nan]), max_size=9)


@st.composite
def tensors(draw: st.DrawFn) -> list[tuple[Ranking, int]]:
    """Some tensors, and how many entries go of each."""
    dtype, found = draw(st.sampled_from(DTYPES)), []
    for values in draw(st.lists(numbers, min_size=1, max_size=8)):
        tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
        some = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        remaining_mask = np.array(some, np.bool_) if draw(st.booleans()) else None
        left = len(values) if remaining_mask is None else int(remaining_mask.sum())
        within = (
            None
            if remaining_mask is None
            else lambda start, stop, remaining_mask=remaining_mask: remaining_mask[start:stop]
        )
        keys = ScoreKeys.of(TensorScores.of(tensor))
        found.append((Ranking(keys, within), draw(st.integers(0, left))))
    return found


@given(tensors())
def test_so_many_of_each_are_cut_as_of_each_by_itself(made):
    every = [ranking for ranking, _ in made]
    together, bounds = batch_requests(every)
    ranked = SortedKeys.of(together.keys, together.remaining_mask, bounds)
    cuts = ranked.cut(np.array([units for _, units in made]))
    for cut, (ranking, units) in zip(cuts, made, strict=True):
        [alone] = find_cuts([ranking], units, Monitor())
        size = ranking.keys.size
        there = (
            np.ones(size, bool)
            if ranking.remaining_mask is None
            else ranking.remaining_mask(0, size)
        )
        marked = mark(ranking.keys, cut, 0, size) & there
        assert marked.sum() == cut.pruned == units
        assert np.array_equal(marked, mark(ranking.keys, alone, 0, size) & there)
        assert cut.non_finite == alone.non_finite


def test_random_keys_of_entries_that_are_gone_stay_behind_the_largest():
    keys = RandomKeys(0, "p", 20)
    remaining_mask = np.arange(20) % 2 == 0
    ranked = SortedKeys.of(keys, lambda start, stop: remaining_mask[start:stop], np.array([0, 20]))
    expected = np.sort((keys.bits(0, 20) & keys.magnitude)[remaining_mask])
    assert np.array_equal(ranked.ranked[:10], expected)
    assert ranked.there.tolist() == [10]
