"""The dialog that applies the recipe to several checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QGridLayout, QGroupBox, QLineEdit, QWidget

from prune_gui import number_formats
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.saving.output_boxes import typed_path
from prune_gui.gui.saving.save_dialog import COMPRESSED_NOTE, FORMS
from prune_gui.gui.views.controls import switch
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.table_widgets import RecordModel, ResultTable, number_column
from prune_gui.language import deferred, format_number, tr
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.several_files import BatchRow, checkpoints_in
from prune_gui.table import Column, record_column
from prune_gui.worker.jobs import batch_jobs

if TYPE_CHECKING:
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.gui.workbench import Workbench
    from prune_gui.table import Table


EXPLANATION: Final = deferred(
    "The stack is applied to each checkpoint; a failure does not stop the others."
)
OUTPUT_FOLDER: Final = deferred("Folder for the pruned checkpoints")
ADD_FOLDER: Final = deferred("Add the checkpoints in a folder")
NO_FOLDER: Final = deferred("Enter a folder, or write no files.")
NOT_A_FOLDER: Final = deferred("The path of the folder contains a file. Enter another folder.")


def _count_column(
    title: str, texts: Callable[[BatchRow], tuple[str, ...]], separator: str
) -> Column[Sequence[BatchRow]]:
    """Return a column of the number of texts; the tool tip and the file have the texts."""
    return record_column(
        title,
        lambda row: format_number(len(texts(row))) if texts(row) else "",
        lambda row: separator.join(texts(row)) or None,
        cell_tip=lambda row: "\n".join(map(one_line, texts(row))),
    )


COLUMNS: Final[tuple[Column[Sequence[BatchRow]], ...]] = (
    record_column(
        deferred("Checkpoint"),
        lambda row: f"{row.path.parent.name}/{row.path.name}",
        lambda row: str(row.path),
        is_number=False,
        cell_tip=lambda row: one_line(str(row.path)),
    ),
    number_column(deferred("Targets"), lambda row: row.targets),
    number_column(deferred("Pruned"), lambda row: None if row.total is None else row.pruned),
    number_column(deferred("Total"), lambda row: row.total),
    number_column(
        deferred("Sparsity"),
        lambda row: None if row.total is None else row.sparsity,
        number_formats.sparsity_share,
    ),
    _count_column(deferred("Unmatched"), lambda row: row.unmatched, ", "),
    _count_column(deferred("Warnings"), lambda row: row.warnings, " "),
    record_column(
        deferred("Result"),
        lambda row: tr("failed") if row.error else one_line(row.out.name if row.out else ""),
        lambda row: row.error or (str(row.out) if row.out else None),
        is_number=False,
        cell_tip=lambda row: row.error or one_line(row.out.name if row.out else ""),
    ),
)
RESULT_COLUMN: Final = len(COLUMNS) - 1
TENSORS_ONLY_TIP: Final = deferred(
    "Saves torch files that name code of other programs without it. Files that name code which can "
    "run programs are always saved so."
)


class BatchDialog(JobSequenceDialog):
    """Applies the current recipe to a list of checkpoints. It stays open while it writes files."""

    def __init__(
        self, workbench: Workbench, taking: Exporter, folder: Path, parent: QWidget
    ) -> None:
        super().__init__(workbench, tr("Prune several checkpoints"), tr("&Run"), parent)
        self._start_folder = folder
        self.model: RecordModel[BatchRow] = RecordModel(COLUMNS)
        self.results = ResultTable(self.model, tr("Checkpoints and their results"), RESULT_COLUMN)
        tip = tr("All checkpoints in a folder, or in its subfolders")
        self.add_files = layouts.button(
            tr("Add &files…"), lambda: self.add(questions.ask_checkpoints(self, folder))
        )
        self.add_folder = layouts.button(tr("Add f&older…"), self._ask_folder, tip)
        self._remove = layouts.button(tr("Re&move"), self._remove_selected)
        self.write = QCheckBox(tr("&Write the pruned checkpoints to"))
        self.folder = layouts.described(QLineEdit(), tr(OUTPUT_FOLDER))
        self.browse = layouts.button(tr("&Browse…"), self._ask_output)
        self.form = layouts.described(QComboBox(), tr("Form"))
        for form, (name, explanation) in FORMS.items():
            self.form.addItem(without_mnemonics(tr(name)), form)
            role = Qt.ItemDataRole.ToolTipRole
            self.form.setItemData(self.form.count() - 1, tr(explanation), role)
        self.overwrite = QCheckBox(tr("Re&place existing files"))
        self.compressed = switch(tr("Compre&ss .pt files"), tr(COMPRESSED_NOTE))
        self.tensors_only = switch(tr("T&ensors only"), tr(TENSORS_ONLY_TIP))
        options = self.form, self.overwrite, self.compressed, self.tensors_only
        self._inputs: tuple[QWidget, ...] = (self.add_files, self.add_folder, self.write)
        self._outputs: tuple[QWidget, ...] = (self.folder, self.browse, *options)
        self._problem, self.error = Message(), Message()
        self.save = self._add_button(tr("Save &table as CSV…"), lambda: taking.save_table(self))
        group = QGroupBox(tr("Output"))
        grid = QGridLayout(group)
        for column, widget in enumerate((self.write, self.folder, self.browse)):
            grid.addWidget(widget, 0, column)
        grid.addLayout(layouts.row(*options, layouts.STRETCH), 1, 1, 1, 2)
        adding = layouts.row(self.add_files, self.add_folder, self._remove, layouts.STRETCH)
        messages = self.error, group, self._problem
        layouts.column(adding, (self.results, 1), *messages, self.buttons, of=self)
        self.resize(900, 520)
        self.write.toggled.connect(self._refresh)
        self.folder.textChanged.connect(self._refresh)
        self.results.selectionModel().selectionChanged.connect(self._refresh)
        self._refresh()

    @property
    def writing(self) -> bool:
        return self.running and self.write.isChecked()

    def add(self, paths: Sequence[Path]) -> None:
        """Add checkpoints, or those in folders, to the list; paths in the list are skipped."""
        listed = {row.path for row in self.model.rows}
        new: dict[Path, None] = {}
        for path in paths:
            try:
                new |= dict.fromkeys(checkpoints_in(path) if path.is_dir() else [path])
            except PruneGuiError as error:
                self._workbench.fail(deferred("Adding checkpoints"), error)
        self.model.add([BatchRow(path) for path in new if path not in listed])
        self._refresh()

    def table(self) -> Table | None:
        return self.model.table("batch") if self.model.rows else None

    def _ask_folder(self) -> None:
        path = questions.ask_folder(self, self._start_folder, ADD_FOLDER)
        if path is not None:
            self.add([path])

    def _ask_output(self) -> None:
        start = self.folder.text().strip() or self._start_folder
        if path := questions.ask_folder(self, Path(start), OUTPUT_FOLDER):
            self.folder.setText(str(path))

    def _remove_selected(self) -> None:
        selected = self.results.selectionModel().selectedRows()
        for row in sorted((index.row() for index in selected), reverse=True):
            self.model.remove(row)
        self._refresh()

    def _refresh(self) -> None:
        running, writes = self.running, self.write.isChecked()
        problem = self._current_problem()
        if running or not problem:
            self._show_progress()
        else:
            self._problem.say(tr(problem), warning=problem in (NO_FOLDER, NOT_A_FOLDER))
        rows = self.model.rows
        selected = [rows[index.row()] for index in self.results.selectionModel().selectedRows()]
        failed = next((row for row in (*selected, *rows) if row.error), None)
        self.error.say_error(failed.error if failed else "", failed.details if failed else "")
        for widget in self._inputs:
            widget.setEnabled(not running)
        for widget in self._outputs:
            widget.setEnabled(writes and not running)
        self._remove.setEnabled(self.results.selectionModel().hasSelection() and not running)
        self._enable_buttons(ready=not problem)
        self.save.setEnabled(bool(self.model.rows))

    def _show_progress(self) -> None:
        rows = self.model.rows
        failed = sum(bool(row.error) for row in rows)
        done = failed + sum(row.total is not None and not row.error for row in rows)
        if failed:
            text = tr(
                "{done:,} of {total:,} done, {failed:,} of them failed",
                done=done,
                total=len(rows),
                failed=failed,
            )
        elif done or self.running:
            text = tr("{done:,} of {total:,} done", done=done, total=len(rows))
        elif self.write.isChecked() and not self._output.exists():
            text = tr("The folder does not exist. It will be created.")
        else:
            text = tr(EXPLANATION)
        self._problem.say(text, warning=failed > 0)

    def _current_problem(self) -> str:
        """Return why the recipe cannot be applied, to be translated; "" if it can."""
        if not self._workbench.opened.steps:
            return deferred("The stack is empty. Add a step first.")
        if not self.model.rows:
            return deferred("Add checkpoints to apply the stack to.")
        if not self.write.isChecked():
            return ""
        if not self.folder.text().strip():
            return NO_FOLDER
        try:  # the folder or the nearest of its parents that exists
            existing = next(p for p in (self._output, *self._output.parents) if p.exists())
        except (OSError, ValueError, StopIteration):  # such as a name that is too long
            return NOT_A_FOLDER
        return "" if existing.is_dir() else NOT_A_FOLDER

    @property
    def _output(self) -> Path:
        return typed_path(self.folder.text(), self._start_folder).absolute()

    def _run(self) -> None:
        folder = self._output if self.write.isChecked() else None
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            text = tr("The folder cannot be created: {reason}.", reason=reason)
            self._problem.say_error(text, str(folder))
            return
        recipe, paths = self._workbench.opened.recipe, [row.path for row in self.model.rows]
        self.model.show(map(BatchRow, paths))
        options = OutputOptions(
            form=self.form.currentData(),
            overwrite=self.overwrite.isChecked(),
            compressed=self.compressed.isChecked(),
            tensors_only=self.tensors_only.isChecked() or None,
        )
        self._start(batch_jobs(recipe, paths, folder, options))
        self._refresh()

    def _take_result(self, index: int, row: BatchRow) -> None:
        self.model.put(index, row)
        self.results.scrollTo(self.model.index(index, 0))
        self._refresh()
