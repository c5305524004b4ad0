from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from prune_gui import language
from prune_gui.gui.views.controls import ZOOM_FACTOR, add_axis_shortcuts
from prune_gui.gui.views.plot import (
    SHAPE_SEPARATOR,
    CountAxis,
    IndexAxis,
    Plot,
    ValueAxis,
    axis_scales,
    dim_labels,
    dim_names,
    layout_labels,
)
from prune_gui.pruning.layouts import WeightLayout
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout

IN, OUT = "input channel", "output channel"
CONV = (OUT, IN, "kernel row", "kernel column")
GATE = f"gate {SHAPE_SEPARATOR} hidden unit"


@pytest.mark.parametrize(
    ("kind", "name", "shape", "expected"),
    [
        ("Linear", "fc.weight", (4, 3), ("output channel", "input channel")),
        ("Linear", "fc.bias", (4,), ("output channel",)),
        ("Embedding", "wte.weight", (9, 4), ("token", "feature")),
        ("Embedding", "position_embeddings.weight", (9, 4), ("position", "feature")),
        ("LayerNorm", "norm.weight", (4,), ("feature",)),
        ("BatchNorm2d", "bn.weight", (4,), ("channel",)),
        ("", "scale", (), ()),
        ("", "word_embeddings.weight", (9, 4), ("dim 0", "dim 1")),
        ("", "odd", (2, 3, 4), ("dim 0", "dim 1", "dim 2")),
        ("Conv2d", "conv.weight", (4, 3, 2, 2), CONV),
        ("LSTM", "rnn.weight_ih_l0", (16, 3), (GATE, "input")),
        ("LSTM", "rnn.weight_hh_l0", (16, 4), (GATE, "hidden unit")),
    ],
)
def test_dimensions_are_named_by_module_type_and_parameter_name(kind, name, shape, expected):
    assert dim_names(kind, name, shape) == expected


@pytest.mark.parametrize(
    ("kind", "shape", "dims", "expected"),
    [
        ("Conv1D", (3, 4), (1, 0), (IN, OUT)),
        ("", (3, 4), (1, 0), (IN, OUT)),
        ("ConvTranspose1d", (4, 3, 2), (1, 0), (IN, OUT, "kernel position")),
        ("", (2, 2, 3, 4), (3, 2), ("kernel row", "kernel column", IN, OUT)),
        ("", (2, 2, 4, 1), (2, 3), ("kernel row", "kernel column", OUT, IN)),
        ("", (1, 1, 1, 1, 3, 4), (5, 4), ("dim 0", "dim 1", "dim 2", "dim 3", IN, OUT)),
    ],
)
def test_dimensions_are_named_by_the_layout_of_the_weight(kind, shape, dims, expected):
    assert dim_names(kind, "up.weight", shape, WeightLayout(*dims, "known")) == expected


KERNELS = f"input channel {SHAPE_SEPARATOR} kernel row {SHAPE_SEPARATOR} kernel column"


@pytest.mark.parametrize(
    ("names", "layout", "dims", "expected"),
    [
        (CONV[:2], SliceLayout.flattened((4, 3)), None, CONV[:2]),
        (CONV, SliceLayout.flattened((4, 3, 2, 2)), None, (OUT, KERNELS)),
        (CONV, SliceLayout.section((4, 3, 2, 2), 1, 3, [0] * 4), (1, 3), (CONV[1], CONV[3])),
        ((), SliceLayout.flattened(()), None, ("", "element")),
        (("feature",), SliceLayout.flattened((4,)), None, ("", "feature")),
        (("feature",), SliceLayout.wrapped((1024,)), None, ("row of 32", "feature")),
        (
            CONV,
            KernelLayout.of((4, 3, 2, 2)),
            None,
            tuple(f"{name}, one kernel per cell" for name in CONV[:2]),
        ),
    ],
)
def test_axes_are_labelled_by_the_layout(names, layout, dims, expected):
    assert layout_labels(names, layout, dims) == expected


def test_the_axes_of_a_kernel_grid_count_the_first_channel_of_each_row():
    assert axis_scales(KernelLayout.of((4, 3, 2, 2))) == ((1 / 3, 4), (1 / 3, 3))
    assert axis_scales(KernelLayout.of((96, 1, 3, 3))) == ((12 / 4, 96), (1 / 4, 12))


