import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QDoubleSpinBox
from view_page import sight

from prune_gui.gui.views.compare.control_bars import BlinkBar, FilmBar
from prune_gui.gui.views.compare.picture_pair import PicturePair
from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Tile, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.raster.colours import LIGHT
from prune_gui.raster.parameter_layouts import SliceLayout

LAYOUT = SliceLayout.flattened((8, 6))
RED, BLUE = (200, 0, 0), (0, 0, 200)


@pytest.fixture
def pair(shown, qtbot):
    """Return a red picture on the left, and a blue one on the right."""
    widget = shown(PicturePair(Viewport()))
    for plot, colour in zip(widget.plots, (RED, BLUE), strict=True):
        plot.recolour(LIGHT)
        plot.take(LAYOUT, ("", ""))
        grid = TileGrid.over(LAYOUT, plot.region_of(LAYOUT))
        pixels = np.full((8, 6, 4), 255, np.uint8)
        pixels[..., :3] = colour
        tiles = dict.fromkeys(grid.indices, Tile(pixels))
        rendered = RenderedView("key", grid, tiles, Tile(pixels))
        plot.show_tiles(rendered, pixels, has_overview=False)
    return widget


def _colour_at(pair, share, qtbot):
    """Return the colour on the screen, at a share of the width inside the axes."""
    qtbot.wait(30)
    area = pair._area
    at = QPoint(area.left() + round(share * area.width()), area.top() + area.height() // 3)
    image = pair.screen().grabWindow(pair.winId()).toImage()
    colour = QColor(image.pixelColor(at * image.devicePixelRatio()))
    return colour.red(), colour.green(), colour.blue()


def test_the_divider_is_dragged_over_the_only_picture(pair, qtbot):
    pair.arrange("swipe")
    assert pair.left.isVisible()
    assert not pair.right.isVisible()
    divider, button = pair.divider, Qt.MouseButton.LeftButton
    middle = divider.rect().center()
    for share in (0.9, 0.1):
        area = pair._area
        target = QPoint(area.left() + round(share * area.width()), middle.y())
        qtbot.mousePress(divider, button, pos=middle)
        with qtbot.waitSignal(pair.divided):
            qtbot.mouseMove(divider, divider.mapFromParent(target))
        qtbot.mouseRelease(divider, button, pos=middle)
        first, last = pair.left.view.viewRange()[0]
        assert pair.divided_column == pytest.approx(first + share * (last - first), abs=0.02)


def test_the_divider_stays_in_place_while_the_picture_is_panned(pair, qtbot):
    pair.arrange("swipe")
    at, column = pair.divider.geometry(), pair.divided_column
    with qtbot.waitSignal(pair.divided):
        pair.left.pan(0.1, 0)
    assert pair.divider.geometry() == at
    assert pair.divided_column > column


def test_the_arrow_keys_and_the_ends_of_the_keyboard_move_the_divider(pair, qtbot):
    pair.arrange("swipe")
    divider = pair.divider
    divider.setFocus()
    for key, share in (
        (Qt.Key.Key_Left, 0.48),
        (Qt.Key.Key_Right, 0.5),
        (Qt.Key.Key_Home, 0.0),
        (Qt.Key.Key_Left, 0.0),
        (Qt.Key.Key_End, 1.0),
    ):
        qtbot.keyClick(divider, key)
        assert divider.share == pytest.approx(share)


def test_the_divider_keeps_its_share_of_the_picture_when_it_is_resized(pair, qtbot):
    pair.arrange("swipe")
    pair.divider.move_to(0.25)
    pair.resize(500, 400)
    qtbot.wait(30)
    middle = pair.divider.geometry().center().x() - pair._area.left()
    assert middle / pair._area.width() == pytest.approx(0.25, abs=0.01)


def test_blinking_shows_one_picture_after_the_other(pair, qtbot):
    pair.arrange("blink")
    assert _colour_at(pair, 0.5, qtbot) == BLUE
    pair.blink()
    assert _colour_at(pair, 0.5, qtbot) == RED
    with qtbot.waitSignal(pair.blinked):
        pair.set_blinking(on=True, interval_ms=20)
    pair.hide()
    assert not pair._timer.isActive()
    pair.show()
    assert pair._timer.isActive()
    pair.set_blinking(on=False, interval_ms=20)


def test_a_message_replaces_a_picture_in_every_arrangement(pair):
    for arrangement in ("sides", "swipe", "blink", "single"):
        pair.arrange(arrangement)
        pair.say("nothing here", "")
        assert pair.arrangement == "sides"
        assert not pair.left.isVisible()
        assert pair.right.isVisible()
        assert pair.right.geometry().left() == pair.width() // 2
        assert not pair.divider.isVisible()
        pair.say("", "")
        assert pair.left.isVisible()
        assert pair.right.isVisible() is (arrangement in ("sides", "blink"))


PLANE = SliceLayout.flattened((8, 6))


@pytest.fixture
def plot(shown, qtbot):
    widget = shown(MapCanvas(Viewport()))
    widget.recolour(LIGHT)
    widget.take(PLANE, ("down", "across"))
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


def test_a_new_layout_is_shown_whole_with_its_labels(plot):
    left, right, top, bottom = sight(plot)
    assert left < -0.5 < 5.5 < right
    assert top < -0.5 < 7.5 < bottom
    assert plot.plotItem.getAxis("left").labelText == "down"
    assert plot.region_of(PLANE).cells == (8, 6)


def test_a_label_is_elided_in_a_narrow_plot(plot, qtbot):
    plot.take(PLANE, ("down", "what runs across " * 5))
    whole = plot.plotItem.getAxis("bottom").labelText
    plot.resize(250, 300)
    qtbot.waitUntil(lambda: plot.plotItem.getAxis("bottom").labelText != whole)
    text = plot.plotItem.getAxis("bottom").labelText
    assert text.endswith("…")
    assert whole.startswith(text[:-1])


def test_the_visible_region_stays_for_a_layout_of_the_same_size(plot):
    plot.zoom(0.5)
    before = sight(plot)
    plot.take(SliceLayout((8, 6), 8, 6, 6, first=0), ("", ""))
    assert sight(plot) == pytest.approx(before)
    plot.take(SliceLayout.flattened((80, 6)), ("", ""))
    assert sight(plot)[3] > 79


def test_the_whole_picture_is_hidden_if_it_is_outdated(plot, share_of):
    large = SliceLayout.flattened((800, 600))
    plot.take(large, ("", ""))
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


def test_a_pinned_element_has_a_frame(plot, share_of):
    before = share_of(plot, LIGHT.draft)
    plot.pin((2, 3))
    assert share_of(plot, LIGHT.draft) > before
    plot.pin(None)
    assert share_of(plot, LIGHT.draft) == before


@pytest.fixture
def film(shown):
    bar = shown(FilmBar())
    bar.set_last(3)
    return bar


def test_a_film_starts_at_its_last_frame_and_stays_there(film):
    assert film.frame == 3
    film.set_last(4)
    assert film.frame == 4
    film.set_last(2)
    assert film.frame == 2


def test_another_frame_stays_chosen_while_frames_are_added(film):
    film.slider.setValue(1)
    film.set_last(5)
    assert film.frame == 1
    film.set_last(0)
    assert film.frame == 0
    assert not film.button.isEnabled()


def test_a_film_plays_from_the_start_and_stops_at_the_end(film, qtbot):
    film._timer.setInterval(5)
    frames = []
    film.changed.connect(lambda: frames.append(film.frame))
    qtbot.mouseClick(film.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not film.button.isChecked())
    assert frames == [0, 1, 2, 3]
    assert not film._timer.isActive()


def test_a_hidden_film_is_paused(film):
    film.button.setChecked(True)
    film.hide()
    assert not film.button.isChecked()
    assert not film._timer.isActive()


def test_the_interval_of_blinking_can_be_set(shown, qtbot):
    bar = shown(BlinkBar())
    assert bar.playing
    seconds = bar.findChild(QDoubleSpinBox)
    with qtbot.waitSignal(bar.changed):
        seconds.setValue(0.2)
    assert bar.interval_ms == 200
    qtbot.mouseClick(bar.button, Qt.MouseButton.LeftButton)
    assert not bar.playing
