"""The dialogs."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

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


def button_of(box, text):
    return next(b for b in box.findChildren(QPushButton) if b.text().replace("&", "") == text)


def test_errors_can_be_copied_with_their_details_while_their_box_stays(parent):
    errors = dialogs.ErrorBox(parent)
    errors.show("The file is gone.", "Opening\nFileNotFoundError")
    errors.show("It is broken.", "Resolving\nTraceback")
    errors.show("The file is gone.", "Opening again")
    box = errors._box
    assert box.text() == "The file is gone.\n\nIt is broken."
    assert box.detailedText() == "Opening\nFileNotFoundError\n\nResolving\nTraceback"
    button_of(box, "Copy").click()
    assert box.isVisible()
    assert QGuiApplication.clipboard().text() == box.detailedText()
    button_of(box, "OK").click()
    assert not box.isVisible()
    errors.show("Another one.", "Saving")
    assert errors._box.text() == "Another one."
    errors._box.accept()


def test_escape_leaves_the_box_of_errors(parent, qtbot):
    errors = dialogs.ErrorBox(parent)
    errors.show("The file is gone.", "Opening")
    box = errors._box
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
