"""Keys by which one gets around in a plot."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from prune_gui.gui.views.maps.map_navigation import ZOOM, go_along_by_keys
from prune_gui.gui.views.plot import Plot


@pytest.fixture
def plot(qtbot):
    """Return a plot from 0 to 100 of which 40 to 60 is in sight, with the focus."""
    made = Plot()
    qtbot.addWidget(made)
    go_along_by_keys(made)
    made.view.setLimits(xMin=0, xMax=100)
    made.setXRange(40, 60, padding=0)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    made.setFocus()
    return made


def in_sight(plot):
    return pytest.approx(plot.view.viewRange()[0])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Qt.Key.Key_Plus, [50 - 10 / ZOOM, 50 + 10 / ZOOM]),
        (Qt.Key.Key_Minus, [50 - 10 * ZOOM, 50 + 10 * ZOOM]),
        (Qt.Key.Key_Left, [36, 56]),
        (Qt.Key.Key_Right, [44, 64]),
        (Qt.Key.Key_F, [0, 100]),
    ],
)
def test_keys_zoom_and_move_a_plot_along_its_axis(plot, qtbot, key, expected):
    qtbot.keyClick(plot, key)
    assert in_sight(plot) == expected


@pytest.mark.parametrize("view", ["distribution_view", "layers_view"])
def test_the_plots_of_the_views_do(demo_window, settle, qtbot, workbench, view):
    settle()
    shown = getattr(demo_window.views, view)
    demo_window.views._tabs.setCurrentWidget(shown)
    qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
    demo_window.activateWindow()
    qtbot.waitUntil(demo_window.isActiveWindow)
    plot = shown.findChild(Plot)
    plot.setFocus()
    before = plot.viewRect().width()
    qtbot.keyClick(plot, Qt.Key.Key_Plus)
    assert plot.viewRect().width() == pytest.approx(before / ZOOM)
