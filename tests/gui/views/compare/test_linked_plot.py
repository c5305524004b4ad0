import numpy as np
import pytest
from PySide6.QtCore import Qt

from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.gui.views.compare.linked_plot import PlanePlot
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.theme import LIGHT

PLANE = SliceLayout.flattened((8, 6))


@pytest.fixture
def plot(shown, qtbot):
    made = shown(PlanePlot(Viewport()))
    made.recolour(LIGHT)
    made.show_plane(PLANE, ("down", "across"))
    _pixels(made)
    return made


def _pixels(plot, *, same=False, level=200):
    drawn = plot.frame_of(PLANE)
    pixels = np.full((*drawn.cells, 4), 255, np.uint8)
    pixels[..., :3] = level
    plot.show_pixels(drawn, pixels, same=same)
    return drawn


def _sight(plot):
    (left, right), (top, bottom) = plot.view.viewRange()
    return left, right, top, bottom


def test_a_new_plane_is_shown_whole_with_its_labels(plot):
    left, right, top, bottom = _sight(plot)
    assert left < -0.5 < 5.5 < right
    assert top < -0.5 < 7.5 < bottom
    assert plot.plotItem.getAxis("left").labelText == "down"
    assert plot.frame_of(PLANE).cells == (8, 6)


def test_a_label_gives_way_where_there_is_no_room(plot, qtbot):
    plot.show_plane(PLANE, ("down", "what runs across " * 5))
    whole = plot.plotItem.getAxis("bottom").labelText
    plot.resize(250, 300)
    qtbot.waitUntil(lambda: plot.plotItem.getAxis("bottom").labelText != whole)
    text = plot.plotItem.getAxis("bottom").labelText
    assert text.endswith("…")
    assert whole.startswith(text[:-1])


def test_only_what_is_in_sight_is_to_be_drawn(plot):
    for _ in range(6):
        plot.zoom(0.7)
    drawn = plot.frame_of(PLANE)
    assert len(drawn.rows) < 8
    assert len(drawn.columns) < 6
    plot.fit()
    assert plot.frame_of(PLANE).cells == (8, 6)


def test_what_is_in_sight_stays_for_a_plane_of_the_same_size(plot):
    plot.zoom(0.5)
    sight = _sight(plot)
    plot.show_plane(SliceLayout((8, 6), 8, 6, 6, first=0), ("", ""))
    assert _sight(plot) == pytest.approx(sight)
    plot.show_plane(SliceLayout.flattened((80, 6)), ("", ""))
    assert _sight(plot)[3] > 79


def test_a_part_lies_over_the_whole_while_both_show_the_same(plot, share_of):
    for _ in range(6):
        plot.zoom(0.7)
    _pixels(plot, level=100)
    plot.fit()
    assert share_of(plot, "#c8c8c8") < 0.02  # it was of something else
    _pixels(plot, level=200)
    for _ in range(6):
        plot.zoom(0.7)
    _pixels(plot, level=100, same=True)
    plot.fit()
    assert share_of(plot, "#c8c8c8") > 0.2
    assert share_of(plot, "#646464") > 0.02


def test_arrows_move(plot, qtbot):
    plot.setFocus()
    left, _, top, _ = _sight(plot)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    qtbot.keyClick(plot, Qt.Key.Key_Down)
    assert _sight(plot)[0] > left
    assert _sight(plot)[2] > top


def test_moves_are_told_once_they_settle(plot, qtbot):
    with qtbot.waitSignal(plot.settled):
        plot.zoom(0.5)


def test_the_entry_under_the_cursor_is_told_and_none_outside(plot, hand, qtbot):
    with qtbot.waitSignal(plot.pointed) as pointed:
        hand.hover(plot, hand.point(plot, 3, 2))
    assert pointed.args == [(2, 3)]
    plot.one_to_one()
    with qtbot.waitSignal(plot.pointed) as pointed:
        hand.hover(plot, hand.point(plot, 40, 2))
    assert pointed.args == [None]


def test_a_marked_entry_has_a_frame(plot, share_of):
    before = share_of(plot, LIGHT.draft)
    plot.pin((2, 3))
    assert share_of(plot, LIGHT.draft) > before
    plot.pin(None)
    assert share_of(plot, LIGHT.draft) == before
