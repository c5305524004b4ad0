"""The dialogs."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QMessageBox, QWidget

from prune_gui.gui import dialogs


@pytest.fixture
def parent(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.mark.parametrize(
    ("text", "reply"),
    [("Save recipe…", "Save"), ("Discard", "Discard"), ("Cancel", "Cancel")],
)
def test_an_unsaved_recipe_has_three_ways_out(parent, answer_box, text, reply):
    asked = answer_box(text)
    assert dialogs.ask_unsaved(parent, "a.pt") == QMessageBox.StandardButton[reply]
    assert asked == ["The recipe for a.pt is not saved."]


@pytest.mark.parametrize(("text", "stops"), [("Stop and close", True), ("Go on saving", False)])
def test_stopping_a_save_has_two(parent, answer_box, text, stops):
    answer_box(text)
    assert dialogs.ask_cancel_saving(parent) is stops
