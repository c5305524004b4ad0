"""Pruning of listed channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.selection.scores import TensorScores


def target(
    shape: tuple[int, ...], name: str = "w", remaining_mask: np.ndarray | None = None
) -> Target:
    """Return a target whose weights are never read."""
    unread = TensorScores(lambda: pytest.fail("was read"), shape, torch.float32)
    size = int(np.prod(shape))
    return Target(
        name=name,
        shape=shape,
        remaining=size if remaining_mask is None else int(remaining_mask.sum()),
        weights=unread,
        other=lambda *_: unread,
        remaining_mask=None
        if remaining_mask is None
        else lambda start, stop: remaining_mask[start:stop],
    )


def decide(*targets: Target, **parameters: object) -> list[Decision]:
    return METHODS["channels"].model_validate(parameters).decide(targets, Monitor())


@given(hnp.array_shapes(max_dims=4, max_side=6), st.data())
def test_exactly_the_listed_channels_are_pruned(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = int(np.prod(shape))
    listed = st.lists(st.integers(0, shape[dim] - 1), min_size=1, unique=True)
    channels = data.draw(listed)
    remaining_mask = data.draw(st.none() | hnp.arrays(bool, size))
    [decision] = decide(target(shape, remaining_mask=remaining_mask), channels=channels, dim=dim)
    expected = np.zeros(shape, bool)
    np.moveaxis(expected, dim, 0)[channels] = True
    found = decision.predicate.prunes(0, size)
    assert np.array_equal(found.reshape(shape), expected)
    assert decision.pruned == (found if remaining_mask is None else found & remaining_mask).sum()
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
    assert np.array_equal(decision.predicate.prunes(start, stop), found[start:stop])


def test_the_rank_of_an_element_names_its_channel():
    [decision] = decide(target((2, 3)), channels=[1], dim=1)
    element_rank = decision.predicate.element_rank(4)
    assert (element_rank.pruned, element_rank.unit, element_rank.score) == (True, "channel 1", None)


@pytest.mark.parametrize(
    ("shape", "parameters", "says"),
    [
        ((4, 3), {"channels": [1, 4]}, r"layer\.weight has 4 channels.*channel 4.*0 to 3"),
        ((4, 3), {"channels": [3], "dim": 1}, r"layer\.weight has 3 channels.*channel 3.*0 to 2"),
        ((4, 3), {"channels": [0], "dim": 2}, r"layer\.weight.*dim 2.*-2 to 1"),
        ((), {"channels": [0]}, r"layer\.weight.*Leave it out"),
    ],
)
def test_a_target_without_the_channels_is_named_with_a_solution(shape, parameters, says):
    with pytest.raises(RecipeError, match=says):
        decide(target(shape, "layer.weight"), **parameters)


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        ([], "at least one"),
        ("", "at least one"),
        ([2, -1], "-1 is invalid"),
        ([3, 5, 3], "channel 3 is named more than once"),
        ("3, 1-4", "channel 3 is named more than once"),
        ("-1", "'-1' is not a list of channels"),
        ("one", "'one' is not a list of channels"),
        ("1-2-3", "'1-2-3' is not a list of channels"),
        ("1-", "'1-' is not a list of channels"),
        ("²", "'²' is not a list of channels"),
        ("5-4", "5-4 holds no channels"),
        ("0-99999999999999", "too many"),
        ([1.0], "valid integer"),
        ([True], "valid integer"),
        (3, "valid tuple"),
        (None, "valid tuple"),
    ],
)
def test_an_invalid_list_of_channels_is_refused_with_the_reason(channels, says):
    with pytest.raises(ValidationError, match=says):
        METHODS["channels"].model_validate({"channels": channels})


def test_a_text_of_ranges_equals_a_list():
    method = METHODS["channels"].model_validate({"channels": " 3,7 , 12 - 15,"})
    assert method.channels == (3, 7, 12, 13, 14, 15)
    assert method.model_dump(mode="json")["channels"] == [3, 7, 12, 13, 14, 15]
