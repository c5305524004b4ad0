"""The dialog that computes the results of a step for several amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFormLayout,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from prune_gui import number_formats
from prune_gui.audit.column import Column, record_column
from prune_gui.errors import PruneGuiError
from prune_gui.gui import formatting
from prune_gui.gui.dialogs.job_sequence import JobSequence, JobSequenceButtons
from prune_gui.gui.dialogs.result_table import ResultTable
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.table_model import RecordModel
from prune_gui.language import deferred, format_number, tr
from prune_gui.recipe.amounts import has_amount, parse_amounts, with_amount
from prune_gui.worker.job_sequence import sweep_jobs

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.export.exporter import Exporter
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Step
    from prune_gui.session.changes import Changes
    from prune_gui.session.sweep import SweepRow

DEFAULT_AMOUNTS: Final = "10% to 90% by 10%"
EXPLANATION: Final = deferred("Double-click a row to use its amount in the recipe.")
NO_STEP: Final = deferred("No step that is switched on has an amount. Add one first.")


def _amount(row: SweepRow) -> str:
    return (
        number_formats.percent(row.amount)
        if isinstance(row.amount, float)
        else format_number(row.amount)
    )


def _kept(row: SweepRow) -> str:
    if row.error:
        return ""
    if math.isnan(row.kept_energy):
        return tr("unknown")
    if 0.99995 <= row.kept_energy < 1:
        return tr("> {percent:.2f} %", percent=99.99)
    return tr("{percent:.2f} %", percent=100 * row.kept_energy)


COLUMNS: Final[tuple[Column[Sequence[SweepRow]], ...]] = (
    record_column(deferred("Amount"), _amount, lambda row: row.amount),
    record_column(
        deferred("Pruned"),
        lambda row: "" if row.error else format_number(row.pruned),
        lambda row: None if row.error else row.pruned,
    ),
    record_column(
        deferred("Total"),
        lambda row: "" if row.error else format_number(row.total),
        lambda row: None if row.error else row.total,
    ),
    record_column(
        deferred("Sparsity"),
        lambda row: "" if row.error else number_formats.sparsity(row.pruned, row.total),
        lambda row: None if row.error else row.sparsity,
    ),
    record_column(
        deferred("Kept energy"),
        _kept,
        lambda row: None if math.isnan(row.kept_energy) else row.kept_energy,
    ),
    record_column(
        deferred("Nearly empty"),
        lambda row: "" if row.error else format_number(row.nearly_empty),
        lambda row: None if row.error else row.nearly_empty,
    ),
    record_column(
        deferred("Problem"), lambda row: row.error, lambda row: row.error or None, is_number=False
    ),
)
PROBLEM_COLUMN: Final = len(COLUMNS) - 1


class SweepDialog(QDialog):
    """Resolves the current recipe with several amounts of one step, and shows a row for each.

    The dialog is modeless, and closes when another checkpoint is opened.

    Args:
        workbench: a workbench with an open session.
        exporter: exports the table of results.
        index: index of the step to select initially, from 0; None for the first.
        parent: the window.
    """

    def __init__(
        self, workbench: Workbench, taking: Exporter, index: int | None, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Sweep over amounts"))
        self._workbench = workbench
        self._swept: tuple[int, Step] | None = None
        self._amount_count = 0
        self._sequence = JobSequence(workbench.bridge, self)
        self.step = QComboBox()
        self.step.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.step.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.amounts = QLineEdit(DEFAULT_AMOUNTS)
        self.amounts.setPlaceholderText("10%, 20%, 30%")
        self.model: RecordModel[SweepRow] = RecordModel(COLUMNS, self)
        self.results = ResultTable(self.model, tr("Results by amount"), PROBLEM_COLUMN)
        self.results.setSelectionMode(ResultTable.SelectionMode.SingleSelection)
        self.results.activated.connect(self._apply_amount)
        self._problem = Message()
        self.note = Message()
        self.note.say(tr(EXPLANATION), warning=False)
        self._buttons = buttons = JobSequenceButtons(self)
        self.run, self.cancel, self.save = buttons.run, buttons.cancel, buttons.save
        self.run.clicked.connect(self._run)
        self.cancel.clicked.connect(self._sequence.cancel)
        self.save.clicked.connect(lambda: taking.save_table(self))
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.addRow(tr("&Step"), self.step)
        form.addRow(tr("&Amounts"), self.amounts)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.results, 1)
        layout.addWidget(self._problem)
        layout.addWidget(self.note)
        layout.addWidget(buttons)
        self.resize(720, 420)
        self._sequence.came.connect(lambda _, row: self._add(row))
        self._sequence.failed.connect(self._fail)
        self._sequence.ended.connect(self._refresh)
        self.amounts.textChanged.connect(self._refresh)
        workbench.changed.connect(self._on_changed)
        self._list_steps()
        self.step.setCurrentIndex(max(self.step.findData(index), 0))
        self._refresh()

    def table(self) -> Table | None:
        """Return the table of results; None without rows."""
        session = self._workbench.session
        if session is None or not self.model.rows:
            return None
        return self.model.table(f"{session.checkpoint.path.stem} sweep")

    def done(self, result: int) -> None:
        """Cancel the remaining jobs, and close."""
        self._sequence.cancel()
        super().done(result)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.close()
        elif changes.recipe:
            self._list_steps()

    def _list_steps(self) -> None:
        """List the current steps that are enabled and have an amount."""
        session = self._workbench.session
        chosen = self.step.currentData()
        self.step.clear()
        for index, step in enumerate(session.steps if session else ()):
            if step.enabled and has_amount(step.method):
                text = f"{index + 1}  {formatting.title(step)}  →  {formatting.targets(step)}"
                self.step.addItem(text, index)
        self.step.setCurrentIndex(max(self.step.findData(chosen), 0))
        self._refresh()

    def _refresh(self) -> None:
        """Enable the buttons for the current state, and show the problem if there is one."""
        problem = "" if self.step.count() else tr(NO_STEP)
        try:
            parse_amounts(self.amounts.text())
        except ValueError as error:
            problem = problem or str(error)
        self._problem.say(problem)
        self._buttons.follow(ready=not problem, running=self._sequence.running)
        self.save.setEnabled(bool(self.model.rows))

    def _run(self) -> None:
        session = self._workbench.session
        if session is None:
            return
        index: int = self.step.currentData()
        amounts = parse_amounts(self.amounts.text())
        self._swept = index, session.steps[index]
        self._amount_count = len(amounts)
        self.model.show(())
        self._show_progress()
        self._sequence.start(sweep_jobs(session, index + 1, amounts))
        self._refresh()

    def _add(self, row: SweepRow) -> None:
        self.model.add((row,))
        self.results.scrollToBottom()
        self._show_progress()
        self._refresh()

    def _show_progress(self) -> None:
        done = len(self.model.rows)
        progress = tr("{done:,} of {total:,} done", done=done, total=self._amount_count)
        self.note.say(tr(EXPLANATION) if done == self._amount_count else progress, warning=False)

    def _fail(self, tried: str, error: BaseException) -> None:
        if isinstance(error, PruneGuiError):
            self.note.say(str(error))
        else:
            self._workbench.failed.emit(tried, error)

    def _apply_amount(self, item: QModelIndex) -> None:
        """Set the amount of a row in the swept step, unless that step was changed or moved."""
        row, session = self.model.rows[item.row()], self._workbench.session
        if row.error or session is None or self._swept is None:
            return
        index, step = self._swept
        changed = with_amount(step, row.amount)
        current = session.steps[index : index + 1]
        if (
            not current
            or not has_amount(current[0].method)
            or with_amount(current[0], row.amount) != changed
        ):
            self.note.say(tr("Step {number} has changed. Run the sweep again.", number=index + 1))
            return
        self._workbench.edit(lambda session: session.replace(index, changed))
        self.note.say(
            tr(
                "The amount of step {number} is now {amount}; Undo reverts this.",
                number=index + 1,
                amount=_amount(row),
            ),
            warning=False,
        )
