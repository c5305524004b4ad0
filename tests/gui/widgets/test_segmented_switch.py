import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton

from prune_gui.gui.widgets.segmented_switch import SegmentedSwitch


@pytest.fixture
def switch(qtbot):
    texts = {1: "one", 2: "two", 3: "three"}
    widget = SegmentedSwitch("Number", texts, {value: text * 2 for value, text in texts.items()})
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
