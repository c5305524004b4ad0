import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QPushButton

from prune_gui.gui.theme import LIGHT
from prune_gui.gui.views import MaskView
from prune_gui.gui.views.axes import TIMES


@pytest.fixture
def mask(bench, checkpoint, shown):
    made = shown(MaskView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return made


def _sight(mask):
    (left, right), (top, bottom) = mask._plot.view.viewRange()
    return left, right, top, bottom


def _entry(mask):
    [label] = [
        label for label in mask.findChildren(QLabel) if label.accessibleName().startswith("Entry")
    ]
    return label.text()


def test_a_new_parameter_is_shown_whole(mask, bench):
    left, right, top, bottom = _sight(mask)
    assert left < -0.5 < 5.5 < right
    assert top < -0.5 < 7.5 < bottom
    bench.choose("conv.weight")
    bench.until_idle()
    assert _sight(mask)[1] > 29.5


def test_the_share_of_each_colour_is_that_of_the_mask(mask, bench, share_of):
    bench.add(bench.step(amount=24))
    kept, pruned = share_of(mask, LIGHT.kept), share_of(mask, LIGHT.steps[0])
    assert kept == pytest.approx(pruned, rel=0.1)


def test_the_cursor_tells_index_value_and_fate(mask, bench, hand):
    bench.add(bench.step(amount=1.0))
    hand.hover(mask._plot, hand.point(mask._plot, 3, 2))
    bench.until_idle()
    value = float(bench.session.checkpoint.read("fc.weight")[2, 3])
    assert _entry(mask) == f"[2, 3]   {value:.6g}   pruned by step 1: L1 unstructured"
    bench.edit(lambda session: session.undo())
    bench.until_idle()
    assert _entry(mask).endswith("kept")


def test_outside_the_parameter_the_cursor_tells_nothing(mask, bench, hand):
    hand.hover(mask._plot, hand.point(mask._plot, 3, 2))
    bench.until_idle()
    assert _entry(mask)
    mask.one_to_one()
    hand.hover(mask._plot, hand.point(mask._plot, 40, 2))
    assert _entry(mask) == ""


def test_the_index_has_every_dimension(mask, bench, hand):
    bench.choose("conv.weight")
    bench.until_idle()
    hand.hover(mask._plot, hand.point(mask._plot, 17, 3))
    bench.until_idle()
    assert _entry(mask).startswith("[3, 1, 3, 1]")


def test_dragging_moves_the_picture(mask, bench, hand):
    left, *_ = _sight(mask)
    hand.drag(mask._plot, hand.point(mask._plot, 1, 1), hand.point(mask._plot, 3, 1))
    bench.until_idle()
    assert _sight(mask)[0] == pytest.approx(left - 2, abs=0.1)


def test_keys_zoom_move_and_fit(mask, bench, qtbot):
    mask._plot.setFocus()
    whole = _sight(mask)
    qtbot.keyClick(mask._plot, Qt.Key.Key_Plus)
    zoomed = _sight(mask)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    qtbot.keyClick(mask._plot, Qt.Key.Key_Right)
    assert _sight(mask)[0] > zoomed[0]
    qtbot.keyClick(mask._plot, Qt.Key.Key_1)
    left, right, _, _ = _sight(mask)
    assert right - left == pytest.approx(mask._plot.view.width(), rel=0.01)
    qtbot.keyClick(mask._plot, Qt.Key.Key_F)
    assert _sight(mask) == pytest.approx(whole)
    bench.until_idle()


def test_buttons_fit_and_show_an_entry_per_pixel(mask, bench, qtbot):
    whole = _sight(mask)
    one, fit = (
        next(b for b in mask.findChildren(QPushButton) if b.text() == text)
        for text in ("1:1", "Fit")
    )
    qtbot.mouseClick(one, Qt.MouseButton.LeftButton)
    assert _sight(mask) != pytest.approx(whole)
    qtbot.mouseClick(fit, Qt.MouseButton.LeftButton)
    assert _sight(mask) == pytest.approx(whole)
    bench.until_idle()


def test_only_what_is_in_sight_is_drawn(mask, bench):
    for _ in range(6):
        mask.zoom(0.7)
    bench.until_idle()
    assert len(mask._drawn.rows) < 8
    assert len(mask._drawn.columns) < 6
    assert mask._drawn.cells == (len(mask._drawn.rows), len(mask._drawn.columns))


def test_the_zoom_stays_between_parameters_of_one_shape(mask, bench):
    mask.zoom(0.5)
    bench.until_idle()
    sight = _sight(mask)
    bench.choose("other.weight")
    bench.until_idle()
    assert _sight(mask) == pytest.approx(sight)


def test_large_entries_are_told_apart_by_lines_and_small_ones_not(mask, bench):
    assert len(mask._grid.getData()[0]) == 2 * (7 + 9)
    mask.one_to_one()
    bench.until_idle()
    assert len(mask._grid.getData()[0]) == 0


def test_a_section_shows_its_two_dimensions(mask, bench):
    bench.choose("conv.weight")
    bench.until_idle()
    combo = mask.findChild(QComboBox)
    combo.setCurrentText(f"dim 1 {TIMES} dim 2")
    bench.until_idle()
    assert (len(mask._drawn.rows), len(mask._drawn.columns)) == (3, 5)
    assert mask._plot.plotItem.getAxis("left").labelText == "dim 1: input channel"
    assert mask._plot.plotItem.getAxis("bottom").labelText == "dim 2"


def test_an_unchanged_view_is_not_drawn_again(mask, bench, monkeypatch):
    looks = []
    monkeypatch.setattr(bench, "look", lambda *arguments: looks.append(arguments))
    mask.refresh()
    assert looks == []
