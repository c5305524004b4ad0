"""The dialog that saves a pruned checkpoint: in which form, how large, in which files, where."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
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

from prune_gui.byte_counts import parse_bytes, short_bytes
from prune_gui.checkpoint.base import SUFFIXES
from prune_gui.checkpoint.sharded.index import is_index
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs.loader_box import LoaderBox
from prune_gui.gui.dialogs.questions import CHECKPOINTS
from prune_gui.gui.widgets.message import Message
from prune_gui.language import clauses, later, tr, trn

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Form, OutputPath, Size
    from prune_gui.recipe.sizes import Sizes

FORMS: Final[dict[Form, tuple[str, str]]] = {
    "finalized": (
        later("&Finalized"),
        later(
            "Same names and types; pruned entries are exactly zero. "
            "For whatever loads the original."
        ),
    ),
    "reparametrized": (
        later("&Reparametrized"),
        later(
            "X_orig and X_mask in place of each pruned X. For going on with torch.nn.utils.prune."
        ),
    ),
    "masks": (
        later("&Masks"),
        later(
            "A boolean tensor for each pruned parameter. For pruning the same entries elsewhere."
        ),
    ),
}
"""The forms of a pruned checkpoint: their names and what they are for, to be translated."""
ABOUT_ZEROS: Final = later(
    "Zeros take as much room as other numbers: a pruned file is smaller only once compressed."
)
SHARD_SIZE: Final = "5 GB"
"""As Hugging Face splits."""
UNKNOWN: Final = later("working out…")


def pruned_path(checkpoint: Path) -> Path:
    """Return where the pruned form of a checkpoint goes unless the user says otherwise.

    That of shards goes to a folder beside theirs.
    """
    if is_index(checkpoint):
        folder = checkpoint.parent
        return folder.parent / f"{folder.name}-pruned"
    return checkpoint.with_name(f"{checkpoint.stem}-pruned{checkpoint.suffix}")


class SaveDialog(QDialog):
    """Asks for the form of the pruned checkpoint, its shards and its place.

    While it is shown, it has the engine work out how large each form will be.

    Args:
        workbench: with an open session.
        suggested: where the checkpoint goes unless the user says otherwise.
        form: likewise, its form.
    """

    def __init__(
        self,
        workbench: Workbench,
        suggested: Path,
        form: Form = "finalized",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Save pruned checkpoint"))
        self._workbench = workbench
        self._suffix = suggested.suffix if suggested.suffix.lower() in SUFFIXES else ""
        self._target: OutputPath | None = None
        self._measured: OutputPath | None = None
        self._ticket: int | None = None
        self._sizes: Sizes = {}
        self._replaces = False
        self._forms = QButtonGroup(self)
        self._figures: dict[Form, tuple[QLabel, QLabel]] = {}
        forms = self._make_forms(form)
        self._split = QCheckBox(tr("S&plit into shards of at most"))
        self._shard_size = QLineEdit(SHARD_SIZE)
        self._path = QLineEdit(str(suggested))
        place = self._make_place()
        draft = Message()
        if workbench.draft is not None:
            draft.say(tr("What the form previews is not saved: add or apply the step first."))
        self._problem = Message()
        self._room = Message()
        self._loader = LoaderBox()
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Save | standard.Cancel)
        buttons.accepted.connect(self._confirm)
        buttons.rejected.connect(self.reject)
        self._save = buttons.button(standard.Save)
        layout = QVBoxLayout(self)
        for part in (forms, self._loader, place, draft, self._problem, self._room, buttons):
            layout.addWidget(part)
        self._forms.idToggled.connect(self._refresh)
        self._split.toggled.connect(self._change_files)
        self._shard_size.textChanged.connect(self._refresh)
        self._path.textChanged.connect(self._refresh)
        self._refresh()
        self._path.setFocus()

    @property
    def form(self) -> Form:
        """The form chosen."""
        return list(FORMS)[self._forms.checkedId()]

    @property
    def path(self) -> Path:
        """The file or folder chosen."""
        return Path(self._path.text().strip())

    @property
    def shard_size(self) -> int | None:
        """The most bytes of a shard; None if the checkpoint is not to be split anew.

        Raises:
            ValueError: what was typed is no size; says so in a sentence.
        """
        return parse_bytes(self._shard_size.text().strip()) if self._split.isChecked() else None

    @property
    def replaces(self) -> bool:
        """Whether the user has agreed to replace what is there."""
        return self._replaces

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Begin to work out sizes."""
        super().showEvent(event)
        self._measure()

    def done(self, result: int) -> None:
        """Close, and stop what is still being worked out."""
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)
        self._measured = None
        super().done(result)

    def _make_forms(self, chosen: Form) -> QWidget:
        group = QGroupBox(tr("Form"))
        grid = QGridLayout(group)
        grid.setColumnStretch(0, 1)
        grid.setHorizontalSpacing(24)
        for i, (form, (name, explanation)) in enumerate(FORMS.items()):
            button = QRadioButton(tr(name))
            button.setChecked(form == chosen)
            self._forms.addButton(button, i)
            label = QLabel(tr(explanation))
            label.setIndent(24)
            figures = QLabel(), QLabel()
            self._figures[form] = figures
            grid.addWidget(button, 2 * i, 0)
            for column, figure in enumerate(figures, start=1):
                grid.addWidget(figure, 2 * i, column, Qt.AlignmentFlag.AlignRight)
            grid.addWidget(label, 2 * i + 1, 0, 1, 3)
        note = QLabel(tr(ABOUT_ZEROS))
        note.setForegroundRole(note.palette().ColorRole.PlaceholderText)
        grid.addWidget(note, 2 * len(FORMS), 0, 1, 3)
        return group

    def _make_place(self) -> QWidget:
        place = QWidget()
        grid = QGridLayout(place)
        grid.setContentsMargins(0, 0, 0, 0)
        label = QLabel(tr("F&ile"))
        label.setBuddy(self._path)
        self._path.setAccessibleName(tr("File or folder to save to"))
        self._path.setMinimumWidth(460)
        browse = QPushButton(tr("&Browse…"))
        browse.setAutoDefault(False)
        browse.clicked.connect(self._browse)
        self._shard_size.setAccessibleName(tr("Largest shard"))
        self._shard_size.setEnabled(False)
        self._shard_size.setMaximumWidth(100)
        session = self._workbench.session
        if session is not None and is_index(session.checkpoint.path):
            self._split.setText(tr("S&plit anew, into shards of at most"))
            self._split.setToolTip(tr("Otherwise into shards like those of the input"))
        shards = QHBoxLayout()
        shards.addWidget(self._split)
        shards.addWidget(self._shard_size)
        shards.addStretch()
        grid.addWidget(label, 0, 0)
        grid.addWidget(self._path, 0, 1)
        grid.addWidget(browse, 0, 2)
        grid.addLayout(shards, 1, 1, 1, 2)
        return place

    def _change_files(self, split: bool) -> None:
        """Call the file a folder, or a file again."""
        path = self._path.text().strip()
        suffix = Path(path).suffix
        self._shard_size.setEnabled(split)
        if split and suffix.lower() in SUFFIXES:
            self._suffix = suffix
            path = path.removesuffix(suffix)
        elif not split and self._suffix and suffix.lower() not in SUFFIXES:
            path += self._suffix
        self._path.setText(path)
        self._refresh()

    def _refresh(self) -> None:
        """Show what the choices come to."""
        self._target, problem = self._read()
        self._problem.say(problem)
        self._save.setEnabled(self._target is not None)
        self._measure()
        self._show_loader()
        self._show_room()

    def _read(self) -> tuple[OutputPath | None, str]:
        """Return what was chosen, or None and what is wrong with it."""
        from prune_gui.recipe import OutputPath  # loads torch, for which the window does not wait

        session = self._workbench.session
        if session is None or not self._path.text().strip():
            return None, tr("Give the name of a file.")
        try:
            return OutputPath.of(session.checkpoint, self.path, self.shard_size), ""
        except (ValueError, PruneGuiError) as error:
            return None, str(error)

    def _measure(self) -> None:
        """Have sizes worked out, unless they are, or are being, for files of this kind."""
        target = self._target
        if target is None or not self.isVisible() or _same_kind(target, self._measured):
            return
        self._measured = target
        self._sizes = {}
        self._show_sizes()
        self._ticket = self._workbench.measure(
            target,
            lambda sizes: self._set_sizes(target, sizes),
            lambda error: self._fail(target, error),
        )

    def _set_sizes(self, target: OutputPath, sizes: Sizes) -> None:
        if target is self._measured:  # else they are those of earlier choices
            self._sizes = sizes
            self._show_sizes()
            self._show_room()

    def _fail(self, target: OutputPath, error: BaseException) -> None:
        if target is self._measured:
            self._measured = None  # so that the next change tries again, and says so again
            self._problem.say(str(error))
            for figures in self._figures.values():
                figures[0].setText(tr("unknown"))

    def _show_sizes(self) -> None:
        for button, form in zip(self._forms.buttons(), FORMS, strict=True):
            size = self._sizes.get(form)
            texts = (tr("cannot be saved"), "") if isinstance(size, PruneGuiError) else _texts(size)
            for label, text in zip(self._figures[form], texts, strict=True):
                label.setText(text)
            button.setToolTip(str(size) if isinstance(size, PruneGuiError) else "")
            told = clauses(texts)
            button.setAccessibleDescription(
                tr("{explanation} {figures}.", explanation=tr(FORMS[form][1]), figures=told)
            )

    def _show_loader(self) -> None:
        session = self._workbench.session
        shown = self.form == "reparametrized"
        changed = shown == self._loader.isHidden()
        self._loader.setVisible(shown)
        if shown and session is not None and self._target is not None:
            self._loader.show_for(session.checkpoint, self._target)
        if changed:
            self.adjustSize()

    def _show_room(self) -> None:
        """Say whether the disk has room, and why the form chosen cannot be saved if it cannot."""
        size = self._sizes.get(self.form)
        if isinstance(size, PruneGuiError):
            self._room.say(str(size))
        elif self._target is None or (room := _room_for(self._target.path)) is None:
            self._room.say("")
        else:
            folder, free = room
            short = size is not None and size.nbytes > free
            space = short_bytes(free)
            text = (
                tr("No room: {size} free in {folder}", size=space, folder=folder)
                if short
                else tr("{size} free in {folder}", size=space, folder=folder)
            )
            self._room.say(text, warning=short)

    def _browse(self) -> None:
        """Ask for the file, or the folder, in the dialog that every program has for it."""
        path, _ = QFileDialog.getSaveFileName(
            self,
            tr("Save pruned checkpoint"),
            self._path.text(),
            tr(CHECKPOINTS),
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if path:
            self._path.setText(path)

    def _confirm(self) -> None:
        """Accept, once overwriting is confirmed where there is something to overwrite."""
        if self._target is None:
            return
        taken = [path for path in self._outputs(self._target) if _is_taken(path)]
        session = self._workbench.session
        opened = session.checkpoint.path if session is not None else None
        if not taken or _sure_to_replace(self, taken, opened):
            self._replaces = bool(taken)
            self.accept()

    def _outputs(self, target: OutputPath) -> list[Path]:
        if self.form != "reparametrized" or target.is_folder:
            return [target.path]
        from prune_gui.recipe import loader_path

        return [target.path, loader_path(target)]


def _same_kind(one: OutputPath, other: OutputPath | None) -> bool:
    """Tell whether what goes to two targets is of the same size."""
    return other is not None and (one.is_folder, one.format, one.shard_size) == (
        other.is_folder,
        other.format,
        other.shard_size,
    )


def _texts(size: Size | None) -> tuple[str, str]:
    """Return how large a form is, and what compression would leave."""
    if size is None:
        return tr(UNKNOWN), ""
    zipped = tr(
        "about {share:.0f} % with zip ({size})",
        share=100 * size.share,
        size=short_bytes(size.compressed),
    )
    return trn("{count:,} byte", "{count:,} bytes", size.nbytes), zipped


def _room_for(path: Path) -> tuple[Path, int] | None:
    """Return the folder in which a path lies or would be made, and the bytes free there."""
    try:
        folder = next(folder for folder in path.absolute().parents if folder.is_dir())
        return folder, shutil.disk_usage(folder).free
    except (OSError, StopIteration):
        return None  # saving will say what is wrong


def _is_taken(path: Path) -> bool:
    """Tell whether there is a file, or a folder with something in it."""
    try:
        return path.is_file() or (path.is_dir() and any(path.iterdir()))
    except OSError:
        return False  # saving will say what is wrong


def _sure_to_replace(parent: QWidget, taken: Sequence[Path], opened: Path | None = None) -> bool:
    """Ask before files are replaced, all the more if one is the checkpoint that is open."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, tr("Replace the file?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    names = tr(" and ").join(one_line(path.name) for path in taken)
    box.setText(
        trn(
            "{names} exists already. Replace?",
            "{names} exist already. Replace?",
            len(taken),
            names=names,
        )
    )
    folder = one_line(str(taken[0].parent))
    if opened is not None and opened.exists() and any(path.samefile(opened) for path in taken):
        warning = tr("This is the checkpoint that is open: its weights as they are will be lost.")
        folder = f"{folder}\n\n{warning}"
    box.setInformativeText(folder)
    replace = box.addButton(tr("&Replace"), QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(button.Cancel))
    box.exec()
    return box.clickedButton() is replace
