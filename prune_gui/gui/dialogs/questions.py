"""File dialogs, questions and error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.errors import one_line
from prune_gui.gui.formatting import breakable
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.evaluation.spec import EvaluatorSpec

MAX_PATH: Final = 4096
"""Limit of a shown path in characters. A path to be run is shown completely."""
PYTHON_FILES: Final = deferred("Python files (*.py);;All files (*)")
OPEN_FOLDER: Final = deferred("Open a folder with a checkpoint")
Icon = QMessageBox.Icon
Role = QMessageBox.ButtonRole
Standard = QMessageBox.StandardButton
Button = tuple[Role | Standard, str]
"""A button: its place, and its text; "" for the text of a standard button."""
CANCEL: Final[Button] = (Standard.Cancel, "")


class FileQuestion(NamedTuple):
    """A question for a file, to be translated, but for the patterns in brackets."""

    title: str
    kinds: str = ""  # the file filter; "" for checkpoints
    suffix: str = ""  # that a name without a suffix gets, for a file to be saved


CHECKPOINT: Final = FileQuestion(deferred("Open a checkpoint"))
REFERENCE: Final = FileQuestion(deferred("Choose the reference: the checkpoint before pruning"))
MASKS: Final = FileQuestion(deferred("Use a masks file as a step"))
RECIPE: Final = FileQuestion(
    deferred("Open a recipe"), deferred("Recipes (*.yaml *.yml);;All files (*)")
)
METHODS: Final = FileQuestion(deferred("Load pruning methods"), PYTHON_FILES)
ARCHITECTURE: Final = FileQuestion(
    deferred("Use architecture table"),
    deferred("Architecture tables (*.yaml *.yml);;All files (*)"),
)
NETWORK: Final = FileQuestion(deferred("Trace the network that a file builds"), PYTHON_FILES)
TRACED_TABLE: Final = FileQuestion(
    deferred("Save the architecture table"), deferred("Architecture tables (*.yaml *.yml)"), "yaml"
)
EVALUATOR: Final = FileQuestion(deferred("Choose an evaluator"), PYTHON_FILES)
NEW_EVALUATOR: Final = FileQuestion(
    deferred("New evaluator"), deferred("Python files (*.py)"), "py"
)
SAVED_RECIPE: Final = FileQuestion(  # all files would offer checkpoints
    deferred("Save the recipe"), deferred("Recipes (*.yaml *.yml)"), "yaml"
)
FIGURE: Final = deferred("Export the figure")
FIGURES: Final = (
    FileQuestion(FIGURE, deferred("PDF (*.pdf)"), "pdf"),
    FileQuestion(FIGURE, deferred("SVG (*.svg)"), "svg"),
    FileQuestion(FIGURE, deferred("PNG (*.png)"), "png"),
)
SAVED_TABLE: Final = FileQuestion(deferred("Save the table"), deferred("Tables (*.csv)"), "csv")


def checkpoint_filter(*further_patterns: str) -> str:
    """Return the file filter of checkpoints, with further patterns of file names."""
    patterns = [*(f"*{suffix}" for suffix in known_suffixes()), *further_patterns]
    return tr("Checkpoints ({patterns});;All files (*)", patterns=" ".join(patterns))


def ask_file(parent: QWidget, question: FileQuestion, folder: Path) -> Path | None:
    """Ask which file to open."""
    kinds = tr(question.kinds) if question.kinds else checkpoint_filter("*.index*.json")
    path, _ = QFileDialog.getOpenFileName(parent, tr(question.title), str(folder), kinds)
    return Path(path) if path else None


def ask_checkpoint(parent: QWidget, folder: Path) -> Path | None:
    """Ask which checkpoint to open."""
    return ask_file(parent, CHECKPOINT, folder)


def ask_checkpoints(parent: QWidget, folder: Path) -> list[Path]:
    """Ask which checkpoints to add."""
    kinds = checkpoint_filter("*.index*.json")
    paths, _ = QFileDialog.getOpenFileNames(parent, tr("Add checkpoints"), str(folder), kinds)
    return [Path(path) for path in paths]


def ask_folder(parent: QWidget, folder: Path, title: str = OPEN_FOLDER) -> Path | None:
    """Ask which folder to open; `title` is to be translated."""
    path = QFileDialog.getExistingDirectory(parent, tr(title), str(folder))
    return Path(path) if path else None


def ask_target(parent: QWidget, question: FileQuestion, suggested: Path) -> Path | None:
    """Ask where to save a file; the dialog confirms overwriting.

    A name without a suffix gets it before the dialog checks for an existing file.
    `QFileDialog.getSaveFileName` would check the name as typed.
    """
    dialog = QFileDialog(parent, tr(question.title), str(suggested.parent), tr(question.kinds))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(question.suffix)
    dialog.selectFile(suggested.name)
    accepted = dialog.exec()
    dialog.deleteLater()
    return Path(dialog.selectedFiles()[0]) if accepted else None


def ask_output(parent: QWidget, title: str, start: str, kinds: str) -> str:
    """Ask where to write, and let `parent` decide about existing files; "" if cancelled."""
    unasked = QFileDialog.Option.DontConfirmOverwrite
    return QFileDialog.getSaveFileName(parent, title, start, kinds, options=unasked)[0]


def ask(
    parent: QWidget,
    title: str,
    text: str,
    buttons: Mapping[str, Button],
    *,
    default: str,
    escape: str = "",
    details: str = "",
    icon: Icon = Icon.Question,
) -> str:
    """Ask a question, and return the name of the clicked button; "" if none was clicked."""
    box = _plain_box(parent, icon, title, text)
    box.setInformativeText(breakable(details))
    made = {}
    for name, (place, label) in buttons.items():
        if isinstance(place, Standard):
            made[name] = box.addButton(place)
            if label:
                made[name].setText(label)
        else:
            made[name] = box.addButton(label, place)
    box.setDefaultButton(made[default])
    if escape:
        box.setEscapeButton(made[escape])
    box.exec()
    clicked = box.clickedButton()
    box.deleteLater()
    return next((name for name, button in made.items() if button is clicked), "")


def _plain_box(parent: QWidget, icon: Icon, title: str, text: str) -> QMessageBox:
    """Return a box that shows a text as it is: a name in it may look like anything."""
    box = QMessageBox(icon, title, "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(breakable(text))
    return box


def agree(
    parent: QWidget, title: str, text: str, yes: str, details: str = "", icon: Icon = Icon.Question
) -> bool:
    """Ask whether to do something irreversible; return True only if the user clicks `yes`."""
    buttons = {"yes": (Role.AcceptRole, yes), "cancel": CANCEL}
    return ask(parent, title, text, buttons, default="cancel", details=details, icon=icon) == "yes"


def ask_use_masks(parent: QWidget, path: Path, name: str) -> bool | None:
    """Ask what to do with a file of masks that fit the open checkpoint `name`."""
    answer = ask(
        parent,
        tr("Use these masks?"),
        tr("{masks} holds masks for {name}.", masks=one_line(path.name), name=one_line(name)),
        {
            "use": (Role.AcceptRole, tr("&Use as a step")),
            "open": (Role.DestructiveRole, tr("&Open instead")),
            "cancel": CANCEL,
        },
        default="use",
        details=tr("A step prunes the weights where they are 0. It can be undone."),
    )
    return answer == "use" if answer in ("use", "open") else None


def agree_to_run(parent: QWidget, path: Path) -> bool:
    """Ask whether to run a Python file."""
    text = tr(
        "Loading pruning methods runs the code in this file:\n\n{path}\n\n"
        "It can do whatever you can do on this computer: read, change, delete and send files. "
        "Run it only if you wrote it, or trust whoever did.",
        path=one_line(str(path.absolute()), MAX_PATH),
    )
    return agree(parent, tr("Run this file?"), text, tr("&Run and load"), icon=Icon.Warning)


def agree_to_trace(parent: QWidget, path: Path) -> bool:
    """Ask whether to run the code of a network."""
    text = tr(
        "Tracing runs the function build of this file with all your rights:\n\n{path}\n\n"
        "It returns the network and an example input. Run it only if you wrote it, or trust "
        "whoever did.",
        path=one_line(str(path.absolute()), MAX_PATH),
    )
    return agree(parent, tr("Run this file?"), text, tr("&Run and trace"), icon=Icon.Warning)


def tell_unknown(parent: QWidget, unknown: Sequence[str]) -> None:
    """Tell what tracing did not understand, if anything."""
    if unknown:
        buttons = {"ok": (Standard.Ok, "")}
        text = tr("The table is used. Some units are not in it, and stay.")
        ask(parent, tr("Traced"), text, buttons, default="ok", details="\n\n".join(unknown))


def agree_to_evaluate(parent: QWidget, spec: EvaluatorSpec) -> bool:
    """Ask whether to run an evaluator."""
    what = one_line(spec.text, MAX_PATH)
    if spec.path is not None:
        what = tr("{evaluator}\nwith {python}", evaluator=what, python=one_line(spec.python))
    text = tr(
        "Evaluating runs this with all your rights:\n\n{what}\n\nSHA-256 {digest}\n\n"
        "It can read, change, delete and send your files. Run it only if you wrote it, or "
        "trust whoever did. You are asked again if it changes.",
        what=what,
        digest=spec.code_digest(),
    )
    return agree(parent, tr("Run this evaluator?"), text, tr("&Run"), icon=Icon.Warning)


def ask_unsaved(parent: QWidget, name: str, draft: str = "") -> str:
    """Ask about an unsaved recipe; return "save", "checkpoint", "discard" or "cancel".

    `draft` says what is lost with each but "cancel", because it is no step yet.
    """
    lost = tr("What was changed is lost if you discard it.")
    return ask(
        parent,
        tr("Save the recipe?"),
        tr("The recipe for {name} is not saved.", name=one_line(name)),
        {
            "save": (Standard.Save, tr("&Save recipe…")),
            "checkpoint": (Role.AcceptRole, tr("Save &pruned checkpoint…")),
            "discard": (Standard.Discard, tr("&Discard")),
            "cancel": CANCEL,
        },
        default="save",
        details="\n\n".join(filter(None, (lost, draft))),
    )


def agree_to_drop_draft(parent: QWidget, draft: str) -> bool:
    """Ask whether to drop a draft; `draft` says which."""
    return agree(parent, tr("Discard the draft?"), draft, tr("&Discard"))


def ask_cancel_saving(parent: QWidget) -> bool:
    """Ask whether to stop writing a checkpoint."""
    buttons = {
        "stop": (Role.DestructiveRole, tr("&Stop and close")),
        "continue": (Role.RejectRole, tr("Continue savin&g")),
    }
    text = tr("A checkpoint is being saved. Stop it and close?")
    details = tr("Existing files are not changed.")
    title = tr("Stop saving?")
    return ask(parent, title, text, buttons, default="continue", details=details) == "stop"


def open_outside(parent: QWidget, link: QUrl) -> None:
    """Open a file, a folder or a page with the program of the system, or say that none does."""
    if not QDesktopServices.openUrl(link):
        place = link.toLocalFile() if link.isLocalFile() else link.toString()
        text = tr("No program of this system opens it. It is here:\n\n{place}", place=place)
        box = _plain_box(parent, Icon.Information, "Prune GUI", "")
        box.setText(text)  # as it is, to be copied
        box.addButton(Standard.Ok)
        box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        box.exec()
        box.deleteLater()


def show_remarks(parent: QWidget, name: str, remarks: Sequence[str]) -> None:
    """Show the remarks on a checkpoint file."""
    text = "\n\n".join(map(one_line, remarks))
    _plain_box(parent, Icon.Information, one_line(name), text).exec()


class ErrorBox:
    """Shows errors in one message box; errors that occur while it is open are added."""

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
            self._box.setText(breakable("\n\n".join(self._details)))
            self._box.setDetailedText("\n\n".join(self._details.values()))
        self._box.open()

    def _make_box(self) -> QMessageBox:
        box = _plain_box(self._parent, Icon.Warning, "Prune GUI", "")
        # A native dialog closes on every button.
        box.setOption(QMessageBox.Option.DontUseNativeDialog)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        close = box.addButton(Standard.Ok)
        box.setDefaultButton(close)
        box.setEscapeButton(close)
        copy = box.addButton(tr("&Copy"), Role.ActionRole)
        copy.clicked.disconnect()  # the box would close
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(box.detailedText()))
        box.finished.connect(self._closed)
        return box

    def _closed(self) -> None:
        self._box = None
