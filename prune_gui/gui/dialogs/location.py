"""The dialog for the URL of a remote checkpoint, and the question before much is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QLineEdit,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from prune_gui.errors import PruneGuiError, one_line
from prune_gui.language import deferred, tr
from prune_gui.location import Location, is_url
from prune_gui.number_formats import short_bytes

MIN_WIDTH_PX: Final = 560
EXAMPLES: Final = (
    "https://host/folder/model.safetensors",
    "s3://bucket/folder",
    "gs://bucket/folder",
    "az://container/folder",
    "hf://owner/name",
)
HINT: Final = deferred(
    "The URL of a file, of an index of shards, or of a folder with one of these. Credentials are "
    "taken from the environment and the files of the provider. Only what you look at is fetched."
)


class LocationDialog(QDialog):
    """Asks for a URL."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Open a location"))
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.url = QLineEdit()
        self.url.setPlaceholderText(EXAMPLES[0])
        self.url.setClearButtonEnabled(True)
        self.url.textChanged.connect(self._check)
        label = QLabel(tr("&URL"))
        label.setBuddy(self.url)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setTextFormat(Qt.TextFormat.PlainText)
        hint = QLabel(tr(HINT))
        examples = QLabel("\n".join(EXAMPLES))
        for note in (hint, examples):
            note.setWordWrap(True)
            note.setForegroundRole(note.palette().ColorRole.PlaceholderText)
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Open | standard.Cancel)
        self.open_button = buttons.button(standard.Open)
        self.open_button.setText(tr("&Open"))
        buttons.button(standard.Cancel).setText(tr("Cancel"))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for widget in (label, self.url, self.problem, hint, examples):
            layout.addWidget(widget)
        layout.addStretch()
        layout.addWidget(buttons)
        self._check()

    @property
    def path(self) -> Path | None:
        """The path that stands for the URL; None if it is not valid."""
        text = self.url.text().strip()
        try:
            return Location.of(text).path if is_url(text) else None
        except PruneGuiError:
            return None

    def _check(self) -> None:
        text = self.url.text().strip()
        problem = ""
        if text and not is_url(text):
            problem = tr("A URL begins as in the examples.")
        elif text:
            try:
                Location.of(text)
            except PruneGuiError as error:
                problem = str(error)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.open_button.setEnabled(self.path is not None)


def ask_location(parent: QWidget) -> Path | None:
    """Ask for the URL of a checkpoint; return the path that stands for it."""
    dialog = LocationDialog(parent)
    accepted = dialog.exec()
    path = dialog.path
    dialog.deleteLater()
    return path if accepted else None


def agree_to_fetch(parent: QWidget, url: str, needed: int, missing: int) -> int:
    """Ask how much of a remote checkpoint to fetch.

    Args:
        needed: bytes to fetch for what the user wants to see.
        missing: bytes of the checkpoint that were not fetched yet.
    """
    role = QMessageBox.ButtonRole
    box = QMessageBox(QMessageBox.Icon.Question, tr("Fetch this much?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(
        tr(
            "{size} of {url} would be fetched.",
            size=short_bytes(needed),
            url=one_line(url),
        )
    )
    box.setInformativeText(
        tr("What is fetched is kept on this computer, up to the limit of the cache.")
    )
    part = box.addButton(tr("&Fetch {size}", size=short_bytes(needed)), role.AcceptRole)
    whole = None
    if missing > needed:
        text = tr("Fetch the &whole checkpoint ({size})", size=short_bytes(missing))
        whole = box.addButton(text, role.AcceptRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(part)
    box.exec()
    clicked = box.clickedButton()
    box.deleteLater()
    if clicked is part:
        return needed
    return missing if whole is not None and clicked is whole else 0
