"""The label for warnings and remarks."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QTextEdit, QToolButton, QVBoxLayout, QWidget

from prune_gui.gui.views.compare.control_bars import SegmentedSwitch
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import LIGHT


@pytest.fixture
def message(qtbot, qapp):
    theme = Theme(qapp, "light")
    made = Message()
    qtbot.addWidget(made)
    yield made
    theme.deleteLater()


def shade(message):
    return message.palette().color(QPalette.ColorRole.WindowText)


def faint(message):
    return shade(message) == message.palette().color(QPalette.ColorRole.PlaceholderText)


def test_an_outdated_text_becomes_faint_and_stays(message, qtbot):
    message.say("limited to 60 %")
    message.fade()
    assert shade(message) == QColor(LIGHT.warning)
    qtbot.waitUntil(lambda: faint(message))
    assert message.text() == "limited to 60 %"
    message.say("limited to 70 %")
    assert shade(message) == QColor(LIGHT.warning)


def test_a_text_that_is_soon_replaced_does_not_become_faint(message, qtbot):
    message.say("limited to 60 %")
    message.fade()
    message.say("limited to 61 %")
    assert not message._fading.isActive()
    assert shade(message) == QColor(LIGHT.warning)


def test_no_line_is_cut_off_in_a_small_window(qtbot):
    around = QWidget()
    qtbot.addWidget(around)
    message, below = Message(), QTextEdit()
    below.setMinimumHeight(200)
    column = QVBoxLayout(around)
    column.addWidget(message)
    column.addWidget(below)
    message.say("Many words that need more than the one line that there is. " * 3)
    around.resize(300, 100)
    around.show()
    assert message.height() >= message.heightForWidth(message.width())
    assert message.heightForWidth(message.width()) > 2 * message.fontMetrics().height()


@pytest.fixture
def switch(qtbot):
    texts = {1: ("one", "oneone"), 2: ("two", "twotwo"), 3: ("three", "threethree")}
    widget = SegmentedSwitch("Number", texts)
    qtbot.addWidget(widget)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def test_a_click_chooses_a_value_and_releases_the_other_button(switch, qtbot):
    assert switch.value == 1
    buttons = switch.findChildren(QToolButton)
    with qtbot.waitSignal(switch.changed):
        qtbot.mouseClick(buttons[2], Qt.MouseButton.LeftButton)
    assert switch.value == 3
    assert [button.isChecked() for button in buttons] == [False, False, True]
    with qtbot.assertNotEmitted(switch.changed):
        qtbot.mouseClick(buttons[2], Qt.MouseButton.LeftButton)


def test_the_arrow_keys_choose_a_neighbour(switch, qtbot):
    buttons = switch.findChildren(QToolButton)
    buttons[0].setFocus()
    qtbot.keyClick(buttons[0], Qt.Key.Key_Right)
    assert switch.value == 2
    assert switch.has_focus
