"""The controls of a save dialog, as a user finds them."""

from __future__ import annotations

from PySide6.QtWidgets import QCheckBox, QDialogButtonBox, QPushButton, QRadioButton

from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.widgets.message import Message
from prune_gui.recipe import FORMS


def choose(dialog: SaveDialog, form: str) -> None:
    dialog.findChildren(QRadioButton)[FORMS.index(form)].click()


def split(dialog: SaveDialog, size: str) -> None:
    dialog.findChild(QCheckBox).click()
    dialog._shard_size.setText(size)


def problem(dialog: SaveDialog) -> str:
    return "\n".join(m.text() for m in dialog.findChildren(Message) if m.isVisible())


def save_button(dialog: SaveDialog) -> QPushButton:
    return dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Save)
