import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps import text as map_text
from prune_gui.gui.views.maps.text import (
    MAX_CHARACTERS,
    NO_NUMBER,
    PENDING,
    StepRow,
    describe,
    describe_ranks,
    is_bright,
    short,
    texts,
)
from prune_gui.pruning.predicates import ElementRank
from prune_gui.raster.colours import DARK, LIGHT, ramp, rgb
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe.outcome import Explanation
from prune_gui.statistics.element_values import Element, StepScore

L1 = {"method": "l1_unstructured"}
LN = {"method": "ln_structured", "amount": 1, "n": 2, "dim": 0}


def test_an_element_is_described_with_its_scores_before_its_ranks_are_known(subject_after):
    subject = subject_after(L1)
    text = describe(subject, Element((2, 3), -0.25, 1, (StepScore(1, 0.25, 0.5),)))
    assert (text.index, text.value, text.state) == ("[2, 3]", "-0.25", "pruned by step 1")
    assert text.rows == (StepRow("step 1: L1 unstructured", "0.25", "0.5", PENDING),)


def test_an_element_is_described_with_its_rank_in_every_step(subject_after):
    subject = subject_after(L1, LN)
    element_ranks = {
        1: ElementRank(False, "entry", 0.75, 0.5, 1233, 5000),
        2: ElementRank(True, "channel 2", 1.5, 1.5, 0, 8),
    }
    text = describe_ranks(subject, Explanation("fc.weight", (2, 3), 0.75, 2, element_ranks))
    assert (text.index, text.value, text.state) == ("[2, 3]", "0.75", "pruned by step 2")
    assert text.rows == (
        StepRow("step 1: L1 unstructured", "0.75", "0.5", "1,234 of 5,000"),
        StepRow("step 2: Ln structured, channel 2", "1.5", "1.5", "1 of 8"),
    )


def test_an_element_is_described_with_the_factors_of_its_row_and_column(subject_after):
    subject = subject_after({**L1, "score": "balanced"})
    rank = ElementRank(False, "entry", 1.5, 0.5, 0, 8, factors=(4.0, 0.5))
    text = describe_ranks(subject, Explanation("fc.weight", (2, 3), 0.75, 0, {1: rank}))
    [row] = text.rows
    assert row.step.endswith(", row factor 4, column factor 0.5")
    assert (row.score, row.cut, row.rank) == ("1.5", "0.5", "1 of 8")


def test_a_step_that_did_not_rank_the_element_has_no_numbers(subject_after):
    subject = subject_after({"method": "channels", "dim": 0, "channels": [2]}, L1)
    explanation = Explanation("fc.weight", (2, 3), 0.75, 1, {1: ElementRank(True, "channel 2")})
    for text in (
        describe_ranks(subject, explanation),
        describe(subject, Element((2, 3), 0.75, 1, (StepScore(1),))),
    ):
        assert [row.step.split(":")[0] for row in text.rows] == ["step 1", "step 2"]
        assert {(row.score, row.cut, row.rank) for row in text.rows} == {(NO_NUMBER,) * 3}


@given(st.floats(-1e9, 1e9))
def test_short_texts_are_near_their_numbers(number):
    text = short(number)
    assert len(text) <= MAX_CHARACTERS
    assert float(text) == pytest.approx(number, rel=0.5)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-1.0, "-1"),
        (0.03125, "0.0312"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1.234e-7, "1.2e-07"),
    ],
)
def test_numbers_have_the_expected_short_texts(number, text):
    assert short(number) == text


@pytest.mark.parametrize("at_once", [1, 1 << 16])
@pytest.mark.parametrize(
    "layout",
    [
        SliceLayout.flattened((4, 18)),
        SliceLayout.flattened((4, 18)).transposed,
        KernelLayout.of((4, 2, 3, 3)),
        SliceLayout.section((4, 2, 3, 3), 3, 0, (0, 1, 1, 0)),
    ],
)
def test_each_element_has_the_text_of_its_own_number(layout, at_once, monkeypatch):
    monkeypatch.setattr(map_text, "MAX_SPAN_ELEMENTS", at_once)
    known = np.ones(72, np.bool_)
    known[::5] = False

    def measure(start, stop):
        return np.arange(start, stop, dtype=np.float32), known[start:stop]

    rows, columns = range(1, layout.rows), range(layout.columns - 1)
    result = texts(measure, layout, rows, columns)
    assert result.shape == (len(rows), len(columns))
    for (i, j), text in np.ndenumerate(result):
        position = rows[i], columns[j]
        has_text = layout.holds(*position) and known[layout.flat(*position)]
        assert text == (str(layout.flat(*position)) if has_text else "")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_texts_are_legible_on_every_colour_of_an_element(theme):
    shades = [theme.kept, *theme.steps, theme.draft, theme.in_file]
    ramps = [ramp(theme, signed=signed).table()[:, :3] for signed in (False, True)]
    pixels = np.concatenate([np.uint8([rgb(shade) for shade in shades]), *ramps])
    srgb = pixels / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    contrast = np.where(is_bright(pixels), (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05))
    assert contrast.min() >= 4.5