def test_a_dimension_label_has_its_number_and_its_name_if_it_has_one():
    names = dim_names("ConvTranspose1d", "up.weight", (4, 3, 2), WeightLayout(1, 0, "known"))
    assert dim_labels(names)[::2] == ["dim 0: input channel", "dim 2: kernel position"]
    assert dim_labels(dim_names("", "w", (4, 3, 2))) == ["dim 0", "dim 1", "dim 2"]


@pytest.mark.parametrize(
    ("axis", "log", "values", "texts"),
    [
        (CountAxis, True, [-0.3, 0, 0.5, 3], ["", "1", "", "1,000"]),
        (CountAxis, False, [3000], ["3,000"]),
        (ValueAxis, True, [-5, -4, -1, 0, 1, 4], ["10⁻⁵", "0.0001", "0.1", "1", "10", "10000"]),
        (ValueAxis, True, [5], ["10⁵"]),
    ],
)
def test_ticks_have_numbers_that_can_be_read(qapp, axis, log, values, texts):
    made = axis("left")
    made.setLogMode(log)
    assert made.tickStrings(values, 1, 1) == texts


def test_index_ticks_are_whole_numbers_within_the_parameter(qapp):
    axis = IndexAxis("bottom")
    axis.end = 12_289
    assert axis.tickStrings([-1, 0, 12_288, 12_289], 1, 1) == ["", "0", "12,288", ""]
    assert min(spacing for spacing, _ in axis.tickSpacing(0, 2, 500)) == 1


def test_axis_numbers_use_the_decimal_sign_of_the_locale(qapp, monkeypatch):
    monkeypatch.setattr(language._numbers, "separators", str.maketrans(",.", ".,"))
    axis = ValueAxis("left")
    assert axis.tickStrings([0, 0.25, 12_000], 1, 0.05) == ["0", "0,25", "12000"]
    axis.setLogMode(True)
    assert axis.tickStrings([-2, 0], 1, 1) == ["0,01", "1"]
    assert CountAxis("left").tickStrings([3000], 1, 1) == ["3.000"]


@pytest.fixture
def plot(qtbot):
    """Return a focused plot with limits 0 to 100 and the visible range 40 to 60."""
    widget = Plot()
    qtbot.addWidget(widget)
    add_axis_shortcuts(widget)
    widget.view.setLimits(xMin=0, xMax=100)
    widget.setXRange(40, 60, padding=0)
    widget.show()
    widget.activateWindow()
    qtbot.waitUntil(widget.isActiveWindow)
    widget.setFocus()
    return widget


def in_sight(plot):
    return pytest.approx(plot.view.viewRange()[0])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Qt.Key.Key_Plus, [50 - 10 / ZOOM_FACTOR, 50 + 10 / ZOOM_FACTOR]),
        (Qt.Key.Key_Minus, [50 - 10 * ZOOM_FACTOR, 50 + 10 * ZOOM_FACTOR]),
        (Qt.Key.Key_Left, [36, 56]),
        (Qt.Key.Key_Right, [44, 64]),
        (Qt.Key.Key_F, [0, 100]),
    ],
)
def test_keys_zoom_and_pan_a_plot_along_its_axis(plot, qtbot, key, expected):
    qtbot.keyClick(plot, key)
    assert in_sight(plot) == expected


@pytest.mark.parametrize("view", ["distribution", "layers"])
def test_plots_of_the_views_have_the_shortcuts(demo_window, settle, qtbot, workbench, view):
    settle()
    view_shown = demo_window.views.view(view)
    demo_window.views._tabs.setCurrentWidget(view_shown)
    qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
    demo_window.activateWindow()
    qtbot.waitUntil(demo_window.isActiveWindow)
    plot = view_shown.findChild(Plot)
    plot.setFocus()
    before = plot.viewRect().width()
    qtbot.keyClick(plot, Qt.Key.Key_Plus)
    minimum, _ = plot.view.state["limits"]["xRange"]
    assert plot.viewRect().width() == pytest.approx(max(before / ZOOM_FACTOR, minimum or 0))
