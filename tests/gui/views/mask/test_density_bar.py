import pytest
from PySide6.QtCore import QPoint, Qt

from prune_gui.gui.views.mask.data import MIN_CONTRAST, Contrast
from prune_gui.gui.views.mask.view import DensityBar
from prune_gui.raster.colours import LIGHT


@pytest.fixture
def bar(qtbot):
    made = DensityBar()
    qtbot.addWidget(made)
    made.resize(made.sizeHint())
    made.show_contrast(Contrast(), LIGHT)
    made.show()
    return made


def _drag(bar, qtbot, start, end):
    points = [QPoint(round(share * (bar.width() - 1)), 5) for share in (start, end)]
    qtbot.mousePress(bar, Qt.MouseButton.LeftButton, pos=points[0])
    qtbot.mouseMove(bar, points[1])
    qtbot.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=points[1])


def test_both_handles_can_be_dragged(bar, qtbot):
    moved = []
    bar.moved.connect(moved.append)
    _drag(bar, qtbot, 0, 0.3)
    _drag(bar, qtbot, 1, 0.6)
    assert (bar.contrast.low, bar.contrast.high) == pytest.approx((0.3, 0.6), abs=0.02)
    assert moved[-1] == bar.contrast
    low, high = bar._text_positions()
    assert 0 <= low < high
    qtbot.mouseDClick(bar, Qt.MouseButton.LeftButton)
    assert bar.contrast == Contrast()


def test_the_handles_keep_their_order(bar, qtbot):
    _drag(bar, qtbot, 1, 0)
    assert bar.contrast == Contrast(0, MIN_CONTRAST)
    _drag(bar, qtbot, 0, 1)
    assert bar.contrast.high - bar.contrast.low >= MIN_CONTRAST - 1e-9


def test_keys_move_the_handles(bar, qtbot):
    qtbot.keyClick(bar, Qt.Key.Key_Left)
    qtbot.keyClick(bar, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert (bar.contrast.low, bar.contrast.high) == pytest.approx((0.01, 0.99))
    assert bar.texts == ("1 %", "99 % kept")


def test_the_bar_is_in_the_legend_of_a_picture_only_while_it_applies(bar):
    assert bar.html.count("■") == 12
    bar.setEnabled(False)
    assert bar.html == ""
