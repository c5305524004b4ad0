"""The history of the stack, and named states."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QInputDialog


@pytest.fixture
def history(demo_window, workbench, make_step, settle):
    for amount in (0.1, 0.2, 0.3):
        workbench.edit(lambda session, amount=amount: session.add(make_step(amount=amount)))
    settle()
    return demo_window.history


def texts(some):
    return [some.item(row).text() for row in range(some.count())]


def test_a_click_goes_to_any_entry_and_keeps_the_later_ones(history, workbench):
    assert len(texts(history.entry_list)) == 4
    history.entry_list.itemClicked.emit(history.entry_list.item(1))
    assert len(workbench.session.steps) == 1
    assert history.entry_list.currentRow() == 1
    history.entry_list.itemClicked.emit(history.entry_list.item(3))
    assert len(workbench.session.steps) == 3


def test_a_named_state_survives_undo_and_returning_is_an_undo_entry(
    history, workbench, monkeypatch, make_step
):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("three steps ", True))
    history.name.click()
    assert texts(history.named) == ["three steps  (3 steps, current)"]
    history.entry_list.itemClicked.emit(history.entry_list.item(0))
    workbench.edit(lambda session: session.add(make_step(amount=0.9)))
    assert texts(history.named) == ["three steps  (3 steps)"]
    assert not history.back.isEnabled()
    history.named.setCurrentRow(0)
    history.back.click()
    assert len(workbench.session.steps) == 3
    assert workbench.session.history.undo_label == "Return to three steps"
    history.named.setCurrentRow(0)
    history.remove.click()
    assert texts(history.named) == []


def test_an_empty_name_saves_nothing(history, workbench, monkeypatch):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: (" ", True))
    history.name.click()
    assert not workbench.session.named_states


def test_replacing_a_named_state_is_confirmed(history, workbench, monkeypatch, answer_box):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("mine", True))
    history.name.click()
    workbench.edit(lambda session: session.undo())
    asked = answer_box("Cancel")
    history.name.click()
    assert asked == ["A state mine already exists. Replace it?"]
    assert texts(history.named) == ["mine  (3 steps)"]
    answer_box("Replace")
    history.name.click()
    assert texts(history.named) == ["mine  (2 steps, current)"]


def test_the_selected_state_stays_selected_when_the_stack_changes(history, workbench, monkeypatch):
    for name in ("a", "b"):
        monkeypatch.setattr(QInputDialog, "getText", lambda *_, name=name: (name, True))
        history.name.click()
    history.named.setCurrentRow(1)
    history.back.setFocus()
    workbench.edit(lambda session: session.undo())
    assert history.named.currentRow() == 1
    history.back.click()
    assert history.back.isEnabled()
    assert history.window().focusWidget() is history.back
