"""The key that shows the unchanged file while it is held."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from waiting import change

from prune_gui.session.draft_request import CutRequest
from prune_gui.worker.jobs import Draft

B = Qt.Key.Key_B


@pytest.fixture
def pruned(demo_window, workbench, make_step, settle, qtbot):
    """Return a window with a step and a draft, and the focus in the tree."""
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    workbench.draft.set(make_step(amount=0.5))
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
    workbench.edit(lambda session: session.bring_back(recipe, None))
    settle()
    in_file = workbench.resolved.before
    press(pruned)
    assert workbench.shown is in_file
    assert workbench.shown.recipe.start == "zeros"
    release(pruned, qtbot)


def test_the_status_bar_shows_that_the_original_is_visible(pruned, workbench, qtbot):
    status = pruned.status
    status.say("A note")
    assert not status._original.isVisible()
    press(pruned)
    assert status._original.isVisible()
    assert status._original.text().startswith("Original")
    assert not status._note.isVisible()
    assert status._pruned.text().startswith("0 of")
    release(pruned, qtbot)
    assert not status._original.isVisible()
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
