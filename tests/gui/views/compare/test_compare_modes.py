"""The pictures of a comparison: side by side, in turn, as a difference and as a film."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabBar
from view_page import sight, text

from prune_gui.gui.views.compare.data import ComparePainter, Shades
from prune_gui.gui.views.maps.canvas import SquareCells
from prune_gui.raster.colours import LIGHT
from prune_gui.session import Settings

SHADES = Shades.of(LIGHT)


def test_the_arrow_keys_choose_the_kind_of_comparison(compare, qtbot):
    compare.show_pictures()
    [kinds] = compare.pictures.findChildren(QTabBar)
    kinds.setFocus()
    for mode in ("swipe", "blink"):
        qtbot.keyClick(kinds, Qt.Key.Key_Right)
        assert compare.pictures.mode == mode
        assert kinds.hasFocus()


def test_every_kind_of_comparison_is_in_sight(compare, bench):
    [kinds] = compare.pictures.findChildren(QTabBar)
    for width, is_whole in ((590, True), (480, False)):  # 590 in a window of 1280
        compare.resize(width, 500)
        bench.until_idle()
        assert compare.width() == width
        assert all(kinds.rect().contains(kinds.tabRect(at)) for at in range(kinds.count()))
        assert (kinds.width() >= kinds.sizeHint().width()) == is_whole


def test_blinking_alternates_and_space_pauses(compare, bench, qtbot, share_of):
    bench.add(bench.step(amount=1.0))
    compare.pictures.show_mode("blink")
    with qtbot.waitSignals([compare.pictures.pair.blinked] * 2, timeout=5000):
        pass
    compare.pictures.pair.left.setFocus()
    qtbot.keyClick(compare.pictures.pair.left, Qt.Key.Key_Space)
    bench.until_idle()  # no timer is active
    in_front = compare.pictures.pair.right_in_front
    shade = SHADES.right if in_front else SHADES.kept
    assert share_of(compare.pictures.pair, shade) > 0.2
    name = "Right: The stack" if in_front else "Left: The file as opened"
    assert text(compare, "Side in front") == name


def test_another_kind_of_comparison_draws_no_picture_again(compare, bench, monkeypatch):
    bench.add(bench.step(amount=24))
    compare.pictures.show_mode("swipe")
    bench.until_idle()
    painted = []
    paint = ComparePainter.paint
    monkeypatch.setattr(
        ComparePainter, "paint", lambda *given: painted.append(given) or paint(*given)
    )
    for mode in ("difference", "swipe", "sides"):
        compare.pictures.show_mode(mode)
        bench.until_idle()
    assert painted == []


def _frame(compare):
    return compare.pictures._film_bar.title.accessibleDescription()


def test_a_film_shows_the_mask_after_each_step(compare, bench, qtbot, share_of):
    bench.add(
        bench.step(method="channels", channels=[0, 1], dim=0),
        bench.step(method="channels", channels=[5], dim=0),
    )
    compare.pictures.show_mode("film")
    bench.until_idle()
    film = compare.pictures._film_bar
    assert _frame(compare) == "After step 2: Channels, 37.5 % pruned"
    by_step = [LIGHT.steps[0], LIGHT.steps[1]]
    assert all(share_of(compare.pictures.pair, shade) > 0.02 for shade in by_step)
    before = sight(compare.pictures.pair.left)
    qtbot.keyClick(film.slider, Qt.Key.Key_Left)
    bench.until_idle()
    assert _frame(compare) == "After step 1: Channels, 25.0 % pruned"
    assert share_of(compare.pictures.pair, by_step[1]) < 0.001
    qtbot.keyClick(film.slider, Qt.Key.Key_Left)
    bench.until_idle()
    assert _frame(compare) == "The file as opened, 0.0 % pruned"
    assert share_of(compare.pictures.pair, by_step[0]) < 0.001
    assert sight(compare.pictures.pair.left) == before
    assert compare.caption()[1].endswith(_frame(compare))


def test_a_film_ends_with_the_draft(compare, bench):
    bench.add(bench.step(amount=6))
    compare.pictures.show_mode("film")
    bench.draft_step(bench.step(amount=6))
    assert _frame(compare) == "With the draft: L1 unstructured, 25.0 % pruned"
    assert "the draft" in text(compare.pictures, "Legend")
    bench.draft_step(None)
    assert _frame(compare) == "After step 1: L1 unstructured, 12.5 % pruned"


def test_both_pictures_zoom_and_pan_together(compare, bench, qtbot, hand):
    whole = sight(compare.pictures.pair.left)
    compare.pictures.pair.right.setFocus()
    qtbot.keyClick(compare.pictures.pair.right, Qt.Key.Key_Plus)
    assert sight(compare.pictures.pair.right)[1] < whole[1]
    assert sight(compare.pictures.pair.left) == pytest.approx(sight(compare.pictures.pair.right))
    plot = compare.pictures.pair.right
    hand.drag(plot, hand.point(plot, 2, 2), hand.point(plot, 3, 3))
    bench.until_idle()
    assert sight(compare.pictures.pair.left) == pytest.approx(sight(compare.pictures.pair.right))
    qtbot.keyClick(compare.pictures.pair.left, Qt.Key.Key_F)
    assert sight(compare.pictures.pair.right) == pytest.approx(whole, abs=0.01)
    qtbot.keyClick(compare.pictures.pair.left, Qt.Key.Key_1)
    assert sight(compare.pictures.pair.left)[1] > 20
    bench.until_idle()


def test_the_element_under_the_cursor_is_described_in_both_states(compare, bench, hand):
    bench.add(bench.step(amount=1.0))
    hand.hover(compare.pictures.pair.right, hand.point(compare.pictures.pair.right, 3, 2))
    bench.until_idle()
    value = float(bench.session.checkpoint.read("fc.weight")[2, 3])
    assert text(compare, "Weight under the cursor on both sides") == (
        f"[2, 3]   {value:.6g} kept   |   {value:.6g} pruned by step 1"
    )
    assert compare.pictures.pair.left._pinned == (2, 3)


def test_both_pictures_have_square_cells_unless_they_are_not_wanted(compare, bench, qtbot):
    [button] = compare.pictures.findChildren(SquareCells)
    compare.resize(900, 450)
    bench.until_idle()

    def stretch(plot):
        region, size = plot.sight, plot.view.rect()
        return (size.width() / region.width()) / (size.height() / region.height())

    for mode in ("sides", "swipe", "sides"):
        compare.pictures.show_mode(mode)
        bench.until_idle()
        for plot in compare.pictures.pair.plots:
            if plot.isVisible():
                assert stretch(plot) == pytest.approx(1, rel=0.01)
    left, right = map(sight, compare.pictures.pair.plots)
    assert left == pytest.approx(right, rel=0.01)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    bench.until_idle()
    assert Settings.load().square_cells is False
    assert stretch(compare.pictures.pair.left) != pytest.approx(1, rel=0.05)
