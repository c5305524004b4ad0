"""Keyboard shortcuts of a plot."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from prune_gui.gui.views.controls import ZOOM_FACTOR, add_axis_shortcuts
from prune_gui.gui.views.plot import Plot


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
