import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor

from prune_gui.gui.views.compare.picture_pair import PicturePair
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Tile, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.raster.colours import LIGHT
from prune_gui.raster.layouts import SliceLayout

LAYOUT = SliceLayout.flattened((8, 6))
RED, BLUE = (200, 0, 0), (0, 0, 200)


@pytest.fixture
def pair(shown, qtbot):
    """Return a red picture on the left, and a blue one on the right."""
    widget = shown(PicturePair(Viewport()))
    for plot, colour in zip(widget.plots, (RED, BLUE), strict=True):
        plot.recolour(LIGHT)
        plot.show_layout(LAYOUT, ("", ""))
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
