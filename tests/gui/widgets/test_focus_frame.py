"""The frame around the focus widget."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QCommandLinkButton, QWidget


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
