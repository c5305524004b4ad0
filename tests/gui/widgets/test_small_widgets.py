"""Labels for messages, switches, elided texts, the frame of the focus, and icons."""

from __future__ import annotations

import pyqtgraph as pg
import pytest
from pages import is_idle
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QColor, QGuiApplication, QHelpEvent, QIcon, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QCommandLinkButton,
    QLabel,
    QLineEdit,
    QSpinBox,
    QTextEdit,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.actions.menus import ACTIONS
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel, ElidedLineEdit
from prune_gui.gui.widgets.layouts import sentence
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import Theme, app_icon, icon
from prune_gui.raster.colours import LIGHT
from prune_gui.resources import resource


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


GLOBS = "features.conv*.weight, classifier.*.weight, !*.bias, !*.bn1.*, !*.bn2.*"


@pytest.fixture
def page(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def lines(page, qtbot):
    """Return an elided line, a plain one of the same size, and one with the focus."""
    layout = QVBoxLayout(page)
    long, plain, other = ElidedLineEdit(), QLineEdit(), QLineEdit()
    for line in (long, plain, other):
        layout.addWidget(line)
    page.resize(200, 120)
    with qtbot.waitExposed(page):
        page.show()
    page.activateWindow()
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


def test_a_long_text_of_a_label_is_elided_and_does_not_widen_it(page, qtbot):
    label = ElidedLabel("Element")
    QVBoxLayout(page).addWidget(label)
    page.resize(200, 60)
    page.show()
    before, whole = page.minimumSizeHint(), "[3, 17] 0.0125 kept " * 40
    label.say(whole)
    assert label.text().endswith("…")
    assert label.fontMetrics().horizontalAdvance(label.text()) <= label.contentsRect().width()
    assert label.accessibleDescription() == whole
    assert page.minimumSizeHint() == before


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


def framed(window: QWidget, widget: QWidget) -> bool:
    picture = window.grab().toImage()
    at = widget.mapTo(window, widget.rect().center())
    half = widget.width() // 2 + 1
    edges = {picture.pixelColor(at.x() + side * half, at.y()).name() for side in (-1, 1)}
    return edges == {window.palette().color(QPalette.ColorRole.Highlight).name()}


def test_a_button_of_the_start_page_shows_the_focus(active):
    button = active._welcome.findChild(QCommandLinkButton)
    assert not framed(active, button)
    button.setFocus()
    assert framed(active, button)


def text_of(plot: pg.PlotWidget) -> str:
    return " ".join(one.toPlainText() for one in plot.items() if isinstance(one, pg.TextItem))


def test_a_picture_shows_the_focus_and_is_exported_without_the_frame(active, demo_window, qtbot):
    demo_window.views.bring_forward("mask")
    view = demo_window.views.view("mask")
    bench = demo_window.workbench
    qtbot.waitUntil(lambda: view.picture() is not None and is_idle(bench), timeout=60_000)
    plot = view.picture()
    qtbot.waitUntil(lambda: "Share pruned of each column" in text_of(plot), timeout=60_000)
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)
    copied = QGuiApplication.clipboard().dataChanged
    with qtbot.waitSignal(copied):
        demo_window.menu_actions["copy_picture"].trigger()
    before = QGuiApplication.clipboard().image()
    plot.setFocus()
    assert framed(active, plot)
    with qtbot.waitSignal(copied):
        demo_window.menu_actions["copy_picture"].trigger()
    assert QGuiApplication.clipboard().image() == before
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)


NAMES = sorted(path.stem for path in resource("icons").glob("*.svg"))


def inks(made: QIcon, mode: QIcon.Mode) -> list[QColor]:
    image = made.pixmap(24, mode).toImage()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    painted = [image.pixelColor(*point) for point in points]
    return [colour for colour in painted if colour.alpha() == 255]


def max_difference(a: QColor, b: QColor) -> int:
    """Return the largest difference of a channel. Blending at edges rounds by 1 or 2."""
    return max(abs(x - y) for x, y in zip(a.getRgb(), b.getRgb(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_icon_is_drawn_in_the_colour_of_text(qtbot, name):
    if name == "app":
        pytest.skip("has colours of its own")
    palette = QApplication.palette()
    for mode, group in (
        (QIcon.Mode.Normal, QPalette.ColorGroup.Active),
        (QIcon.Mode.Disabled, QPalette.ColorGroup.Disabled),
    ):
        ink = palette.color(group, QPalette.ColorRole.WindowText)
        painted = inks(icon(name), mode)
        assert painted
        assert max(max_difference(colour, ink) for colour in painted) <= 2


def test_buttons_and_actions_follow_the_theme(demo_window, qapp):
    theme, window = Theme(qapp, "light"), demo_window
    targets = [window.menu_actions["undo"], window.status._cancel, window.draft.commit]
    for mode in ("light", "dark"):
        theme.use(mode)
        ink = QApplication.palette().color(QPalette.ColorRole.WindowText)
        painted = [colour for each in targets for colour in inks(each.icon(), QIcon.Mode.Normal)]
        assert max(max_difference(colour, ink) for colour in painted) <= 2
    theme.deleteLater()


def test_every_icon_of_an_action_is_shipped():
    assert {act.icon for act in ACTIONS.values() if act.icon} <= set(NAMES)


def test_the_program_has_an_icon_of_several_colours(qtbot):
    first, *others = inks(app_icon(), QIcon.Mode.Normal)
    assert max(max_difference(first, colour) for colour in others) > 50


def test_a_sentence_has_its_inputs_where_the_translation_wants_them(qtbot):
    first, second = QSpinBox(), QSpinBox()
    shown = QWidget()
    shown.setLayout(sentence("of {length} tokens, {samples}", samples=first, length=second))
    qtbot.addWidget(shown)
    parts = [shown.layout().itemAt(at).widget() for at in range(4)]
    assert [parts[0].text(), parts[2].text()] == ["of", "tokens,"]
    assert [parts[1], parts[3]] == [second, first]


def test_a_line_of_a_message_does_not_break_before_the_percent_sign(qtbot):
    message = Message()
    qtbot.addWidget(message)
    message.say("Zeroes 5 of 10 (50.0 %).")
    assert QLabel.text(message) == "Zeroes 5 of 10 (50.0\N{NO-BREAK SPACE}%)."
    assert message.text() == "Zeroes 5 of 10 (50.0 %)."


def test_a_long_name_does_not_widen_what_a_message_is_in(message):
    message.say("squad_v2_pruned_90_percent" * 7 + ".safetensors has no architecture table.")
    assert message.minimumSizeHint().width() < 600
    assert message.text().startswith("squad_v2_pruned_90_percentsquad_v2")
