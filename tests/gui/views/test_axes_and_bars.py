from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PySide6.QtCore import Qt

from prune_gui import language
from prune_gui.gui.views.bars.data import (
    FLOOR,
    MIN_NUMBERS,
    MIN_STRETCH,
    channel_bars,
    count_beyond,
    in_order,
    inner_limit,
    inner_range,
    peak_limit,
    stacked,
)
from prune_gui.gui.views.controls import ZOOM_FACTOR, add_axis_shortcuts
from prune_gui.gui.views.plot import (
    SHAPE_SEPARATOR,
    CountAxis,
    IndexAxis,
    Plot,
    ValueAxis,
    axis_scales,
    axis_shifts,
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


def test_ticks_of_channels_are_in_the_middle_of_their_kernels(qapp):
    layout = KernelLayout.of((4, 3, 2, 3))
    axis = IndexAxis("bottom")
    axis.shift = axis_shifts(layout)[1]
    scale, axis.end = axis_scales(layout)[1]
    axis.setScale(scale)
    [(spacing, values), *_] = axis.tickValues(-0.5, layout.columns - 0.5, 600)
    shown = dict(zip(values, axis.tickStrings(values, scale, spacing), strict=True))
    assert {at: text for at, text in shown.items() if text} == {1.0: "0", 5.0: "1", 9.0: "2"}


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
def test_plots_of_the_views_have_the_shortcuts(demo_window, active, settle, qtbot, workbench, view):
    settle()
    view_shown = demo_window.views.view(view)
    demo_window.views._tabs.setCurrentWidget(view_shown)
    qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
    plot = view_shown.findChild(Plot)
    plot.setFocus()
    before = plot.viewRect().width()
    qtbot.keyClick(plot, Qt.Key.Key_Plus)
    minimum, _ = plot.view.state["limits"]["xRange"]
    assert plot.viewRect().width() == pytest.approx(max(before / ZOOM_FACTOR, minimum or 0))


COUNTS = arrays(
    np.int64, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=st.integers(0, 10**9)
)


@given(COUNTS)
def test_segment_heights_equal_the_counts(counts):
    np.testing.assert_array_equal(np.diff(stacked(counts, log=False), axis=0), counts)


@given(COUNTS)
def test_a_count_of_one_is_visible_on_a_logarithmic_axis_and_zero_is_not(counts):
    tops = stacked(counts, log=True)
    sums = counts.sum(0)
    assert np.all(np.diff(tops, axis=0) >= 0)
    assert np.all(tops[-1][sums == 0] == FLOOR)
    np.testing.assert_allclose(tops[-1][sums > 0], np.log10(sums[sums > 0]))
    assert np.all(tops[-1][sums == 1] > FLOOR)


@given(st.integers(1, 40), st.integers(1, 50), st.booleans(), st.data())
def test_channel_bars_show_the_largest_norms_of_their_channels(channels, max_bars, ascending, data):
    finite = arrays(np.float64, (3, channels), elements=st.floats(0, 1e6))
    parts = np.sort(data.draw(finite), axis=0)
    is_odd = data.draw(arrays(np.bool_, channels))
    parts[-1, is_odd] = data.draw(st.sampled_from([np.nan, np.inf]))
    is_dead = data.draw(arrays(np.bool_, channels))
    start = data.draw(st.integers(0, channels - 1))
    positions = range(start, data.draw(st.integers(start + 1, channels)))
    order = in_order(parts[-1], ascending=ascending)
    bars = channel_bars(parts, is_dead, order, positions, max_bars)
    assert bars.edges[0] == positions.start
    assert bars.edges[-1] == positions.stop
    assert len(bars.dead) == min(max_bars, len(positions))
    for i, dead in enumerate(bars.dead):
        group = order[bars.edges[i] : bars.edges[i + 1]]
        finite_parts = parts[:, group[~is_odd[group]]]
        assert bars.tops[0, i] == 0
        np.testing.assert_array_equal(bars.tops[1:, i], finite_parts.max(1, initial=0.0))
        assert dead == is_dead[group].any()
        assert bars.non_finite[i] == is_odd[group].any()
        assert bars.minimum[i] == finite_parts[-1].min(initial=bars.tops[-1, i])
    marked = data.draw(arrays(np.bool_, channels))
    groups = zip(bars.edges[:-1], bars.edges[1:], strict=True)
    assert bars.any_of(marked).tolist() == [marked[slice(*ends)].any() for ends in groups]


def test_order_by_norm_is_ascending_with_nan_last():
    norms = np.array([3.0, np.nan, 1.0, 2.0])
    assert in_order(norms, ascending=True).tolist() == [2, 3, 0, 1]
    assert in_order(norms, ascending=False).tolist() == [0, 1, 2, 3]


BAR_COUNTS = arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 2000))


@given(BAR_COUNTS, st.booleans())
def test_an_inner_range_leaves_out_at_most_a_thousandth_and_only_if_it_is_much_shorter(
    counts, symmetric
):
    positions = np.linspace(-1, 1, len(counts) + 1)
    low, high = inner_range(positions, counts, symmetric=symmetric)
    left_out = sum(count_beyond(positions, counts, low, high))
    assert left_out <= counts.sum() / 1000
    assert (low, high) == (-1, 1) or (high - low) * MIN_STRETCH <= 2
    assert not symmetric or low == -high


@given(arrays(np.float64, st.integers(0, 3000), elements=st.floats(0, 1e6)))
def test_an_inner_limit_leaves_out_at_most_a_thousandth_and_only_far_numbers(numbers):
    limit, highest = inner_limit(numbers), numbers.max(initial=0)
    assert (numbers > limit).sum() <= -(-len(numbers) // 1000)
    assert limit == highest or limit * MIN_STRETCH <= highest


def test_one_outlier_does_not_flatten_the_others():
    numbers = np.append(np.linspace(1, 2, 999), 1000)
    assert inner_limit(numbers) == 2
    assert inner_limit(np.append(np.zeros(999), 3.0)) == 3
    assert inner_limit(numbers[-MIN_NUMBERS + 1 :]) == 1000
    counts = np.r_[np.full(20, 1000), np.zeros(179, np.int64), 7]
    positions = np.arange(201.0)
    assert inner_range(positions, counts, symmetric=False) == (0, 20)
    assert count_beyond(positions, counts, 0, 20) == (0, 7)


def test_what_is_beyond_a_range_is_counted_by_the_middle_of_its_bin():
    counts, positions = np.array([1, 2, 4, 8]), np.arange(5.0)
    assert count_beyond(positions, counts, 1, 3) == (1, 8)
    assert count_beyond(positions, counts, 0.4, 3.6) == (0, 0)
    assert count_beyond(positions, counts, 1.6, 2.4) == pytest.approx((3, 12))


def test_only_a_much_higher_bar_goes_beyond_the_axis():
    assert peak_limit(np.array([5, 900, 7, 6])) == 7
    assert peak_limit(np.array([5, 20, 7])) == 20
    assert peak_limit(np.array([0, 900, 0])) == 900
    assert peak_limit(np.array([4])) == 4
    assert peak_limit(np.zeros(3, np.int64)) == 1
