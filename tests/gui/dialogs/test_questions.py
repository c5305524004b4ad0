"""Questions, file dialogs and the error box."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QWidget,
)

from prune_gui.gui.dialogs import questions
from prune_gui.gui.formatting import BREAK


@pytest.fixture
def parent(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Save recipe…", "save"),
        ("Save pruned checkpoint…", "checkpoint"),
        ("Discard", "discard"),
        ("Cancel", "cancel"),
    ],
)
def test_the_question_about_an_unsaved_recipe_has_four_answers(parent, answer_box, text, reply):
    asked = answer_box(text)
    assert questions.ask_unsaved(parent, "a.pt") == reply
    assert asked == ["The recipe for a.pt is not saved."]


@pytest.mark.parametrize("is_opened", [True, False])
def test_what_no_program_opens_is_named(parent, answer_box, monkeypatch, is_opened):
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _: is_opened)
    told = answer_box("OK")
    questions.open_outside(parent, QUrl.fromLocalFile("/runs/report one.html"))
    questions.open_outside(parent, QUrl("https://pytorch.org/docs"))
    places = [text.splitlines()[-1] for text in told]
    assert places == ([] if is_opened else ["/runs/report one.html", "https://pytorch.org/docs"])


@pytest.mark.parametrize(("text", "stops"), [("Stop and close", True), ("Continue saving", False)])
def test_the_question_about_stopping_a_save_has_two_answers(parent, answer_box, text, stops):
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


def test_copying_the_details_of_errors_keeps_the_box_open(parent):
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


def test_escape_closes_the_error_box(parent, qtbot):
    errors = questions.ErrorBox(parent)
    errors.show("The file is gone.", "Opening")
    box = errors._box
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()


def test_overwriting_is_confirmed_for_a_name_without_suffix(parent, tmp_path, monkeypatch):
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
    assert questions.ask_target(parent, questions.SAVED_RECIPE, tmp_path / "other.yaml") is None
    assert "mine.yaml already exists" in asked[0]


def test_a_table_name_gets_the_default_suffix(parent, tmp_path, monkeypatch):
    def type_name(dialog):
        dialog.selectFile("mine")
        return 1

    monkeypatch.setattr(QFileDialog, "exec", type_name)
    assert (
        questions.ask_target(parent, questions.SAVED_TABLE, tmp_path / "other.csv")
        == tmp_path / "mine.csv"
    )


def test_questions_about_irreversible_actions_are_plain_text_with_cancel_as_default(
    parent, monkeypatch
):
    boxes = []

    def look(box):
        boxes.append((box.textFormat(), box.text(), box.defaultButton().text()))
        return 0

    monkeypatch.setattr(QMessageBox, "exec", look)
    assert not questions.agree(parent, "Replace?", "Replace <b>bold</b>?", "&Replace")
    assert not questions.agree_to_run(parent, Path("/<b>safe</b>.py"))
    plain = Qt.TextFormat.PlainText
    assert boxes[0] == (plain, "Replace <b>bold</b>?", "Cancel")
    assert (boxes[1][0], boxes[1][2]) == (plain, "Cancel")
    assert "runs the code in this file:\n\n/<b>safe</b>.py" in boxes[1][1]


def test_the_filters_of_checkpoints_name_the_suffixes_of_all_formats():
    assert questions.checkpoint_filter("*.index*.json") == (
        "Checkpoints (*.safetensors *.pt *.pth *.bin *.ckpt *.gguf *.npz *.keras *.h5 *.hdf5 "
        "*.msgpack *.index*.json);;All files (*)"
    )


def test_a_long_name_is_not_cut_off_in_a_question(parent, monkeypatch):
    name = "squad_v2_pruned_90_percent" * 7 + ".safetensors"
    shown = []

    def look(box):
        box.show()
        for label in box.findChildren(QLabel):
            if name in label.text().replace(BREAK, ""):
                words = label.minimumSizeHint().width()
                shown.append((label.objectName(), words <= label.width()))
        box.close()
        return 0

    monkeypatch.setattr(QMessageBox, "exec", look)
    questions.ask_unsaved(parent, name, f"The draft for {name} is not added.")
    assert shown == [("qt_msgbox_label", True), ("qt_msgbox_informativelabel", True)]
