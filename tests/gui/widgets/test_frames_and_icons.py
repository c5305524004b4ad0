"""The frame around the focus widget."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPalette
from PySide6.QtWidgets import QApplication, QCommandLinkButton, QWidget

from prune_gui.gui.actions.menus import ACTIONS
from prune_gui.gui.widgets.theme import app_icon, icon
from prune_gui.resources import resource


def framed(window: QWidget, widget: QWidget) -> bool:
    """Return whether a widget has a frame in the highlight colour."""
    picture = window.grab().toImage()
    at = widget.mapTo(window, widget.rect().center())
    half = widget.width() // 2 + 1
    edges = {picture.pixelColor(at.x() + side * half, at.y()).name() for side in (-1, 1)}
    return edges == {window.palette().color(QPalette.ColorRole.Highlight).name()}


@pytest.fixture
def active(window, qtbot):
    """Return an active window."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


def test_a_button_of_the_start_page_shows_the_focus(active):
    button = active._welcome.findChild(QCommandLinkButton)
    assert not framed(active, button)
    button.setFocus()
    assert framed(active, button)


def test_a_picture_shows_the_focus_and_is_exported_without_the_frame(active, demo_window, qtbot):
    demo_window.views.bring_forward("mask")
    view = demo_window.views.view("mask")
    qtbot.waitUntil(lambda: view.picture() is not None)
    plot = view.picture()
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)
    demo_window.menu_actions["copy_picture"].trigger()
    before = QGuiApplication.clipboard().image()
    plot.setFocus()
    assert framed(active, plot)
    demo_window.menu_actions["copy_picture"].trigger()
    assert QGuiApplication.clipboard().image() == before
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)


NAMES = sorted(path.stem for path in resource("icons").glob("*.svg"))


def inks(made: QIcon, mode: QIcon.Mode) -> list[QColor]:
    """Return the colours of the opaque pixels."""
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


def test_every_icon_of_an_action_is_shipped():
    assert {act.icon for act in ACTIONS.values() if act.icon} <= set(NAMES)


def test_the_program_has_an_icon_of_several_colours(qtbot):
    first, *others = inks(app_icon(), QIcon.Mode.Normal)
    assert max(max_difference(first, colour) for colour in others) > 50
