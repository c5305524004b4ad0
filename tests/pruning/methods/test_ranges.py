"""Lists of channels as texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.methods.channels import MAX_CHANNELS, format_ranges, parse_ranges


@given(st.lists(st.integers(0, 40), unique=True))
def test_a_formatted_list_parses_to_it(channels):
    assert parse_ranges(format_ranges(channels)) == tuple(channels)


def test_three_or_more_consecutive_channels_are_a_range():
    assert format_ranges([3, 7, 12, 13, 14, 20, 21]) == "3, 7, 12-14, 20, 21"


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-2", "1.5", f"0-{MAX_CHANNELS}", "1" * 40])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"not a list of channels|holds"):
        parse_ranges(text)


def test_other_values_are_unchanged():
    assert parse_ranges([1, "x"]) == [1, "x"]
