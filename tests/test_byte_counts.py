"""Byte counts as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.number_formats import parse_bytes, short_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("500MB", 500 * 10**6), ("2 GiB", 2 << 30), ("1.5gb", 1_500_000_000), ("7B", 7)],
)
def test_a_size_is_read_with_decimal_and_binary_units(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "5", "GB", "5 apples", "-1GB", "0GB", "1e3MB", "0.1B"])
def test_an_invalid_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="is not a size such as 500MB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (999_499, "999 kB"), (999_500, "1 MB"),
     (362_128, "362 kB"), (7_642_181_920, "7.64 GB")],
)  # fmt: skip
def test_a_count_is_shown_with_three_digits(count, text):
    assert short_bytes(count) == text


def test_a_count_is_shown_with_the_decimal_separator_of_the_locale(monkeypatch):
    monkeypatch.setattr("prune_gui.language._numbers.separators", {ord("."): ","})
    assert short_bytes(7_642_181_920) == "7,64 GB"
    assert short_bytes(1) == "1 byte"


@given(st.integers(1000, 10**17))
def test_a_formatted_count_parses_back_to_about_the_count(count):
    text = short_bytes(count)
    if not text.endswith("PB"):
        assert parse_bytes(text) == pytest.approx(count, rel=0.006)
