"""What a person reads of names that may hold anything: one bounded line, all of it seen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import (
    BLANKS,
    INVISIBLE,
    LONGEST,
    Cancelled,
    CheckpointError,
    PluginError,
    PruneGuiError,
    RecipeError,
    StepError,
    one_line,
)

ANY = st.text(st.characters() | st.characters(categories=["Cs", "Cf", "Cc", "Mn", "Zs"]))


@pytest.mark.parametrize(
    "text",
    [
        "encoder.layer.0.weight",
        "a b",
        "权重.weight",
        "été",
        "e\u0301",
        "שלום",
        "वज़न",
        "日本語",
        "😀",
    ],
)
def test_plain_text_is_shown_as_it_is(text):
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f", r"\x7f"),
        ("\u202egpj", r"\u202egpj"),
        ("\u2066\u2069\u200e\u061c", r"\u2066\u2069\u200e\u061c"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\U000e0041", r"\U000e0041"),
        ("\ue000\uffff", r"\ue000\uffff"),
        ("\udc80", r"\udc80"),
        ("\u3164\u2800\u115f\uffa0", r"\u3164\u2800\u115f\uffa0"),
        ("a\ufe0f", r"a\ufe0f"),
        ("\u2003\u3000", r"\u2003\u3000"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
    ],
)
def test_what_does_not_print_or_cannot_be_seen_is_spelled_out(text, shown):
    assert one_line(text) == shown


@given(ANY, st.integers(10, 100))
def test_any_text_is_one_short_line_in_which_everything_is_seen(text, most):
    shown = one_line(text, most)
    assert len(shown) <= most
    assert all(sign.isprintable() or sign in BLANKS for sign in shown)
    assert INVISIBLE.isdisjoint(shown)
    assert one_line(shown, most) == shown
    kinds = "".join("m" if unicodedata.category(sign) in ("Mn", "Me") else "." for sign in shown)
    assert "m" * 5 not in kinds


def test_a_long_name_keeps_both_ends():
    assert one_line("a" * 1000 + "b" * 1000, 30) == "a" * 17 + "..." + "b" * 10


def test_numbers_of_every_language_stay_as_they_are():
    assert one_line("1\u202f234\xa0567") == "1\u202f234\xa0567"


@pytest.mark.parametrize("kind", [PruneGuiError, CheckpointError, RecipeError, PluginError])
def test_every_message_is_one_line_of_bounded_length(kind):
    said = str(kind("x" * 100_000 + "\nprune-gui: all is well\x1b[2J"))
    assert said.isprintable()
    assert len(said) <= LONGEST


def test_a_step_that_fails_says_why_in_one_line_too():
    error = StepError(3, "a\n" * 1000)
    assert error.reason.isprintable()
    assert len(error.reason) <= LONGEST
    assert str(error).startswith("Step 3: a\\na")
    assert len(str(error)) <= LONGEST


def test_lines_of_code_follow_the_message():
    error = CheckpointError("It needs\ncode.", ["import torch", "torch.load(path)"])
    assert str(error) == "It needs\\ncode.\n    import torch\n    torch.load(path)"


def test_a_cancelled_job_says_so():
    assert str(Cancelled()) == "Cancelled; nothing was changed."
