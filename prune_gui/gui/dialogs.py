"""Dialogs: which file to open, how and where to save, what went wrong, what this program is."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.checkpoint.shard_index import is_index

if TYPE_CHECKING:
    from prune_gui.recipe import Form

CHECKPOINTS: Final = "Checkpoints (*.safetensors *.pt *.pth *.bin *.ckpt);;All files (*)"
WITH_INDEXES: Final = CHECKPOINTS.replace(")", " *.index*.json)", 1)
RECIPES: Final = "Recipes (*.yaml *.yml);;All files (*)"
METHODS: Final = "Python files (*.py);;All files (*)"

FORMS: Final[dict[Form, tuple[str, str]]] = {
    "finalized": ("&Finalized", "Same names and types; pruned entries are exactly zero."),
    "reparametrized": (
        "&Reparametrized",
        "X_orig and X_mask in place of each pruned X, as torch.nn.utils.prune keeps them.",
    ),
    "masks": ("&Masks", "Only the masks: a boolean tensor for each pruned parameter."),
}
"""The forms of a pruned checkpoint: what they are called, and what they are."""


def ask_checkpoint(parent: QWidget, folder: Path) -> Path | None:
    """Ask which checkpoint to open."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open a checkpoint", str(folder), WITH_INDEXES)
    return Path(path) if path else None


def ask_folder(parent: QWidget, folder: Path) -> Path | None:
    """Ask which folder with a checkpoint to open."""
    path = QFileDialog.getExistingDirectory(parent, "Open a folder with a checkpoint", str(folder))
    return Path(path) if path else None


def ask_recipe(parent: QWidget, folder: Path) -> Path | None:
    """Ask which recipe to open."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open a recipe", str(folder), RECIPES)
    return Path(path) if path else None


def ask_methods(parent: QWidget, folder: Path) -> Path | None:
    """Ask which file to load pruning methods from."""
    path, _ = QFileDialog.getOpenFileName(parent, "Load pruning methods", str(folder), METHODS)
    return Path(path) if path else None


def agree_to_run(parent: QWidget, path: Path) -> bool:
    """Ask whether to run a Python file; anything but a plain yes is a no."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Warning, "Run this file?", "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)  # a file name may look like anything
    box.setText(
        f"Loading pruning methods runs the code in this file:\n\n{path.absolute()}\n\n"
        "It can do whatever you can do on this computer: read, change, delete and send files. "
        "Run it only if you wrote it, or trust whoever did."
    )
    run = box.addButton("&Run and load", QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(button.Cancel))
    box.exec()
    return box.clickedButton() is run


def ask_recipe_target(parent: QWidget, suggested: Path) -> Path | None:
    """Ask where to save the recipe; the dialog confirms overwriting."""
    path, _ = QFileDialog.getSaveFileName(parent, "Save the recipe", str(suggested), RECIPES)
    if not path:
        return None
    target = Path(path)
    return target if target.suffix else target.with_suffix(".yaml")


def pruned_path(checkpoint: Path) -> Path:
    """Return where the pruned form of a checkpoint goes unless the user says otherwise.

    That of shards goes to a folder beside theirs.
    """
    if is_index(checkpoint):
        folder = checkpoint.parent
        return folder.parent / f"{folder.name}-pruned"
    return checkpoint.with_name(f"{checkpoint.stem}-pruned{checkpoint.suffix}")


