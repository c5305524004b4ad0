"""What has the focus can be told from what has not."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QCommandLinkButton, QWidget


def framed(window: QWidget, widget: QWidget) -> bool:
    """Tell whether there is a frame in the colour of what is chosen around a widget."""
    picture = window.grab().toImage()
    at = widget.mapTo(window, widget.rect().center())
    half = widget.width() // 2 + 1
    edges = {picture.pixelColor(at.x() + side * half, at.y()).name() for side in (-1, 1)}
    return edges == {window.palette().color(QPalette.ColorRole.Highlight).name()}


@pytest.fixture
def active(window, qtbot):
    """Return a window that has the keyboard."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


def test_a_button_of_the_first_page_shows_the_focus(active):
    button = active._welcome.findChild(QCommandLinkButton)
    assert not framed(active, button)
    button.setFocus()
    assert framed(active, button)


def test_a_picture_shows_the_focus_until_it_is_lost_and_is_taken_away_without(
    active, demo_window, qtbot
):
    view = demo_window.views.mask_view
    qtbot.waitUntil(lambda: view.picture() is not None)
    plot = view.picture()
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)
    demo_window.acts["copy_picture"].trigger()
    before = QGuiApplication.clipboard().image()
    plot.setFocus()
    assert framed(active, plot)
    demo_window.acts["copy_picture"].trigger()
    assert QGuiApplication.clipboard().image() == before
    demo_window.tree.tree.setFocus()
    assert not framed(active, plot)
