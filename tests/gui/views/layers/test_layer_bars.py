"""The bars of all parameters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QFontMetricsF, QImage, QPainter

from prune_gui.architecture.blocks import short_names
from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.views.layers.data import MAX_BARS, bars_of
from prune_gui.gui.views.layers.layer_bars import LayerBars
from prune_gui.raster.colours import LIGHT
from prune_gui.statistics.layer_rows import Grouping, Rows


def rows_of(total, counts):
    """Return rows with the given sizes and pruned counts by code; the energy equals the size."""
    number = len(total)
    total, counts = np.array(total), np.array(counts).reshape(-1, number)
    names = tuple(f"w{i}" for i in range(number))
    infos = tuple(TensorInfo(name, (1,), "float32") for name in names)
    every, none = np.arange(number), np.zeros(number, np.int64)
    energy = total.astype(float)
    return Rows(
        Grouping(None, names, every, every),
        infos,
        tuple(info.shape for info in infos),
        none + 1,
        total,
        tuple(range(1, len(counts) + 1)),
        counts,
        energy,
        energy - counts.sum(0),
        *[none] * 6,
        none == 0,
    )


@given(st.data(), st.integers(1, 40), st.integers(1, 10), st.integers(0, 3))
def test_a_bar_is_the_sum_of_its_rows(data, number, max_bars, codes):
    counts = data.draw(
        st.lists(st.lists(st.integers(0, 9), min_size=number, max_size=number), max_size=codes)
    )
    total = np.array(counts).reshape(-1, number).sum(0) + 1
    rows = rows_of(total, counts)
    order = np.array(data.draw(st.permutations(range(number))))
    first = data.draw(st.integers(0, number - 1))
    positions = range(first, data.draw(st.integers(first + 1, number)))
    bars = bars_of(rows, order, positions, max_bars)
    assert bars.edges[0] == first
    assert bars.edges[-1] == positions.stop
    assert len(bars.total) == min(max_bars, len(positions))
    for bar, (start, stop) in enumerate(zip(bars.edges[:-1], bars.edges[1:], strict=True)):
        here = order[start:stop]
        assert 1 <= stop - start <= bars.max_rows
        assert bars.total[bar] == rows.total[here].sum()
        shares = np.cumsum(rows.counts[:, here].sum(1)) / rows.total[here].sum()
        np.testing.assert_allclose(bars.tops[:, bar], [0, *shares])
        assert bars.kept[bar] == pytest.approx(1 - bars.tops[-1, bar])


@pytest.fixture
def bars(qtbot, shown):
    return shown(LayerBars())


def show(bars, rows, order=None):
    order = np.arange(len(rows)) if order is None else order
    bars.show_rows(rows, short_names(rows.names), order, None, LIGHT)


def test_thousands_of_rows_are_merged_into_a_limited_number_of_bars(bars, share_of):
    rows = rows_of([100] * 5000, [[40] * 5000])
    show(bars, rows)
    bar_counts = {len(item.opts["x0"]) for _, item in bars._items}
    assert bar_counts == {MAX_BARS}
    axis = bars.plots[-1].plotItem.getAxis("bottom")
    assert "a bar sums up to 17 rows" in axis.labelText
    assert share_of(bars, LIGHT.steps[0]) > 0.05
    bars.plots[-1].setXRange(10, 20, padding=0)
    bars._settle_timer.timeout.emit()
    assert "a bar sums" not in axis.labelText


def test_positions_can_be_hovered_clicked_and_marked(bars, hand, qtbot, share_of):
    show(bars, rows_of([10, 1000, 10], [[5, 0, 0]]))
    pointed, clicked = [], []
    bars.pointed.connect(pointed.append)
    bars.clicked.connect(clicked.append)
    plot = bars.plots[0]
    at = hand.point(plot, 1, 50)
    hand.hover(plot, at)
    assert pointed[-1] == 1
    hand.drag(plot, at, at)
    assert clicked == [1]
    hand.hover(plot, hand.point(plot, 1, 50) * 0)
    assert pointed[-1] == -1
    before = share_of(bars, LIGHT.background)
    bars.choose(1)
    assert share_of(bars, LIGHT.background) < before


def test_energy_that_is_not_known_is_hatched_not_zero(bars):
    rows = rows_of([10, 10, 10], [[5, 0, 0]])
    show(bars, replace(rows, energy=np.array([10, np.nan, 10]), kept=np.array([5, np.nan, 10])))
    energy = [item for plot, item in bars._items if plot is bars.plots[2]]
    hatched = [one for one in energy if one.opts["brush"] != LIGHT.scale[2]]
    assert [one.opts["y1"].tolist() for one in hatched] == [[0, 100, 0]]


def test_names_of_rows_are_below_the_bars_by_block(bars, qtbot):
    drawn = []
    axis = bars.plots[-1].plotItem.getAxis("bottom")
    names = [f"layers.{i}.{r}_proj.weight" for i in range(2) for r in "qkv"]
    rows = rows_of([10] * 6, [[5] * 6])

    def texts(order):
        bars.show_rows(rows, short_names(names), np.array(order), None, LIGHT)
        image, drawn[:] = QImage(600, 100, QImage.Format.Format_RGB32), []
        painter = QPainter(image)
        painter.drawText = lambda _at, *text: drawn.append(text[-1])
        axis.paint(painter)
        painter.end()
        return drawn

    assert texts(range(6)) == [*"qkv", *"qkv", "0", "1"]
    assert texts([0, 3, 1, 4, 2, 5]) == ["0.q", "1.q", "0.k", "1.k", "0.v", "1.v"]


def test_a_name_that_just_does_not_fit_across_runs_upwards_as_a_whole(bars, qtbot):
    axis = bars.plots[-1].plotItem.getAxis("bottom")
    rows = rows_of([10] * 3, [[5] * 3])
    names = short_names(["conv1.weight", "conv2.weight", "classifier.weight"])
    bars.resize(400, 600)
    bars.show_rows(rows, names, np.arange(3), None, LIGHT)
    width = QFontMetricsF(axis._font()).horizontalAdvance("classifier")
    for room in (width - 1, width + 1, width + 3, width + 9):
        beside = bars.width() - bars.plots[-1].view.width()
        bars.resize(round(3 * room + beside), 600)
        qtbot.waitUntil(lambda room=room: abs(axis.linkedView().width() - 3 * room) < 3)
        bars._draw()
        drawn = []
        image = QImage(600, 100, QImage.Format.Format_RGB32)
        painter = QPainter(image)
        painter.drawText = lambda _at, *text, drawn=drawn: drawn.append(text[-1])
        axis.paint(painter)
        painter.end()
        assert "classifier" in drawn


def test_plots_keep_a_usable_minimum_height(qtbot):
    bars = LayerBars()
    qtbot.addWidget(bars)
    bars.resize(500, 0)
    show(bars, rows_of([4, 2], [[1, 2]]))
    bars.show()
    qtbot.waitUntil(lambda: bars.plots[0].view.height() > 0)
    heights = [plot.view.height() for plot in bars.plots]
    assert min(heights) > 20


def test_the_labels_of_the_axes_fit_at_the_minimum_height(qtbot):
    bars = LayerBars()
    qtbot.addWidget(bars)
    bars.resize(400, bars.minimumSizeHint().height())
    bars.show()
    for plot in bars.plots:
        label = plot.plotItem.getAxis("left").labelText
        assert plot.view.height() >= bars.fontMetrics().horizontalAdvance(label)