class SaveDialog(QDialog):
    """Asks for the form of the pruned checkpoint and its file."""

    def __init__(self, checkpoint: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Save pruned checkpoint")
        self._forms = QButtonGroup(self)
        group = QGroupBox("Form")
        rows = QVBoxLayout(group)
        for i, (name, explanation) in enumerate(FORMS.values()):
            button = QRadioButton(name)
            button.setAccessibleDescription(explanation)
            button.setChecked(i == 0)
            self._forms.addButton(button, i)
            label = QLabel(explanation)
            label.setIndent(24)
            rows.addWidget(button)
            rows.addWidget(label)
        self._path = QLineEdit(str(pruned_path(checkpoint)))
        self._path.setMinimumWidth(460)
        label = QLabel("F&ile")
        label.setBuddy(self._path)
        browse = QPushButton("&Browse…")
        browse.setAutoDefault(False)
        browse.clicked.connect(self._browse)
        row = QHBoxLayout()
        row.addWidget(label)
        row.addWidget(self._path)
        row.addWidget(browse)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self._confirm)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(group)
        layout.addLayout(row)
        layout.addWidget(buttons)
        self._path.setFocus()

    @property
    def form(self) -> Form:
        """The form chosen."""
        return list(FORMS)[self._forms.checkedId()]

    @property
    def path(self) -> Path:
        """The file chosen."""
        return Path(self._path.text().strip())

    def _browse(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self,
            "Save pruned checkpoint",
            self._path.text(),
            CHECKPOINTS,
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if path:
            self._path.setText(path)

    def _confirm(self) -> None:
        """Accept, once overwriting is confirmed where there is something to overwrite."""
        if self._path.text().strip() and (
            not _is_taken(self.path) or _sure_to_replace(self, self.path)
        ):
            self.accept()


def _is_taken(path: Path) -> bool:
    """Tell whether there is a file, or a folder with something in it."""
    try:
        return path.is_file() or (path.is_dir() and any(path.iterdir()))
    except OSError:
        return False  # saving will say what is wrong


def _sure_to_replace(parent: QWidget, path: Path) -> bool:
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, "Replace the file?", "", parent=parent)
    box.setText(f"{path.name} exists already. Replace it?")
    box.setInformativeText(str(path.parent))
    replace = box.addButton("&Replace", QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(button.Cancel))
    box.exec()
    return box.clickedButton() is replace


def ask_unsaved(parent: QWidget, name: str) -> QMessageBox.StandardButton:
    """Ask what to do with a recipe that is not saved: Save, Discard or Cancel."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, "Save the recipe?", "", parent=parent)
    box.setText(f"The recipe for {name} is not saved.")
    box.setInformativeText("Its steps are lost if you discard them.")
    box.setStandardButtons(button.Save | button.Discard | button.Cancel)
    box.button(button.Save).setText("&Save recipe…")
    box.setDefaultButton(button.Save)
    return button(box.exec())


def ask_cancel_saving(parent: QWidget) -> bool:
    """Ask whether to give up a file that is being written."""
    box = QMessageBox(QMessageBox.Icon.Question, "Stop saving?", "", parent=parent)
    box.setText("A checkpoint is being saved. Stop it and close?")
    box.setInformativeText("What was there before stays as it was.")
    stop = box.addButton("&Stop and close", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton("&Go on saving", QMessageBox.ButtonRole.RejectRole)
    box.exec()
    return box.clickedButton() is stop


class ErrorBox:
    """Shows errors in one message box: what comes while it is open is added to it."""

    def __init__(self, parent: QWidget) -> None:
        self._parent = parent
        self._box: QMessageBox | None = None
        self._texts: list[str] = []

    def show(self, text: str) -> None:
        """Show a text, unless it is being shown already."""
        if self._box is None:
            self._texts = []
            box = QMessageBox(QMessageBox.Icon.Warning, "Prune GUI", "", parent=self._parent)
            box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            box.setTextFormat(Qt.TextFormat.PlainText)
            box.finished.connect(self._closed)
            self._box = box
        if text not in self._texts:
            self._texts.append(text)
            self._box.setText("\n\n".join(self._texts))
        self._box.open()

    def _closed(self) -> None:
        self._box = None


def show_remarks(parent: QWidget, name: str, remarks: Sequence[str]) -> None:
    """Say what a person should know about a file."""
    box = QMessageBox(QMessageBox.Icon.Information, name, "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText("\n\n".join(remarks))
    box.exec()


def show_about(parent: QWidget) -> None:
    """Say what this program is made of."""
    packages = ("prune-gui", "torch", "safetensors", "numpy", "numba", "PySide6-Essentials")
    lines = [f"{package} {version(package)}" for package in packages]
    lines += [f"Qt {qVersion()}", f"Python {platform.python_version()} on {platform.platform()}"]
    box = QMessageBox(QMessageBox.Icon.NoIcon, "About Prune GUI", "", parent=parent)
    box.setIconPixmap(parent.windowIcon().pixmap(64))
    box.setText("<b>Prune GUI</b><br>Prune neural networks by point and click.")
    box.setInformativeText("\n".join(lines))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.exec()
