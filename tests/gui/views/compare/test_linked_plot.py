import numpy as np
import pytest
from PySide6.QtCore import Qt

from prune_gui.gui.views.compare.picture_pair import LinkedPlot
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Tile, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.raster.colours import LIGHT
from prune_gui.raster.layouts import SliceLayout

PLANE = SliceLayout.flattened((8, 6))


@pytest.fixture
def plot(shown, qtbot):
    widget = shown(LinkedPlot(Viewport()))
    widget.recolour(LIGHT)
    widget.show_layout(PLANE, ("down", "across"))
    _pixels(widget)
    return widget


def _pixels(plot, *, layout=PLANE, same=False, level=200):
    grid = TileGrid.over(layout, plot.region_of(layout))
    sides = (
        -(-len(part) // cell)
        for part, cell in zip((grid.rows, grid.columns), grid.cell, strict=True)
    )
    pixels = np.full((*sides, 4), 255, np.uint8)
    pixels[..., :3] = level
    tiles = dict.fromkeys(grid.indices, Tile(pixels))
    rendered = RenderedView("key", grid, tiles, Tile(pixels))
    plot.show_tiles(rendered, pixels, has_overview=same)


def _sight(plot):
    (left, right), (top, bottom) = plot.view.viewRange()
    return left, right, top, bottom


def test_a_new_layout_is_shown_whole_with_its_labels(plot):
    left, right, top, bottom = _sight(plot)
    assert left < -0.5 < 5.5 < right
    assert top < -0.5 < 7.5 < bottom
    assert plot.plotItem.getAxis("left").labelText == "down"
    assert plot.region_of(PLANE).cells == (8, 6)


def test_a_label_is_elided_in_a_narrow_plot(plot, qtbot):
    plot.show_layout(PLANE, ("down", "what runs across " * 5))
    whole = plot.plotItem.getAxis("bottom").labelText
    plot.resize(250, 300)
    qtbot.waitUntil(lambda: plot.plotItem.getAxis("bottom").labelText != whole)
    text = plot.plotItem.getAxis("bottom").labelText
    assert text.endswith("…")
    assert whole.startswith(text[:-1])


def test_the_frame_covers_only_the_visible_region(plot):
    for _ in range(6):
        plot.zoom(0.7)
    frame = plot.region_of(PLANE)
    assert len(frame.rows) < 8
    assert len(frame.columns) < 6
    plot.fit()
    assert plot.region_of(PLANE).cells == (8, 6)


def test_the_visible_region_stays_for_a_layout_of_the_same_size(plot):
    plot.zoom(0.5)
    sight = _sight(plot)
    plot.show_layout(SliceLayout((8, 6), 8, 6, 6, first=0), ("", ""))
    assert _sight(plot) == pytest.approx(sight)
    plot.show_layout(SliceLayout.flattened((80, 6)), ("", ""))
    assert _sight(plot)[3] > 79


def test_the_whole_picture_is_hidden_if_it_is_outdated(plot, share_of):
    large = SliceLayout.flattened((800, 600))
    plot.show_layout(large, ("", ""))
    for same, share in ((False, 0.0), (True, 0.2)):
        plot.fit()
        _pixels(plot, layout=large, level=200)
        for _ in range(6):
            plot.zoom(0.7)
        _pixels(plot, layout=large, level=100, same=same)
        plot.fit()
        assert share_of(plot, "#c8c8c8") >= share
        assert (share_of(plot, "#c8c8c8") > 0) is same
        assert share_of(plot, "#646464") > 0.02


def test_arrow_keys_pan(plot, qtbot):
    plot.setFocus()
    left, _, top, _ = _sight(plot)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    qtbot.keyClick(plot, Qt.Key.Key_Down)
    assert _sight(plot)[0] > left
    assert _sight(plot)[2] > top


def test_the_element_under_the_cursor_is_emitted_or_none_outside(plot, hand, qtbot):
    with qtbot.waitSignal(plot.pointed) as pointed:
        hand.hover(plot, hand.point(plot, 3, 2))
    assert pointed.args == [(2, 3)]
    plot.one_to_one()
    with qtbot.waitSignal(plot.pointed) as pointed:
        hand.hover(plot, hand.point(plot, 40, 2))
    assert pointed.args == [None]


def test_a_pinned_element_has_a_frame(plot, share_of):
    before = share_of(plot, LIGHT.draft)
    plot.pin((2, 3))
    assert share_of(plot, LIGHT.draft) > before
    plot.pin(None)
    assert share_of(plot, LIGHT.draft) == before
