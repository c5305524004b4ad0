"""Attention heads in a map: lines, texts along the axes, and the box with their number."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from safetensors.torch import save_file

from prune_gui.gui.views.maps.margins import bars, reach
from prune_gui.gui.views.maps.readers import AUTO, OFF, HeadsBox
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.view import MaskView

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
    assert _texts(mask, "top") == []
    assert _lines(mask) == 3
    bench.show(OUTPUT)
    assert _texts(mask, "right") == []
    assert [text.split("\n")[0] for text in _texts(mask, "top")] == [f"head {i}" for i in range(4)]


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
