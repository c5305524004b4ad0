import math
from functools import partial

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from view_page import button, sight

from prune_gui.gui.views.maps import readers, tile_pipeline, tiles
from prune_gui.gui.views.maps.text import PENDING
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.raster.colours import LIGHT


def _entry(mask):
    return mask._elements.inspector.texts


def _click(mask, hand, qtbot, x, y):
    at = hand.point(mask.canvas, x, y).toPoint()
    qtbot.mouseClick(mask.canvas.viewport(), Qt.MouseButton.LeftButton, pos=at)


def _pinned(mask):
    texts = mask._elements.inspector.texts
    return texts if texts[3] == "pinned (Esc)" else None


def test_the_element_under_the_cursor_is_described(mask, bench, hand, qtbot):
    bench.add(bench.step(amount=1.0))
    hand.hover(mask.canvas, hand.point(mask.canvas, 3, 2))
    bench.until_idle()
    value = float(bench.session.checkpoint.read("fc.weight")[2, 3])
    score, step = f"{abs(value):.6g}", "step 1: L1 unstructured"
    assert _entry(mask)[:6] == [
        "[2, 3]",
        f"{value:.6g}",
        "pruned by step 1",
        "click to pin",
        step,
        score,
    ]
    qtbot.waitUntil(lambda: _entry(mask)[7].endswith(" of 48"))
    bench.edit(lambda session: session.undo())
    bench.until_idle()
    assert _entry(mask)[2:] == ["kept", "click to pin"]


def test_keys_zoom_and_pan_and_buttons_fit_too(mask, bench, qtbot):
    mask.canvas.setFocus()
    whole = sight(mask.canvas)
    qtbot.keyClick(mask.canvas, Qt.Key.Key_Plus)
    zoomed = sight(mask.canvas)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    qtbot.keyClick(mask.canvas, Qt.Key.Key_Right)
    assert sight(mask.canvas)[0] > zoomed[0]
    for press in (partial(qtbot.keyClick, mask.canvas), lambda text: button(mask, text).click()):
        press("1")
        left, right, _, _ = sight(mask.canvas)
        assert right - left == pytest.approx(mask.canvas.view.width(), rel=0.01)
        press("F")
        assert sight(mask.canvas) == pytest.approx(whole)
    bench.until_idle()


def test_lone_pruned_and_lone_kept_elements_are_marked(mask, bench, large):
    bench.open_and_choose(large, "fc.weight")
    for amount in (1, 1_000_000 - 2):
        bench.add(bench.step(amount=amount))
        [place] = mask.canvas._marks.points()
        pruned = ~bench.shown.mask("fc.weight").numpy()
        row, column = np.argwhere(pruned if amount == 1 else ~pruned)[0]
        high, wide = mask._pipeline.shown.tile_grid.cell
        assert abs(place.pos().y() - row) <= high
        assert abs(place.pos().x() - column) <= wide
    mask.canvas.setRange(xRange=(column - 4, column + 4), yRange=(row - 4, row + 4), padding=0)
    bench.until_idle()
    assert len(mask.canvas._marks.points()) == 0  # the element is large enough to see


def test_large_elements_show_their_values(mask, bench):
    mask._square.click()
    mask.canvas.setRange(xRange=(-0.5, 5.5), yRange=(-0.5, 7.5), padding=0)
    bench.until_idle()
    written = mask.canvas.texts.shown
    values = bench.session.checkpoint.read("fc.weight")
    assert written.texts.shape == (8, 6)
    assert float(written.texts[2, 3]) == pytest.approx(float(values[2, 3]), rel=1e-2)
    mask.canvas.one_to_one()
    bench.until_idle()
    assert mask.canvas.texts.shown is None


def test_a_click_pins_an_element_and_escape_releases_it(mask, bench, hand, qtbot):
    bench.add(bench.step(amount=24))
    _click(mask, hand, qtbot, 3, 2)
    bench.until_idle()
    explanation = bench.shown.explain("fc.weight", (2, 3))
    rank = explanation.element_ranks[1].rank
    assert _pinned(mask)[0] == "[2, 3]"
    assert _pinned(mask)[6:] == [f"{explanation.element_ranks[1].cut:.6g}", f"{rank + 1} of 48"]
    bench.show("other.weight")
    value = float(bench.session.checkpoint.read("other.weight")[2, 3])
    assert _pinned(mask)[1:3] == [f"{value:.6g}", "kept"]
    qtbot.keyClick(mask.canvas, Qt.Key.Key_Escape)
    assert _pinned(mask) is None


def test_controls_do_not_move_when_the_layout_chooser_appears(mask, bench):
    positions = set()
    for name in ("fc.weight", "conv.weight", "fc.bias"):
        bench.show(name)
        buttons = mask.findChildren(QPushButton)
        positions.add(tuple(button.geometry().getCoords() for button in buttons))
    assert len(buttons) == 3
    assert len(positions) == 1


