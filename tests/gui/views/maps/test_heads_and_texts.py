"""Attention heads in a map, and texts about single elements."""

import json

import numpy as np
import pyqtgraph as pg
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from safetensors.torch import save_file

from prune_gui.gui.views.maps import text as map_text
from prune_gui.gui.views.maps.margins import HeadAxis, Margins, Titles, bars, reach
from prune_gui.gui.views.maps.readers import AUTO, OFF, HeadsBox
from prune_gui.gui.views.maps.text import (
    MAX_CHARACTERS,
    NO_NUMBER,
    PENDING,
    StepRow,
    describe,
    describe_ranks,
    short,
    texts,
)
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.view import MaskView
from prune_gui.gui.views.plot import Plot
from prune_gui.pruning.predicates import ElementRank
from prune_gui.raster.cell_statistics import Profiles
from prune_gui.raster.colours import DARK, LIGHT, is_bright, ramp, rgb
from prune_gui.raster.parameter_layouts import HeadBands, KernelLayout, SliceLayout
from prune_gui.recipe.outcome import Explanation
from prune_gui.statistics.element_values import Element, StepScore

QUERY = "layer.0.attention.self.query.weight"
OUTPUT = "layer.0.attention.output.dense.weight"


@pytest.fixture
def mask(bench, tmp_path, shown):
    generator = torch.Generator().manual_seed(0)
    names = (QUERY, OUTPUT, QUERY.replace("layer.0", "layer.1"), "fc.weight")
    tensors = {name: torch.randn(48, 48, generator=generator) for name in names}
    save_file({**tensors, "conv.weight": torch.ones(2, 2, 3, 3)}, tmp_path / "model.safetensors")
    config = {"model_type": "bert", "num_attention_heads": 4, "hidden_size": 48}
    (tmp_path / "config.json").write_text(json.dumps(config))
    view = shown(MaskView(bench, Viewport()))
    view.resize(700, 700)
    bench.open_and_choose(tmp_path / "model.safetensors", QUERY)
    return view


def _texts(mask, side):
    axis = mask.canvas.plotItem.getAxis(side)
    if not axis.isVisible():
        return []
    size = axis.height() if side == "right" else axis.width()
    return [
        text
        for spacing, values in axis.tickValues(*axis.range, size)
        for text in axis.tickStrings(values, 1.0, spacing)
    ]


def _lines(mask):
    lines = mask.canvas.heads._lines
    return len(lines.getData()[0]) // 2 if lines.isVisible() else 0


def test_each_head_of_the_file_has_its_sparsity_beside_it(mask, bench):
    rows = list(range(12, 24))
    bench.add(bench.step("channels", dim=0, channels=rows, targets=[QUERY]))
    assert _texts(mask, "right") == [
        "head 0\n0.0 %", "head 1\n100.0 %", "head 2\n0.0 %", "head 3\n0.0 %",
    ]  # fmt: skip
    assert mask.canvas.plotItem.getAxis("right").labelText == "Share pruned of each head"
    assert _texts(mask, "top") == []
    assert _lines(mask) == 3
    bench.show(OUTPUT)
    assert _texts(mask, "right") == []
    assert [text.split("\n")[0] for text in _texts(mask, "top")] == [f"head {i}" for i in range(4)]


@pytest.mark.parametrize("size", [120, 250, 420, 700])
def test_texts_of_heads_side_by_side_do_not_touch(qapp, size):
    axis = HeadAxis("top")
    bands = HeadBands(False, 32, tuple(map(str, range(12))))
    axis.show_bands(bands, ["50.5 %"] * 12, qapp.font())
    for spacing, values in axis.tickValues(-0.5, 383.5, size):
        lines = " ".join(axis.tickStrings(values, 1.0, spacing)).replace("\n", " ")
        assert "50.5 %" in lines
        longest = axis._metrics.horizontalAdvance("head 11" if "head" in lines else "50.5 %")
        assert spacing * size / 384 >= longest + 8


def test_the_title_of_heads_is_hidden_where_it_does_not_fit(mask):
    axis = mask.canvas.plotItem.getAxis("right")
    for height, is_shown in ((700, True), (260, False), (700, True)):
        mask.resize(700, height)
        QApplication.processEvents()
        assert axis.label.isVisible() == is_shown


def test_parameters_without_heads_have_no_lines(mask, bench):
    bench.show("fc.weight")
    assert (_lines(mask), _texts(mask, "right"), _texts(mask, "top")) == (0, [], [])
    bench.show("conv.weight")
    assert not mask._heads.box.isVisible()


