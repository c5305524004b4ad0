"""The dialogs."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QDialog, QMessageBox, QPushButton, QRadioButton

from prune_gui.gui import dialogs
from prune_gui.recipe import FORMS


@pytest.fixture
def dialog(qtbot, tmp_path):
    made = dialogs.SaveDialog(tmp_path / "model.safetensors")
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.fixture
def answer(monkeypatch):
    """Return what makes message boxes be left by the button of a text, and counts them."""

    def prepare(text):
        asked = []

        def click(box):
            asked.append(box.text())
            buttons = {b.text().replace("&", ""): b for b in box.findChildren(QPushButton)}
            buttons[text].click()
            return box.result()

        monkeypatch.setattr(QMessageBox, "exec", click)
        return asked

    return prepare


def test_every_form_can_be_chosen_and_is_explained(dialog):
    assert set(dialogs.FORMS) == set(FORMS)
    assert dialog.form == "finalized"
    for button, form in zip(dialog.findChildren(QRadioButton), dialogs.FORMS, strict=True):
        button.click()
        assert dialog.form == form
        assert button.accessibleDescription().endswith(".")


def test_a_new_file_is_saved_beside_the_input_without_a_question(dialog, tmp_path, answer):
    asked = answer("Cancel")
    dialog._confirm()
    assert dialog.result() == QDialog.DialogCode.Accepted
    assert dialog.path == tmp_path / "model-pruned.safetensors"
    assert not asked


@pytest.mark.parametrize(("button", "result"), [("Replace", 1), ("Cancel", 0)])
def test_replacing_a_file_is_confirmed_once(dialog, tmp_path, answer, button, result):
    (tmp_path / "model-pruned.safetensors").touch()
    asked = answer(button)
    dialog._confirm()
    assert dialog.result() == result
    assert asked == ["model-pruned.safetensors exists already. Replace it?"]


def test_replacing_what_is_in_a_folder_is_confirmed_too(dialog, tmp_path, answer):
    folder = tmp_path / "model-pruned.safetensors"
    folder.mkdir()
    asked = answer("Cancel")
    (folder / "model.safetensors").touch()
    dialog._confirm()
    assert dialog.isVisible()
    (folder / "model.safetensors").unlink()
    dialog._confirm()
    assert dialog.result() == QDialog.DialogCode.Accepted
    assert len(asked) == 1


def test_a_file_must_be_named(dialog):
    dialog._path.clear()
    dialog._confirm()
    assert dialog.isVisible()


@pytest.mark.parametrize(
    ("text", "reply"),
    [("Save recipe…", "Save"), ("Discard", "Discard"), ("Cancel", "Cancel")],
)
def test_an_unsaved_recipe_has_three_ways_out(qtbot, dialog, answer, text, reply):
    asked = answer(text)
    assert dialogs.ask_unsaved(dialog, "a.pt") == QMessageBox.StandardButton[reply]
    assert asked == ["The recipe for a.pt is not saved."]


@pytest.mark.parametrize(("text", "stops"), [("Stop and close", True), ("Go on saving", False)])
def test_stopping_a_save_has_two(dialog, answer, text, stops):
    answer(text)
    assert dialogs.ask_cancel_saving(dialog) is stops