def test_keys_pin_the_central_element_and_its_neighbours(mask, bench, qtbot):
    def press(key, modifier=Qt.KeyboardModifier.NoModifier):
        qtbot.keyClick(mask.canvas, key, modifier)
        bench.until_idle()

    shift = Qt.KeyboardModifier.ShiftModifier
    mask.canvas.setRange(xRange=(2.5, 3.5), yRange=(1.5, 2.5), padding=0)
    bench.until_idle()
    press(Qt.Key.Key_Right, shift)
    assert _pinned(mask) is None
    press(Qt.Key.Key_Space)
    assert _pinned(mask)[0] == "[2, 3]"
    press(Qt.Key.Key_Down, shift)
    press(Qt.Key.Key_Left, shift)
    assert _pinned(mask)[0] == "[3, 2]"
    assert mask.canvas.sight.contains(2, 3)
    for _ in range(9):
        press(Qt.Key.Key_Up, shift)
    assert _pinned(mask)[0] == "[0, 2]"
    press(Qt.Key.Key_Space)
    assert _pinned(mask) is None


def test_in_a_large_parameter_only_the_pinned_element_has_ranks(
    mask, bench, hand, qtbot, monkeypatch
):
    monkeypatch.setattr(readers, "MAX_RESTED_ELEMENTS", 47)
    bench.add(bench.step(amount=24))
    hand.hover(mask.canvas, hand.point(mask.canvas, 3, 2))
    bench.until_idle()
    assert _entry(mask)[7] == PENDING
    _click(mask, hand, qtbot, 3, 2)
    bench.until_idle()
    assert _pinned(mask)[7].endswith(" of 48")


def test_the_picture_does_not_move_when_an_element_is_hovered_or_pinned(mask, bench, hand, qtbot):
    bench.add(*(bench.step(amount=1) for _ in range(5)))
    inspector, plot = mask._elements.inspector, mask.canvas
    before = plot.geometry(), inspector.geometry(), sight(mask.canvas)
    hand.hover(plot, hand.point(plot, 3, 2))
    bench.until_idle()
    assert (plot.geometry(), inspector.geometry(), sight(mask.canvas)) == before
    _click(mask, hand, qtbot, 3, 2)
    bench.until_idle()
    assert len(_pinned(mask)) == 4 + 5 * 4
    assert (plot.geometry(), inspector.geometry(), sight(mask.canvas)) == before
    hand.hover(plot, hand.point(plot, 4, 4))
    bench.until_idle()
    assert _pinned(mask)[0] == "[2, 3]"  # the pinned element stays
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    bench.until_idle()
    assert _entry(mask)[0] == "[4, 4]"
    assert (plot.geometry(), inspector.geometry(), sight(mask.canvas)) == before


def test_zoomed_out_cells_have_the_hue_of_their_step_and_zoomed_in_its_colour(
    mask, bench, large, share_of
):
    bench.open_and_choose(large, "fc.weight")
    assert mask._local.isHidden()  # nothing is pruned
    bench.add(bench.step(amount=0.5))
    assert mask._local.isVisible()
    assert "pale to strong: 0 % to 100 %" in mask.legend().replace("&nbsp;", " ")
    assert share_of(mask.canvas, LIGHT.steps[0]) == 0
    pixels = mask.canvas.whole.image
    mask._local.click()
    low, high = mask._contrast
    assert 0 < low < 0.5 < high < 1
    assert "0 % to 100 %" not in mask.legend().replace("&nbsp;", " ")
    assert not np.array_equal(mask.canvas.whole.image, pixels)
    mask._local.click()
    np.testing.assert_array_equal(mask.canvas.whole.image, pixels)
    before = mask.canvas.geometry()
    mask.canvas.setRange(xRange=(10, 40), yRange=(10, 40), padding=0)
    bench.until_idle()
    assert mask._local.isHidden()
    assert mask.canvas.geometry() == before
    assert share_of(mask.canvas, LIGHT.steps[0]) > 0.2


def test_the_verdict_follows_the_steps_and_broken_groups_are_found(
    mask, bench, large, shown_verdict
):
    bench.open_and_choose(large, "fc.weight")
    assert shown_verdict() is None
    bench.add(bench.step("block", height=10, width=10, amount=0.5))
    assert shown_verdict() == "Blocks of 10 × 10: 10,000 of 10,000 are all pruned or all kept"  # noqa: RUF001
    assert mask._verdict_line._next.isHidden()
    bench.draft_step(bench.step("random_unstructured", amount=1))
    assert shown_verdict() == "Blocks of 10 × 10: 9,999 of 10,000 are all pruned or all kept"  # noqa: RUF001
    mask._verdict_line._next.click()
    bench.until_idle()
    x, y = mask._groups._outlines.getData()
    assert mask._groups._lines.getData()[0].size > 0
    assert len(x) == 8  # both ends of four sides
    assert mask.canvas.sight.contains(x.min(), y.min())
    assert mask.canvas.plotItem.getAxis("bottom").group == 10
    bench.draft_step(None)
    assert shown_verdict() == "Blocks of 10 × 10: 10,000 of 10,000 are all pruned or all kept"  # noqa: RUF001
    bench.edit(lambda session: session.remove(0))
    assert shown_verdict() is None


