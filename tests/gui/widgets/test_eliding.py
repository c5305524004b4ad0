import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QToolTip, QVBoxLayout, QWidget

from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel, ElidedLineEdit

GLOBS = "features.conv*.weight, classifier.*.weight, !*.bias, !*.bn1.*, !*.bn2.*"


@pytest.fixture
def window(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def lines(window, qtbot):
    """Return an elided line, a plain one of the same size, and one with the focus."""
    layout = QVBoxLayout(window)
    long, plain, other = ElidedLineEdit(), QLineEdit(), QLineEdit()
    for line in (long, plain, other):
        layout.addWidget(line)
    window.resize(200, 120)
    with qtbot.waitExposed(window):
        window.show()
    window.activateWindow()
    other.setFocus()
    qtbot.waitUntil(other.hasFocus)
    return long, plain, other


def tip(line):
    at = QPoint(5, 5)
    event = QHelpEvent(QEvent.Type.ToolTip, at, line.mapToGlobal(at))
    QApplication.sendEvent(line, event)
    return QToolTip.text()


def test_a_text_that_does_not_fit_ends_in_an_ellipsis(lines):
    long, plain, _ = lines
    long.setText(GLOBS)
    start, rest = long.shown().split("…")
    assert GLOBS.startswith(start)
    assert start
    assert not rest
    plain.setText(long.shown())
    assert long.grab().toImage() == plain.grab().toImage()


def test_a_line_with_the_focus_is_not_elided(lines):
    long, _, other = lines
    long.setText(GLOBS)
    shortened = long.grab().toImage()
    long.setFocus()
    assert long.grab().toImage() != shortened
    other.setFocus()
    assert long.grab().toImage() == shortened


def test_the_tool_tip_contains_the_full_elided_text(lines):
    long, _, _ = lines
    long.setToolTip("Globs")
    long.setText(GLOBS)
    assert tip(long).replace("\n", " ") == f"{GLOBS}  Globs"
    long.setText("*.weight")
    assert tip(long) == "Globs"


def test_the_clear_button_does_not_cover_the_text(lines, qtbot):
    long, _, _ = lines
    long.setText(GLOBS)
    before = len(long.shown())
    long.setClearButtonEnabled(True)
    qtbot.waitUntil(lambda: len(long.shown()) < before)


def test_a_long_text_of_a_label_is_elided_and_does_not_widen_it(window, qtbot):
    label = ElidedLabel("Element")
    QVBoxLayout(window).addWidget(label)
    window.resize(200, 60)
    window.show()
    before, whole = window.minimumSizeHint(), "[3, 17] 0.0125 kept " * 40
    label.say(whole)
    assert label.text().endswith("…")
    assert label.fontMetrics().horizontalAdvance(label.text()) <= label.contentsRect().width()
    assert label.accessibleDescription() == whole
    assert window.minimumSizeHint() == before


TEXT = "step 3: L1 unstructured"


@pytest.fixture
def boxes(qtbot):
    """Return a narrow elided box, and a plain one of the same size."""
    made = ElidedComboBox(), QComboBox()
    for box in made:
        qtbot.addWidget(box)
        box.addItem(TEXT)
        box.resize(100, 24)
    return made


def test_a_choice_that_does_not_fit_ends_in_an_ellipsis(boxes):
    narrow, plain = boxes
    start, end = narrow.shown().split("…")
    assert TEXT.startswith(start)
    assert start
    assert not end
    plain.setItemText(0, narrow.shown())
    assert narrow.grab().toImage() == plain.grab().toImage()
