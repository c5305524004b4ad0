"""Pruning of listed channels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError
from targets import decide as decide_by
from targets import unread

from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.channels import format_ranges, parse_ranges

decide = partial(decide_by, "channels")


@given(hnp.array_shapes(max_dims=4, max_side=6), st.data())
def test_exactly_the_listed_channels_are_pruned(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = int(np.prod(shape))
    listed = st.lists(st.integers(0, shape[dim] - 1), min_size=1, unique=True)
    channels = data.draw(listed)
    remaining_mask = data.draw(st.none() | hnp.arrays(bool, size))
    [decision] = decide(unread(shape, remaining_mask=remaining_mask), channels=channels, dim=dim)
    expected = np.zeros(shape, bool)
    np.moveaxis(expected, dim, 0)[channels] = True
    found = decision.predicate.prunes(0, size)
    assert np.array_equal(found.reshape(shape), expected)
    assert decision.pruned == (found if remaining_mask is None else found & remaining_mask).sum()
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
    assert np.array_equal(decision.predicate.prunes(start, stop), found[start:stop])


def test_the_rank_of_an_element_names_its_channel():
    [decision] = decide(unread((2, 3)), channels=[1], dim=1)
    element_rank = decision.predicate.element_rank(4)
    assert (element_rank.pruned, element_rank.unit, element_rank.score) == (True, "channel 1", None)


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
        ("1.5", "'1.5' is not a list of channels"),
        ("1" * 40, "is not a list of channels"),
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


@given(st.lists(st.integers(0, 40), unique=True))
def test_a_formatted_list_parses_to_it(channels):
    assert parse_ranges(format_ranges(channels)) == tuple(channels)


def test_three_or_more_consecutive_channels_are_a_range():
    assert format_ranges([3, 7, 12, 13, 14, 20, 21]) == "3, 7, 12-14, 20, 21"