@pytest.fixture
def shown_verdict(mask, bench, qtbot):
    """Return a function that returns the text of the verdict on the screen once it is counted."""

    def text():
        bench.until_idle()
        line = mask._verdict_line
        qtbot.waitUntil(lambda: line.isHidden() or PENDING not in line._text.text())
        return None if line.isHidden() else line._text.text()

    return text


def test_cells_are_square_unless_the_picture_is_long_or_the_user_chose_otherwise(mask, bench):
    def pixels_per_cell():
        left, right, top, bottom = sight(mask.canvas)
        size = mask.canvas.view.rect()
        return size.width() / (right - left), size.height() / (bottom - top)

    across, down = pixels_per_cell()
    assert across == pytest.approx(down, rel=1e-3)
    assert mask._square.isChecked()
    left, right, top, bottom = sight(mask.canvas)
    assert left < -0.5 < 5.5 < right
    assert top < -0.5 < 7.5 < bottom
    bench.show("conv.weight")  # its kernels are a long picture
    across, down = pixels_per_cell()
    assert across != pytest.approx(down, rel=0.5)
    assert not mask._square.isChecked()
    mask._square.click()
    across, down = pixels_per_cell()
    assert across == pytest.approx(down, rel=1e-3)
    for name, on in (("fc.weight", True), ("conv.weight", True)):
        bench.show(name)
        assert mask._square.isChecked() is on
        assert Viewport().has_square_cells(mask.canvas.layout_shown) is on
    mask._square.click()
    bench.show("fc.weight")
    assert not Viewport().has_square_cells(mask.canvas.layout_shown)
    across, down = pixels_per_cell()
    assert across != pytest.approx(down, rel=0.1)


def test_visible_tiles_are_rendered_first_and_then_the_overview(mask, bench, large, shown):
    bench.open_and_choose(large, "fc.weight")
    assert mask._pipeline._overview_key == (mask._pipeline.shown.key, mask.canvas.layout_shown)
    assert mask._pipeline.shown.tile_grid.is_whole
    for _ in range(12):
        mask.canvas.zoom(0.7)
    bench.until_idle()
    tile_grid = mask._pipeline.shown.tile_grid
    assert tile_grid.cell == (1, 1)
    assert not tile_grid.is_whole
    assert len(tile_grid.rows) <= 256
    assert mask.canvas.part.isVisible()
    assert mask.canvas.whole.isVisible()


@pytest.fixture
def in_strips(monkeypatch):
    """Paint each row of tiles as a strip, and show each strip before the next is painted."""
    monkeypatch.setattr(tiles, "STRIP_LIMIT_ELEMENTS", 1)
    monkeypatch.setattr(tile_pipeline, "RENDER_INTERVAL_S", 0.0)


@pytest.fixture
def seen(mask, bench, large, in_strips):
    mask.resize(700, 700)
    bench.files.open(large)
    bench.until_idle()
    bench.add(bench.step(amount=0.5))
    seen = _follow(mask)
    bench.show("fc.weight")
    return seen


def _follow(mask):
    seen = []

    def note():
        if mask._pipeline.shown is not None:
            seen.append(
                (mask._pipeline.shown, mask._share.text(), mask.canvas._hatching.isVisible())
            )

    mask.pictured.connect(note)
    return seen


def test_a_large_parameter_is_rendered_in_strips_with_progress(mask, seen):
    last = seen[-1][0]
    assert len(seen) == len(last.tile_grid.down) > 1
    for place, (rendered, text, hatched) in enumerate(seen, start=1):
        share = place / len(seen)
        assert text == ("" if share == 1 else f"{math.floor(100 * share)} % drawn")
        assert hatched == (share < 1)
        high = min(place * tiles.TILE_CELLS, last.painted.pixels.shape[0])
        np.testing.assert_array_equal(rendered.painted.pixels[:high], last.painted.pixels[:high])
        assert not rendered.painted.pixels[high:].any()
    assert last.is_complete
    shown = mask._pixels(last.painted.pixels, last.tile_grid.cell)
    np.testing.assert_array_equal(mask.canvas.whole.image, shown)


def test_nothing_is_requested_beside_an_outdated_picture(mask, bench, large, monkeypatch):
    bench.open_and_choose(large, "fc.weight")
    lanes = []
    look = bench.bridge.run_job

    def hold(lane, work, then, **_):
        lanes.append(lane)
        if lane != "mask":
            look(lane, work, then)

    monkeypatch.setattr(bench.bridge, "run_job", hold)
    bench.draft_step(bench.step(amount=0.3))
    mask._complete_picture()
    assert lanes == ["mask"]
