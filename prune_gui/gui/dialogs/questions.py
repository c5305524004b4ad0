"""File dialogs, questions, error messages and the About box."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.errors import one_line
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.evaluation.spec import EvaluatorSpec
    from prune_gui.session import Crash

OPEN_FOLDER: Final = deferred("Open a folder with a checkpoint")
MAX_PATH: Final = 4096
"""Limit of a shown path in characters. A path to be run is shown completely."""
RECIPES: Final = deferred("Recipes (*.yaml *.yml);;All files (*)")
SAVED_RECIPES: Final = deferred("Recipes (*.yaml *.yml)")
ARCHITECTURES: Final = deferred("Architecture tables (*.yaml *.yml);;All files (*)")
TABLES: Final = deferred("Tables (*.csv)")
METHODS: Final = deferred("Python files (*.py);;All files (*)")
"""File filters of dialogs, to be translated except for the patterns in brackets."""
PICTURES: Final[dict[str, tuple[str, int]]] = {
    deferred("PNG (*.png)"): ("png", 1),
    deferred("PNG, double resolution (*.png)"): ("png", 2),
    deferred("SVG (*.svg)"): ("svg", 1),
}
"""File filters of pictures: suffix, and number of image pixels per screen pixel and side."""


def checkpoint_filter(*further_patterns: str) -> str:
    """Return the file filter of checkpoints, with further patterns of file names."""
    patterns = [*(f"*{suffix}" for suffix in known_suffixes()), *further_patterns]
    return tr("Checkpoints ({patterns});;All files (*)", patterns=" ".join(patterns))


def ask_checkpoint(parent: QWidget, folder: Path) -> Path | None:
    """Ask which checkpoint to open."""
    path, _ = QFileDialog.getOpenFileName(
        parent, tr("Open a checkpoint"), str(folder), checkpoint_filter("*.index*.json")
    )
    return Path(path) if path else None


def ask_checkpoints(parent: QWidget, folder: Path) -> list[Path]:
    """Ask which checkpoints to add."""
    paths, _ = QFileDialog.getOpenFileNames(
        parent, tr("Add checkpoints"), str(folder), checkpoint_filter("*.index*.json")
    )
    return [Path(path) for path in paths]


def ask_folder(parent: QWidget, folder: Path, title: str = OPEN_FOLDER) -> Path | None:
    """Ask which folder with a checkpoint to open; `title` is to be translated."""
    path = QFileDialog.getExistingDirectory(parent, tr(title), str(folder))
    return Path(path) if path else None


def ask_masks(parent: QWidget, folder: Path) -> Path | None:
    """Ask which file of masks to use."""
    path, _ = QFileDialog.getOpenFileName(
        parent, tr("Use a masks file as a step"), str(folder), checkpoint_filter("*.index*.json")
    )
    return Path(path) if path else None


def ask_use_masks(parent: QWidget, path: Path, name: str) -> bool | None:
    """Ask what to do with a file of masks that fit the open checkpoint `name`."""
    role = QMessageBox.ButtonRole
    box = QMessageBox(QMessageBox.Icon.Question, tr("Use these masks?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(
        tr("{masks} holds masks for {name}.", masks=one_line(path.name), name=one_line(name))
    )
    box.setInformativeText(tr("A step prunes the weights where they are 0. It can be undone."))
    use = box.addButton(tr("&Use as a step"), role.AcceptRole)
    instead = box.addButton(tr("&Open instead"), role.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(use)
    box.exec()
    clicked = box.clickedButton()
    return clicked is use if clicked in (use, instead) else None


def ask_recipe(parent: QWidget, folder: Path) -> Path | None:
    """Ask which recipe to open."""
    path, _ = QFileDialog.getOpenFileName(parent, tr("Open a recipe"), str(folder), tr(RECIPES))
    return Path(path) if path else None


def ask_methods(parent: QWidget, folder: Path) -> Path | None:
    """Ask which file to load pruning methods from."""
    path, _ = QFileDialog.getOpenFileName(
        parent, tr("Load pruning methods"), str(folder), tr(METHODS)
    )
    return Path(path) if path else None


def ask_table(parent: QWidget, folder: Path) -> Path | None:
    """Ask which table of the architecture to use."""
    path, _ = QFileDialog.getOpenFileName(
        parent, tr("Use architecture table"), str(folder), tr(ARCHITECTURES)
    )
    return Path(path) if path else None


def agree_to_run(parent: QWidget, path: Path) -> bool:
    """Ask whether to run a Python file; return True only if the user clicks Run."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Warning, tr("Run this file?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)  # a file name may look like anything
    box.setText(
        tr(
            "Loading pruning methods runs the code in this file:\n\n{path}\n\n"
            "It can do whatever you can do on this computer: read, change, delete and send files. "
            "Run it only if you wrote it, or trust whoever did.",
            path=one_line(str(path.absolute()), MAX_PATH),
        )
    )
    run = box.addButton(tr("&Run and load"), QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(button.Cancel))
    box.exec()
    return box.clickedButton() is run


