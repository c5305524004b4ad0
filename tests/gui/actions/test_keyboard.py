"""Keyboard navigation between the panes of a window."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pages import is_idle
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QDockWidget, QLineEdit, QPushButton
from waiting import change, draft_step

from prune_gui.session.draft_request import CutRequest
from prune_gui.worker.jobs import Draft

LEFT, RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
NO_KEYS, SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def at_work(demo_window, active, settle):
    """Return an active window with a checkpoint and the focus in the tree."""
    settle()
    demo_window.tree.tree.setFocus()
    return demo_window


def pane_of(window):
    """Return the name of the pane with the focus."""
    focus = QApplication.focusWidget()
    named = ("tree", "views", "draft", "stack", "history", "evaluate", "log")
    return next(name for name in named if getattr(window, name).isAncestorOf(focus))


def press_pane_key(key, times, window, modifiers=NO_KEYS):
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
    assert press_pane_key(Qt.Key.Key_F6, 7, at_work) == order
    assert press_pane_key(Qt.Key.Key_F6, 7, at_work, SHIFT) == [*reversed(order[:-1]), "tree"]


def test_f6_skips_hidden_panes(at_work):
    at_work.findChild(QDockWidget, "Pruning").hide()
    QApplication.processEvents()
    assert press_pane_key(Qt.Key.Key_F6, 2, at_work) == ["views", "tree"]


def test_f6_restores_the_last_focus_of_a_pane(at_work):
    at_work.draft.preview.setFocus()
    assert press_pane_key(Qt.Key.Key_F6, 4, at_work)[-1] == "draft"
    assert QApplication.focusWidget() is at_work.draft.preview


def test_f6_follows_a_dock_that_is_moved_to_the_other_side(at_work):
    dock = at_work.findChild(QDockWidget, "Modules")
    at_work.addDockWidget(RIGHT, dock)
    at_work.splitDockWidget(
        at_work.findChild(QDockWidget, "Pruning"), dock, Qt.Orientation.Vertical
    )
    QApplication.processEvents()
    at_work.stack.list.setFocus()
    assert press_pane_key(Qt.Key.Key_F6, 3, at_work) == ["tree", "views", "draft"]


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
    stops = press_pane_key(Qt.Key.Key_Tab, 60, at_work)
    at = stops.index("tree")  # once around
    order = [now for before, now in pairwise(["", *stops[:at]]) if now != before]
    assert order == ["views", "draft", "stack"]


def test_a_floating_dock_has_a_tab_order_of_its_own(at_work, qtlog, qtbot):
    at_work.findChild(QDockWidget, "Modules").setFloating(True)
    QApplication.processEvents()
    at_work.activateWindow()
    qtbot.waitUntil(at_work.isActiveWindow)
    at_work.draft.preview.setFocus()
    assert set(press_pane_key(Qt.Key.Key_Tab, 60, at_work)) == {"views", "draft", "stack"}
    assert not any("setTabOrder" in record.message for record in qtlog.records)


def test_the_tab_key_moves_downwards_in_a_view(at_work, qtbot, workbench):
    at_work.views._tabs.setCurrentWidget(at_work.views.view("layers"))
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=60_000)
    at_work.tree.tree.setFocus()
    heights = []
    while press_pane_key(Qt.Key.Key_Tab, 1, at_work) == ["views"]:
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


B = Qt.Key.Key_B


@pytest.fixture
def pruned(demo_window, workbench, make_step, settle, qtbot):
    """Return a window with a step and a draft, and the focus in the tree."""
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    draft_step(workbench, make_step(amount=0.5))
    settle()
    assert workbench.draft_number == 2
    demo_window.views.bring_forward("mask")
    demo_window.activateWindow()
    demo_window.tree.tree.setFocus()
    qtbot.waitUntil(demo_window.tree.tree.hasFocus)
    return demo_window


def press(window):
    QTest.keyPress(window.windowHandle(), B)


def release(window, qtbot):
    QTest.keyRelease(window.windowHandle(), B)
    qtbot.waitUntil(lambda: not window.workbench.draft.shows_original)


def test_the_views_show_the_file_while_the_key_is_held(pruned, workbench, qtbot):
    workbench.choose("features.conv2.weight")
    after = workbench.shown
    chosen = pruned.tree.tree.currentIndex()
    with change(qtbot, workbench, "resolution"):
        press(pruned)
    assert workbench.shown.total == (0, after.total[1])
    assert workbench.shown.recipe.steps == ()
    assert workbench.draft_number is None
    assert pruned.views.view("mask").subject.resolution is workbench.shown
    with change(qtbot, workbench, "resolution"):
        release(pruned, qtbot)
    assert workbench.shown is after
    assert workbench.draft_number == 2
    assert pruned.views.view("mask").subject.resolution is after
    assert pruned.tree.tree.currentIndex() == chosen


def test_zeros_pruned_in_the_file_stay_pruned(pruned, workbench, settle, qtbot):
    recipe = workbench.session.recipe.model_copy(update={"start": "zeros"})
    workbench.edit(lambda session: session.bring_back(recipe, None, None))
    settle()
    in_file = workbench.resolved.before
    press(pruned)
    assert workbench.shown is in_file
    assert workbench.shown.recipe.start == "zeros"
    release(pruned, qtbot)


def test_the_status_bar_shows_that_the_original_is_visible(pruned, workbench, qtbot):
    status = pruned.status
    status.say("A note")
    assert not status._file_shown.isVisible()
    press(pruned)
    assert status._file_shown.isVisible()
    assert status._file_shown.text().startswith("The file")
    assert not status._note.isVisible()
    assert status._pruned.text().startswith("0 of")
    release(pruned, qtbot)
    assert not status._file_shown.isVisible()
    assert status._note.isVisible()
    assert not status._pruned.text().startswith("0 of")


def test_auto_repeat_events_do_not_release_the_key(pruned, workbench, qtbot):
    press(pruned)
    changes = []
    workbench.changed.connect(changes.append)
    for kind in (QEvent.Type.KeyRelease, QEvent.Type.KeyPress) * 3:
        event = QKeyEvent(kind, B, Qt.KeyboardModifier.NoModifier, "b", True)
        QApplication.sendEvent(pruned.windowHandle(), event)
    assert workbench.draft.shows_original
    assert changes == []
    release(pruned, qtbot)
    assert not workbench.draft.shows_original


def test_a_release_followed_by_a_press_does_not_release_the_key(pruned, workbench, qtbot):
    press(pruned)
    changes = []
    workbench.changed.connect(lambda _: changes.append(workbench.draft.shows_original))
    for _ in range(3):
        QTest.keyRelease(pruned.windowHandle(), B)
        press(pruned)
    assert changes == []
    release(pruned, qtbot)
    assert changes == [False]


def test_the_release_of_another_key_changes_nothing(pruned, workbench, qtbot):
    press(pruned)
    QTest.keyRelease(pruned.windowHandle(), Qt.Key.Key_A)
    assert workbench.draft.shows_original
    release(pruned, qtbot)


def test_a_text_field_receives_the_letter(pruned, workbench, qtbot):
    pruned.tree.filter.setFocus()
    qtbot.waitUntil(pruned.tree.filter.hasFocus)
    press(pruned)
    assert not workbench.draft.shows_original
    release(pruned, qtbot)
    assert pruned.tree.filter.text() == "b"


def test_deactivating_the_window_releases_the_key(pruned, workbench, qtbot):
    press(pruned)
    QApplication.sendEvent(pruned, QEvent(QEvent.Type.WindowDeactivate))
    assert not workbench.draft.shows_original
    release(pruned, qtbot)
    press(pruned)
    assert workbench.draft.shows_original
    release(pruned, qtbot)
    assert not workbench.draft.shows_original


def test_a_cut_cannot_be_dragged_while_the_original_is_visible(pruned, workbench, make_step, qtbot):
    press(pruned)
    pruned.draft.change(CutRequest("weight", 0.1))
    assert workbench.draft.current == Draft(make_step(amount=0.5))
    release(pruned, qtbot)


def test_the_key_has_no_effect_without_a_file(window, workbench, qtbot):
    window.activateWindow()
    press(window)
    assert workbench.shown is None
    release(window, qtbot)
    assert not workbench.draft.shows_original
