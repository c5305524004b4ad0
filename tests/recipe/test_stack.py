"""Batched masks of many parameters, compared with those of each parameter."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import CustomMask, ElementCut, Predicate
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.scores import TensorScores
from prune_gui.recipe import stack
from prune_gui.recipe.stack import AppliedStep

SIZE = 6


@st.composite
def layers(draw: st.DrawFn) -> tuple[AppliedStep, ...]:
    """Up to three applied steps of one parameter, each a cut or a mask."""
    weights = torch.tensor(draw(st.lists(st.integers(-3, 3), min_size=SIZE, max_size=SIZE)))
    keys = ScoreKeys.of(TensorScores.of(weights.float()))
    found = []
    for step in sorted(draw(st.sets(st.integers(1, 4), max_size=3))):
        predicate: Predicate = CustomMask(TensorScores.of(weights > 0))
        if draw(st.booleans()):
            cut = Cut(keys.first_key(draw(st.integers(0, 3))), draw(st.integers(-1, SIZE)), 0)
            predicate = ElementCut(Ranking(keys), Lazy.of_value(cut))
        found.append(AppliedStep(step, predicate))
    return tuple(found)


@given(st.lists(layers(), max_size=8))
def test_batched_masks_equal_the_masks_of_each_parameter(every):
    bounds = np.arange(len(every) + 1) * SIZE
    alone = [stack.kept(own, 0, SIZE) for own in every]
    wanted = np.concatenate([np.zeros(0, bool), *alone])
    assert np.array_equal(stack.kept_of_each(every, bounds), wanted)
    tells = [stack.remaining_mask_of(own) for own in every]
    for one in filter(None, tells):
        assert np.array_equal(one.together(tells, bounds), wanted)
