"""The dialogs."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QWidget,
)

from prune_gui.gui.dialogs import questions


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
    assert questions.ask_unsaved(parent, "a.pt") == QMessageBox.StandardButton[reply]
    assert asked == ["The recipe for a.pt is not saved."]


@pytest.mark.parametrize(("text", "stops"), [("Stop and close", True), ("Go on saving", False)])
def test_stopping_a_save_has_two(parent, answer_box, text, stops):
    answer_box(text)
    assert questions.ask_cancel_saving(parent) is stops


def test_enter_alone_does_not_stop_a_save(parent, monkeypatch):
    def enter(box):
        box.defaultButton().click()
        return box.result()

    monkeypatch.setattr(QMessageBox, "exec", enter)
    assert not questions.ask_cancel_saving(parent)


def button_of(box, text):
    return next(b for b in box.findChildren(QPushButton) if b.text().replace("&", "") == text)


def test_errors_can_be_copied_with_their_details_while_their_box_stays(parent):
    errors = questions.ErrorBox(parent)
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
    errors = questions.ErrorBox(parent)
    errors.show("The file is gone.", "Opening")
    box = errors._box
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()


def test_a_name_without_a_suffix_takes_no_file_unasked(parent, tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("old")
    asked = []

    def refuse():
        box = QApplication.activeModalWidget()
        asked.append(box.text())
        box.button(QMessageBox.StandardButton.No).click()

    def type_name(dialog):
        dialog.show()
        dialog.findChild(QLineEdit).setText("mine")
        QTimer.singleShot(0, refuse)
        dialog.accept()
        return dialog.result()

    monkeypatch.setattr(QFileDialog, "exec", type_name)
    assert questions.ask_recipe_target(parent, tmp_path / "other.yaml") is None
    assert "mine.yaml already exists" in asked[0]


def test_a_table_gets_the_suffix_of_its_kind(parent, tmp_path, monkeypatch):
    def type_name(dialog):
        dialog.selectFile("mine")
        return 1

    monkeypatch.setattr(QFileDialog, "exec", type_name)
    assert questions.ask_table_target(parent, tmp_path / "other.csv") == tmp_path / "mine.csv"


def test_what_cannot_be_undone_is_asked_about_in_plain_text_and_enter_says_no(parent, monkeypatch):
    boxes = []

    def look(box):
        boxes.append((box.textFormat(), box.text(), box.defaultButton().text()))
        return 0

    monkeypatch.setattr(QMessageBox, "exec", look)
    assert not questions.agree(parent, "Replace?", "Replace <b>bold</b>?", "&Replace")
    plain = Qt.TextFormat.PlainText
    assert boxes == [(plain, "Replace <b>bold</b>?", "Cancel")]