def ask_evaluator(parent: QWidget, folder: Path) -> Path | None:
    """Ask which Python file has the function of an evaluator."""
    path, _ = QFileDialog.getOpenFileName(
        parent, tr("Choose an evaluator"), str(folder), tr(METHODS)
    )
    return Path(path) if path else None


def agree_to_evaluate(parent: QWidget, spec: EvaluatorSpec) -> bool:
    """Ask whether to run an evaluator; return True only if the user clicks Run."""
    box = QMessageBox(QMessageBox.Icon.Warning, tr("Run this evaluator?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)  # a command may look like anything
    what = one_line(spec.text, MAX_PATH)
    if spec.path is not None:
        what = tr("{evaluator}\nwith {python}", evaluator=what, python=one_line(spec.python))
    box.setText(
        tr(
            "Evaluating runs this with all your rights:\n\n{what}\n\nSHA-256 {digest}\n\n"
            "It can read, change, delete and send your files. Run it only if you wrote it, or "
            "trust whoever did. You are asked again if it changes.",
            what=what,
            digest=spec.code_digest(),
        )
    )
    run = box.addButton(tr("&Run"), QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    return box.clickedButton() is run


def ask_recipe_target(parent: QWidget, suggested: Path) -> Path | None:
    """Ask where to save the recipe; the dialog confirms overwriting."""
    kinds = {tr(SAVED_RECIPES): "yaml"}  # all files would offer checkpoints
    target = _ask_target(parent, tr("Save the recipe"), suggested, kinds)
    return target[0] if target else None


def ask_picture_target(parent: QWidget, suggested: Path) -> tuple[Path, int] | None:
    """Ask where to save a picture, and at which scale; the dialog confirms overwriting."""
    kinds = {tr(kind): suffix for kind, (suffix, _) in PICTURES.items()}
    target = _ask_target(parent, tr("Save the picture"), suggested, kinds)
    if target is None:
        return None
    path, chosen = target
    return path, next(scale for kind, (_, scale) in PICTURES.items() if tr(kind) == chosen)


def ask_table_target(parent: QWidget, suggested: Path) -> Path | None:
    """Ask where to save a table; the dialog confirms overwriting."""
    kinds = {tr(TABLES): "csv"}
    target = _ask_target(parent, tr("Save the table"), suggested, kinds)
    return target[0] if target else None


def _ask_target(
    parent: QWidget, title: str, suggested: Path, kinds: Mapping[str, str]
) -> tuple[Path, str] | None:
    """Ask where to save a file, and return its path and the chosen file filter.

    A name without a suffix gets the suffix of the filter before the dialog checks for an existing
    file. `QFileDialog.getSaveFileName` would check the name as typed.
    """
    dialog = QFileDialog(parent, title, str(suggested.parent))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(list(kinds))
    dialog.filterSelected.connect(lambda kind: dialog.setDefaultSuffix(kinds[kind]))
    dialog.setDefaultSuffix(next(iter(kinds.values())))
    dialog.selectFile(suggested.name)
    accepted = dialog.exec()
    dialog.deleteLater()
    return (Path(dialog.selectedFiles()[0]), dialog.selectedNameFilter()) if accepted else None


def agree(parent: QWidget, title: str, text: str, yes: str) -> bool:
    """Ask whether to do something irreversible; return True only if the user clicks `yes`."""
    box = QMessageBox(QMessageBox.Icon.Question, title, "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)  # a name in it may look like anything
    box.setText(one_line(text))
    agreed = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    return box.clickedButton() is agreed


def ask_unsaved(parent: QWidget, name: str) -> QMessageBox.StandardButton:
    """Ask what to do with an unsaved recipe; return Save, Discard or Cancel."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, tr("Save the recipe?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(tr("The recipe for {name} is not saved.", name=one_line(name)))
    box.setInformativeText(tr("Its steps are lost if you discard them."))
    box.setStandardButtons(button.Save | button.Discard | button.Cancel)
    box.button(button.Save).setText(tr("&Save recipe…"))
    box.setDefaultButton(button.Save)
    return button(box.exec())


def ask_cancel_saving(parent: QWidget) -> bool:
    """Ask whether to stop writing a checkpoint."""
    box = QMessageBox(QMessageBox.Icon.Question, tr("Stop saving?"), "", parent=parent)
    box.setText(tr("A checkpoint is being saved. Stop it and close?"))
    box.setInformativeText(tr("Existing files are not changed."))
    stop = box.addButton(tr("&Stop and close"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(tr("Continue savin&g"), QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is stop


class ErrorBox:
    """Shows errors in one message box; errors that occur while it is open are added.

    The details contain the log entry of each error. Copy copies the details.
    """

    def __init__(self, parent: QWidget) -> None:
        self._parent = parent
        self._box: QMessageBox | None = None
        self._details: dict[str, str] = {}

    def show(self, text: str, details: str) -> None:
        """Show an error, unless its text is already shown."""
        if self._box is None:
            self._details = {}
            self._box = self._make_box()
        if text not in self._details:
            self._details[text] = details
            self._box.setText("\n\n".join(self._details))
            self._box.setDetailedText("\n\n".join(self._details.values()))
        self._box.open()

    def _make_box(self) -> QMessageBox:
        box = QMessageBox(QMessageBox.Icon.Warning, "Prune GUI", "", parent=self._parent)
        # A native dialog closes on every button.
        box.setOption(QMessageBox.Option.DontUseNativeDialog)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setTextFormat(Qt.TextFormat.PlainText)
        close = box.addButton(QMessageBox.StandardButton.Ok)
        box.setDefaultButton(close)
        box.setEscapeButton(close)
        copy = box.addButton(tr("&Copy"), QMessageBox.ButtonRole.ActionRole)
        copy.clicked.disconnect()  # the box would close
        copy.clicked.connect(self._copy)
        box.finished.connect(self._closed)
        return box

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText("\n\n".join(self._details.values()))

    def _closed(self) -> None:
        self._box = None


def show_remarks(parent: QWidget, name: str, remarks: Sequence[str]) -> None:
    """Show the remarks on a checkpoint file."""
    box = QMessageBox(QMessageBox.Icon.Information, one_line(name), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText("\n\n".join(map(one_line, remarks)))
    box.exec()


def show_crash(parent: QWidget, crash: Crash) -> None:
    """Show a crash report, and copy it to the clipboard if the user clicks Copy."""
    box = QMessageBox(QMessageBox.Icon.Information, tr("Last crash"), "", parent=parent)
    box.setText(tr("Prune GUI crashed at {when:%H:%M} on {when:%d %B %Y}.", when=crash.when))
    box.setInformativeText(
        tr("To report it, please include the text that Copy puts on the clipboard.")
    )
    box.setDetailedText(crash.text)
    copy = box.addButton(tr("&Copy"), QMessageBox.ButtonRole.AcceptRole)
    box.setEscapeButton(box.addButton(QMessageBox.StandardButton.Close))
    box.setDefaultButton(copy)
    box.exec()
    if box.clickedButton() is copy:
        QGuiApplication.clipboard().setText("\n".join([crash.text, *_versions()]))


def show_about(parent: QWidget) -> None:
    """Show the About box with the versions of the libraries."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, tr("About Prune GUI"), "", parent=parent)
    box.setIconPixmap(parent.windowIcon().pixmap(64))
    purpose = tr("Prune neural networks by point and click.")
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(f"<b>Prune GUI</b><br>{purpose}")
    box.setInformativeText("\n".join(_versions()))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.exec()


def _versions() -> list[str]:
    from importlib.metadata import version  # not needed at startup

    packages = ("prune-gui", "torch", "safetensors", "numpy", "numba", "PySide6-Essentials")
    lines = [f"{package} {version(package)}" for package in packages]
    return [
        *lines,
        f"Qt {qVersion()}",
        f"Python {platform.python_version()} on {platform.platform()}",
    ]
