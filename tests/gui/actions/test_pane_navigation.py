"""Keyboard navigation between the panes of a window."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QDockWidget, QLineEdit, QPushButton

LEFT, RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
NO_KEYS, SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def at_work(demo_window, settle, qtbot):
    """Return an active window with a checkpoint and the focus in the tree."""
    settle()
    demo_window.activateWindow()
    qtbot.waitUntil(demo_window.isActiveWindow)
    demo_window.tree.tree.setFocus()
    return demo_window


def pane_of(window):
    """Return the name of the pane with the focus."""
    focus = QApplication.focusWidget()
    named = ("tree", "views", "draft", "stack", "history", "evaluate", "log")
    return next(name for name in named if getattr(window, name).isAncestorOf(focus))


def press(key, times, window, modifiers=NO_KEYS):
    """Press a key `times` times, and return the pane with the focus after each."""
    focused_panes = []
    for _ in range(times):
        QTest.keyClick(QApplication.focusWidget(), key, modifiers)
        focused_panes.append(pane_of(window))
    return focused_panes


def test_f6_visits_the_panes_in_their_visual_order(at_work):
    for dock in at_work.findChildren(QDockWidget):
        dock.show()
    QApplication.processEvents()
    order = ["history", "views", "draft", "stack", "evaluate", "log", "tree"]
    assert press(Qt.Key.Key_F6, 7, at_work) == order
    assert press(Qt.Key.Key_F6, 7, at_work, SHIFT) == [*reversed(order[:-1]), "tree"]


def test_f6_skips_hidden_panes(at_work):
    at_work.findChild(QDockWidget, "Pruning").hide()
    QApplication.processEvents()
    assert press(Qt.Key.Key_F6, 2, at_work) == ["views", "tree"]


def test_f6_restores_the_last_focus_of_a_pane(at_work):
    at_work.draft.preview.setFocus()
    assert press(Qt.Key.Key_F6, 4, at_work)[-1] == "draft"
    assert QApplication.focusWidget() is at_work.draft.preview


def test_f6_follows_a_dock_that_is_moved_to_the_other_side(at_work):
    dock = at_work.findChild(QDockWidget, "Modules")
    at_work.addDockWidget(RIGHT, dock)
    at_work.splitDockWidget(
        at_work.findChild(QDockWidget, "Pruning"), dock, Qt.Orientation.Vertical
    )
    QApplication.processEvents()
    at_work.stack.list.setFocus()
    assert press(Qt.Key.Key_F6, 3, at_work) == ["tree", "views", "draft"]


def test_f6_has_no_effect_in_a_modal_dialog(at_work, qtbot):
    dialog = QDialog(at_work)
    line = QLineEdit(dialog)
    dialog.open()
    qtbot.waitUntil(dialog.isActiveWindow)
    line.setFocus()
    QTest.keyClick(line, Qt.Key.Key_F6)
    assert QApplication.focusWidget() is line
    dialog.close()


@pytest.mark.parametrize("view", range(7))
def test_the_tab_key_visits_the_panes_in_the_same_order(at_work, view):
    at_work.views._tabs.setCurrentIndex(view)
    QApplication.processEvents()
    at_work.tree.tree.setFocus()
    stops = press(Qt.Key.Key_Tab, 60, at_work)
    at = stops.index("tree")  # once around
    order = [now for before, now in pairwise(["", *stops[:at]]) if now != before]
    assert order == ["views", "draft", "stack"]


def test_the_tab_key_moves_downwards_in_a_view(at_work, qtbot, workbench):
    at_work.views._tabs.setCurrentWidget(at_work.views.view("layers"))
    qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
    at_work.tree.tree.setFocus()
    heights = []
    while press(Qt.Key.Key_Tab, 1, at_work) == ["views"]:
        at = QApplication.focusWidget()
        heights.append(at.mapTo(at_work, QPoint()).y())
    assert heights == sorted(heights)
    assert len(heights) > 4


def test_showing_a_view_for_the_first_time_keeps_the_focus_on_the_tab_bar(at_work):
    at_work.views.bring_forward("mask")
    at_work.views.view("mask").findChild(QPushButton).setFocus()
    at_work.views._tabs.setCurrentIndex(3)
    assert QApplication.focusWidget() is at_work.views._tabs.tabBar()


def test_f6_makes_the_focus_visible(at_work):
    at_work.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange, False)
    at_work.panes.go(+1)
    assert at_work.testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)
