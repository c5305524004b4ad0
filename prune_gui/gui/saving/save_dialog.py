"""The dialog that saves a pruned checkpoint: form, shards, output path, and predicted sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QGroupBox,
    QLabel,
    QLineEdit,
    QRadioButton,
    QWidget,
)

from prune_gui.checkpoint.formats import stem_and_suffix
from prune_gui.checkpoint.named_code import code_statement, runs_programs
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs.questions import ask_output, checkpoint_filter
from prune_gui.gui.formatting import wrapped
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.saving.output_boxes import (
    ModelFilesBox,
    free_space,
    is_occupied,
    missing_folder,
    model_folder,
    suggested_path,
    sure_to_replace,
    typed_path,
)
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.frames import FitScrollArea
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.gui.widgets.theme import WIDE_PX
from prune_gui.language import deferred, tr, trn
from prune_gui.location import Location, is_url
from prune_gui.number_formats import parse_bytes, short_bytes
from prune_gui.recipe.output import Form, OutputOptions, OutputPath
from prune_gui.worker.jobs import sizes_job

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Size
    from prune_gui.recipe.sizes import Sizes

FORMS: Final[dict[Form, tuple[str, str]]] = {
    "finalized": (
        deferred("&Finalized"),
        deferred(
            "Same names and types; pruned weights are exactly zero. For all programs that load the "
            "original."
        ),
    ),
    "reparametrized": (
        deferred("&Reparametrized"),
        deferred("X_orig and X_mask in place of each pruned X. For use with torch.nn.utils.prune."),
    ),
    "masks": (
        deferred("&Masks"),
        deferred(
            "A boolean tensor for each pruned parameter. For pruning the same weights elsewhere."
        ),
    ),
    "compact": (
        deferred("C&ompact"),
        deferred(
            "Without the units that are pruned in all of their tensors: smaller and faster. A "
            "folder also gets the config.json that fits."
        ),
    ),
}
"""The forms of a pruned checkpoint: name and explanation, to be translated."""
ZEROS_NOTE: Final = deferred(
    "Zeros take as much space as other numbers: a file with them is smaller only after compression."
)
COMPRESSED_NOTE: Final = deferred(
    "Smaller. Loads with torch.load, but not with mmap=True, which transformers uses for its "
    "model folders."
)
SHARD_SIZE: Final = "5 GB"
"""The default of Hugging Face."""
TITLE_BAR_PX: Final = 40
MIN_HEIGHT_PX: Final = 200
"""Of what is scrolled on a low screen."""
INDENT_PX: Final = 24
"""Of an explanation below its button."""
UNKNOWN: Final = deferred("computing…")


class SaveDialog(QDialog):
    """Asks for the form, the shard size and the path of the pruned checkpoint.

    While the dialog is visible, the engine computes the size of each form.
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
        self._checkpoint = checkpoint = workbench.opened.checkpoint
        self._foreign = checkpoint.foreign
        self._suggested = str(Location.at(suggested))
        self._folder = suggested.absolute().parent  # of a name that is typed without one
        self._suffix = ""  # that was removed for a folder of shards
        self._target: OutputPath | None = None
        self._measured_target: OutputPath | None = None
        self._ticket: int | None = None
        self._sizes: Sizes = {}
        self._replaces = False
        self._forms = QButtonGroup(self)
        self._figures: dict[Form, QLabel] = {}
        self._explanations: dict[Form, Message] = {}
        forms = self._make_forms(form)
        self._split = QCheckBox(tr("S&plit into shards of at most"))
        self._shard_size = QLineEdit(SHARD_SIZE)
        self._compressed = QCheckBox(tr("Compresse&d (deflate), not for mmap=True"))
        self._compressed.setToolTip(wrapped(tr(COMPRESSED_NOTE)))
        self._moments = QCheckBox(tr("Also &zero the optimizer's moments of pruned elements"))
        self._tensors_only = QCheckBox(tr("&Tensors only, without the code that the file names"))
        self._path = QLineEdit(self._suggested)
        self._path_label = QLabel()
        self._make_folder = QCheckBox()
        self._replace = QCheckBox(tr("Rep&lace the remote file if it exists"))
        self.model_files = ModelFilesBox(checkpoint)
        path_row = self._make_path_row()
        notes = [Message() for _ in range(5)]
        self._failure, self._draft, self._problem, self._contents, self._room = notes
        standard = QDialogButtonBox.StandardButton
        buttons = layouts.dialog_buttons(self, standard.Save | standard.Cancel, self._confirm)
        self._save = buttons.button(standard.Save)
        content = QWidget()
        layouts.column(forms, path_row, *notes, of=content, margin=0)
        scrolled = FitScrollArea(content, MIN_HEIGHT_PX)
        layouts.column((scrolled, 1), layouts.STRETCH, buttons, of=self)
        self._forms.idToggled.connect(self._suggest)
        self._split.toggled.connect(self._change_files)
        self._make_folder.setChecked(True)
        self._make_folder.toggled.connect(self._allow)
        self.model_files.folder_wanted.connect(self._path.setText)
        for changed in (
            self._forms.idToggled,
            self._shard_size.textChanged,
            self._compressed.toggled,
            self._tensors_only.toggled,
            self._path.textChanged,
        ):
            changed.connect(self._refresh)
        self._suggest()
        self._refresh()
        self._path.setFocus()

    @property
    def form(self) -> Form:
        return list(FORMS)[self._forms.checkedId()]

    @property
    def path(self) -> Path:
        """The chosen file or folder; for a URL, the local path that stands for it."""
        typed = self._path.text().strip()
        location = Location.of(typed)
        return location.path if location.url else typed_path(typed, self._folder)

    @property
    def options(self) -> OutputOptions:
        """How to write the checkpoint; a `ValueError` if the size of the shards is not valid."""
        wanted = self._shard_size.text().strip()
        return OutputOptions(
            form=self.form,
            overwrite=self._replaces,
            shard_size=parse_bytes(wanted) if self._split.isChecked() else None,
            compressed=self._is_compressed,
            zero_moments=self._moments.isEnabled() and self._moments.isChecked(),
            tensors_only=self._tensors_only.isChecked() if self._foreign else None,
            model_files=self.model_files.wants_files,
            copy_code=self.model_files.wants_code,
        )

    @property
    def _is_compressed(self) -> bool:
        """Whether the values are compressed; False if the chosen kind of files cannot be."""
        return self._compressed.isEnabled() and self._compressed.isChecked()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        QTimer.singleShot(0, self, self.adjustSize)  # texts have their final width by then
        has_draft = self._workbench.draft.current is not None
        note = tr("The previewed step is not saved: add or apply it first.")
        self._draft.say(note if has_draft else "")
        self._measure()

    def event(self, event: QEvent) -> bool:
        """Become higher when the contents do, as far as the screen allows."""
        handled = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest and self.isVisible():
            limit = self.screen().availableSize().height() - TITLE_BAR_PX
            self.resize(self.width(), max(self.height(), min(self.sizeHint().height(), limit)))
        return handled

    def explain(self, failure: str) -> None:
        self._failure.say(failure)

    def done(self, result: int) -> None:
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)
        self._measured_target = None
        super().done(result)

    def _make_forms(self, chosen: Form) -> QWidget:
        group = QGroupBox(tr("Form"))
        grid = QGridLayout(group)
        grid.setColumnStretch(0, 1)
        grid.setHorizontalSpacing(WIDE_PX)
        for i, (form, (name, explanation)) in enumerate(FORMS.items()):
            button = QRadioButton(tr(name))
            button.setChecked(form == chosen)
            self._forms.addButton(button, i)
            label = Message()
            label.setIndent(INDENT_PX)
            label.say(tr(explanation), warning=False)
            self._explanations[form] = label
            self._figures[form] = QLabel()
            grid.addWidget(button, 2 * i, 0)
            grid.addWidget(self._figures[form], 2 * i, 1, Qt.AlignmentFlag.AlignRight)
            grid.addWidget(label, 2 * i + 1, 0, 1, 2)
        grid.addWidget(layouts.remark(tr(ZEROS_NOTE)), 2 * len(FORMS), 0, 1, 2)
        return group

    def _make_path_row(self) -> QWidget:
        row = QWidget()
        grid = QGridLayout(row)
        grid.setContentsMargins(0, 0, 0, 0)
        label = self._path_label
        label.setBuddy(self._path)
        layouts.described(
            self._path,
            tr("File or folder to save to"),
            tr("Also the URL of one in an object store, such as s3://bucket/name"),
        ).setMinimumWidth(540)
        browse = layouts.button(tr("&Browse…"), self._browse)
        self._shard_size.setAccessibleName(tr("Largest shard"))
        self._shard_size.setEnabled(False)
        self._shard_size.setMaximumWidth(100)
        if has_several_files(self._checkpoint.path):
            self._split.setText(tr("S&plit into new shards of at most"))
            self._split.setToolTip(tr("Otherwise the same shards as the input"))
        self._moments.setVisible(self._checkpoint.has_moments())
        self._moments.setToolTip(tr("For the finalized form in a file of torch"))
        self._tensors_only.setVisible(bool(self._foreign))
        self._tensors_only.setChecked(bool(runs_programs(self._foreign)))
        self._tensors_only.setToolTip(wrapped(code_statement(self._foreign)))
        self._replace.setToolTip(tr("Remote folders are never replaced"))
        for column, widget in enumerate((label, self._path, browse)):
            grid.addWidget(widget, 0, column)
        grid.addLayout(layouts.row(self._split, self._shard_size, layouts.STRETCH), 2, 1, 1, 2)
        grid.addWidget(self._make_folder, 1, 1, 1, 2)
        options = self._compressed, self._moments, self._tensors_only, self._replace
        for line, widget in enumerate((*options, self.model_files), start=3):
            grid.addWidget(widget, line, 1, 1, 2)
        return row

    def _suggest(self) -> None:
        """Suggest a path named after the form, unless the path was edited.

        The compact form of a model folder is a folder, which also gets the config.json that fits.
        """
        masks = str(Location.at(suggested_path(self._checkpoint, "masks")))
        paths: dict[Form, str] = {"masks": masks}
        if self._checkpoint.model_types or self._checkpoint.hf_config:
            paths["compact"] = str(model_folder(self._checkpoint, "compact"))
        if self._path.text() in {self._suggested, *paths.values()} and not self._split.isChecked():
            self._path.setText(paths.get(self.form, self._suggested))

    def _change_files(self, split: bool) -> None:
        """Remove the suffix from the path, which becomes a folder, or restore it."""
        path = self._path.text().strip()
        self._shard_size.setEnabled(split)
        was_folder = self._target is not None and self._target.is_folder
        if split and self._target is not None and not was_folder:
            self._suffix = stem_and_suffix(Path(path))[1]
            path = path.removesuffix(self._suffix)
        elif not split and was_folder:
            path += self._suffix
        self._path.setText(path)
        self._refresh()

    def _refresh(self) -> None:
        self._failure.say("")
        self._target, problem = self._read()
        self._problem.say(problem)
        target = self._target
        is_folder = target is not None and target.is_folder
        self._path_label.setText(tr("Fold&er") if is_folder else tr("F&ile"))
        folder = missing_folder(target)
        self._make_folder.setVisible(folder is not None)
        shown = escape_mnemonics(str(folder or ""))
        self._make_folder.setText(tr("Create the missin&g folder {path}", path=shown))
        self._replace.setVisible(target is not None and target.url is not None)
        self._replace.setEnabled(target is not None and not target.is_folder)
        is_torch_file = target is not None and target.is_compressible
        self._compressed.setVisible(is_torch_file)
        self._compressed.setEnabled(is_torch_file)
        self._tensors_only.setEnabled(target is not None and target.format.name == TORCH.name)
        keeps_states = self.form == "finalized" and not self._tensors_only.isChecked()
        self._moments.setEnabled(is_torch_file and keeps_states)
        self.model_files.refresh(target, self.form)
        self._measure()
        self._show_sizes()
        self._show_room()

    def _allow(self) -> None:
        """Let the user save if there is a path, its folder is there or wanted, and a form."""
        is_wanted = missing_folder(self._target) is None or self._make_folder.isChecked()
        is_refused = isinstance(self._sizes.get(self.form), PruneGuiError)
        self._save.setEnabled(self._target is not None and is_wanted and not is_refused)

    def _read(self) -> tuple[OutputPath | None, str]:
        """Return the chosen output path and "", or None and the problem."""
        if not self._path.text().strip():
            return None, tr("Enter a file name.")
        try:
            return OutputPath.of(self._checkpoint, self.path, self.options), ""
        except (ValueError, PruneGuiError) as error:
            return None, str(error)

    def _measure(self) -> None:
        """Start to compute the sizes, unless they are known or pending for this kind of files."""
        target = self._target
        if target is None or not self.isVisible():
            return
        measured = self._measured_target
        if measured and replace(measured, location=target.location, main=target.main) == target:
            return
        self._measured_target = target
        self._sizes = {}
        self._show_sizes()
        self._ticket = self._workbench.bridge.run(
            sizes_job(self._workbench.opened, target),
            partial(self._set_sizes, target),
            partial(self._fail, target),
        )

    def _set_sizes(self, target: OutputPath, sizes: Sizes) -> None:
        if target is self._measured_target:  # otherwise the sizes are those of an earlier input
            self._sizes = sizes
            self._show_sizes()
            self._show_room()

    def _fail(self, target: OutputPath, error: BaseException) -> None:
        if target is self._measured_target:
            self._measured_target = None  # the next change of the input tries again
            self._problem.say(str(error))
            for figure in self._figures.values():
                figure.setText(tr("unknown"))

    def _show_sizes(self) -> None:
        for button, form in zip(self._forms.buttons(), FORMS, strict=True):
            size, explanation = self._sizes.get(form), tr(FORMS[form][1])
            if is_refused := isinstance(size, PruneGuiError):
                figure, exact, explanation = tr("cannot be saved"), "", str(size)
            else:
                figure, exact = _size_texts(size, compressed=self._is_compressed)
            self._figures[form].setText(figure)
            self._figures[form].setToolTip(exact)
            self._explanations[form].say(explanation, warning=is_refused)
            button.setAccessibleDescription(
                tr("{explanation} {figures}.", explanation=explanation, figures=figure)
            )
        self._allow()

    def _show_room(self) -> None:
        """Show what the file has and keeps, and if there is too little space on disk."""
        size, is_compact = self._sizes.get(self.form), self.form == "compact"
        pending = tr(UNKNOWN) if is_compact and size is None and self._target else ""
        size = None if isinstance(size, PruneGuiError) else size
        keep_room(self._contents, lines=2 * is_compact)  # so that Save does not move afterwards
        self._contents.say(pending if size is None else size.note, warning=False)
        needed = 0 if size is None else size.compressed if self._is_compressed else size.nbytes
        is_local = self._target is None or self._target.url is None
        room = free_space(self._target.path) if self._target is not None else None
        if room is None or (is_local and needed <= room[1]):
            self._room.say("")
            return
        text = deferred("Not enough disk space: {size} free in {folder}")
        if not is_local:
            text = deferred("{size} free in {folder}, where files are until they are uploaded")
        folder, free = room
        self._room.say(tr(text, size=short_bytes(free), folder=folder), warning=is_local)

    def _browse(self) -> None:
        typed, title = self._path.text(), tr("Save pruned checkpoint")
        start = "" if is_url(typed.strip()) else typed
        if path := ask_output(self, title, start, checkpoint_filter()):
            self._path.setText(path)

    def _confirm(self) -> None:
        """Accept the dialog, after the user has confirmed to replace existing files."""
        if self._target is None:
            return
        if self._target.url is not None:
            self._replaces = self._replace.isEnabled() and self._replace.isChecked()
            self.accept()
            return
        try:
            if (folder := missing_folder(self._target)) is not None:
                folder.mkdir(parents=True)
        except OSError as error:
            reason = error.strerror or str(error)
            self.explain(tr("The folder cannot be created: {reason}.", reason=reason))
            return
        outputs = [self._target.path]
        if self.form in ("reparametrized", "compact") and not self._target.is_folder:
            from prune_gui.recipe import loader_path  # torch: slow to import

            outputs.append(loader_path(self._target))
        existing = [path for path in outputs if is_occupied(path)]
        if not existing or sure_to_replace(self, existing, self._checkpoint.path):
            self._replaces = bool(existing)
            self.accept()


def _size_texts(size: Size | None, *, compressed: bool) -> tuple[str, str]:
    """Return the size, and the exact one of a file that is not compressed."""
    if size is None:
        return tr(UNKNOWN), ""
    whole, estimate = short_bytes(size.nbytes), short_bytes(size.compressed)
    if compressed:
        return tr("about {size}, not {whole}", size=estimate, whole=whole), ""
    text = tr("{whole}, about {size} with zip", size=estimate, whole=whole)
    return text, trn("{count:,} byte", "{count:,} bytes", size.nbytes)