def test_the_number_of_heads_can_be_set_for_a_module_in_every_block(mask, bench, qtbot):
    box = mask._heads.box
    box.setFocus()
    box.selectAll()
    qtbot.keyClicks(box, "6")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    bench.until_idle()
    assert _lines(mask) == 5
    bench.show(QUERY.replace("layer.0", "layer.1"))
    assert (_lines(mask), box.value()) == (5, 6)
    bench.show(OUTPUT)
    assert (_lines(mask), box.value()) == (3, AUTO)
    box.setValue(OFF)
    bench.until_idle()
    assert _lines(mask) == 0


def test_a_number_that_does_not_divide_the_weight_shows_no_heads(mask, bench):
    mask._heads.box.setValue(5)
    bench.until_idle()
    assert _lines(mask) == 0
    assert _texts(mask, "right") == []


def test_a_head_that_is_partly_visible_has_its_text_in_the_visible_part(mask, bench):
    mask._square.click()
    mask.canvas.setRange(xRange=(0, 10), yRange=(13, 16), padding=0)
    bench.until_idle()
    [text] = _texts(mask, "right")
    assert text.startswith("head 1\n")


def test_many_heads_have_fewer_texts_than_lines(mask, bench):
    mask._heads.box.setValue(48)
    bench.until_idle()
    texts = _texts(mask, "right")
    assert 5 < len(texts) < 48
    assert texts[0].startswith("0: ")
    assert _lines(mask) == 47


@pytest.mark.parametrize(
    ("typed", "value"), [("12", 12), ("Heads: 8", 8), ("off", OFF), ("auto", AUTO), ("x", AUTO)]
)
def test_the_box_reads_what_is_typed(qtbot, typed, value):
    box = HeadsBox()
    qtbot.addWidget(box)
    assert box.valueFromText(typed) == value
    assert box.valueFromText(box.textFromValue(value)) == value


@given(
    st.lists(st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=300),
    st.floats(-50, 350),
    st.floats(0.1, 400),
    st.integers(1, 50),
)
def test_bars_are_the_means_of_the_visible_lines(shares, start, length, max_bars):
    share = np.array(shares)
    edges, heights = bars(share, (start, start + length), max_bars)
    assert 1 <= len(heights) <= max_bars
    assert len(edges) == len(heights) + 1
    for low, high, height in zip(edges[:-1], edges[1:], heights, strict=True):
        lines = share[int(low + 0.5) : int(high + 0.5)]
        assert len(lines) > 0
        finite = lines[~np.isnan(lines)]
        assert height == pytest.approx(finite.mean() if len(finite) else 0.0)


@pytest.mark.parametrize(
    ("means", "ends"),
    [
        ([0.5, 2.0], (0, 2)),
        ([-1.0, 0.5, np.nan], (-1, 0.5)),
        ([-3.0, -1.0], (-3, 0)),
        ([0.0, 0.0], (0, 1)),
        ([np.nan], (0, 1)),
    ],
)
def test_the_range_of_bars_includes_zero_and_all_means(means, ends):
    assert reach(np.array(means)) == ends


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
    shades = [theme.kept, *theme.steps, theme.draft, theme.in_file, theme.zero]
    ramps = [ramp(theme, signed=signed).table()[:, :3] for signed in (False, True)]
    pixels = np.concatenate([np.uint8([rgb(shade) for shade in shades]), *ramps])
    srgb = pixels / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    contrast = np.where(is_bright(pixels), (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05))
    assert contrast.min() >= 4.5


@pytest.mark.parametrize("side", [600, 250, 150])
def test_titles_of_profiles_are_not_longer_than_these(qtbot, side):
    plot = Plot()
    qtbot.addWidget(plot)
    margins = Margins(plot)
    margins.set_visible(visible=True)
    titles = Titles("Share pruned of each column", "Share pruned of each row", shares=True)
    margins.show_profiles(Profiles(np.ones(9), np.ones(9)), titles)
    plot.resize(side, side)
    plot.show()
    shown = [item for item in plot.scene().items() if isinstance(item, pg.TextItem)]
    assert len(shown) == 2
    for title in shown:
        strip = title.parentItem()
        length = max(strip.width(), strip.height())
        assert 0 < title.textItem.boundingRect().width() <= length
    assert any("100" in title.toPlainText() for title in shown) == (side == 600)


def test_a_profile_is_hidden_where_it_would_leave_little_of_the_picture(qtbot):
    plot = Plot()
    qtbot.addWidget(plot)
    margins = Margins(plot)
    margins.set_visible(visible=True)
    profiles = Profiles(np.ones(9), np.ones(9))
    margins.show_profiles(profiles, Titles("columns", "rows"))
    plot.show()
    for width, height in ((600, 200), (200, 600), (600, 600)):
        plot.resize(width, height)
        curves = [item for item in plot.scene().items() if isinstance(item, pg.PlotCurveItem)]
        strips = [curve.getViewBox() for curve in curves if curve.isVisible()]
        assert len(strips) == (height > 400) + (width > 400)
        assert plot.view.height() > 0.5 * height
