"""The dialog that tries several amounts of a step."""

from __future__ import annotations

import math
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

from prune_gui.errors import PruneGuiError
from prune_gui.gui import formatting
from prune_gui.gui.dialogs.job_sequence import JobSequence, JobSequenceButtons
from prune_gui.gui.dialogs.result_table import Column, ResultModel, ResultTable
from prune_gui.gui.widgets.message import Message
from prune_gui.language import later, number, tr
from prune_gui.recipe.amounts import has_amount, parse_amounts, with_amount
from prune_gui.worker.job_sequence import sweep_jobs

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.export.exporter import Exporter
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Step
    from prune_gui.session.sweep import SweepRow

FIRST_AMOUNTS: Final = "10% to 90% by 10%"
EXPLANATION: Final = later("Double-click a row to take its amount into the recipe.")
NO_STEP: Final = later("No step that is switched on has an amount. Add one first.")


def _amount(row: SweepRow) -> str:
    return formatting.percent(row.amount) if isinstance(row.amount, float) else number(row.amount)


def _kept(row: SweepRow) -> str:
    if row.error:
        return ""
    if math.isnan(row.kept_energy):
        return tr("unknown")
    if 0.99995 <= row.kept_energy < 1:
        return tr("> {percent:.2f} %", percent=99.99)
    return tr("{percent:.2f} %", percent=100 * row.kept_energy)


COLUMNS: Final[tuple[Column[SweepRow], ...]] = (
    Column(later("Amount"), _amount, lambda row: row.amount),
    Column(
        later("Pruned"),
        lambda row: "" if row.error else number(row.pruned),
        lambda row: None if row.error else row.pruned,
    ),
    Column(
        later("Of"),
        lambda row: "" if row.error else number(row.total),
        lambda row: None if row.error else row.total,
    ),
    Column(
        later("Sparsity"),
        lambda row: "" if row.error else formatting.sparsity(row.pruned, row.total),
        lambda row: None if row.error else row.sparsity,
    ),
    Column(
        later("Kept energy"),
        _kept,
        lambda row: None if math.isnan(row.kept_energy) else row.kept_energy,
    ),
    Column(
        later("Nearly empty"),
        lambda row: "" if row.error else number(row.nearly_empty),
        lambda row: None if row.error else row.nearly_empty,
    ),
    Column(later("Problem"), lambda row: row.error, lambda row: row.error or None, is_number=False),
)
PROBLEM: Final = len(COLUMNS) - 1


class SweepDialog(QDialog):
    """Tries amounts of one step of the recipe as it is when the user says so, a row for each.

    It stays beside the window, and closes when another checkpoint is opened.

    Args:
        workbench: with an open session.
        taking: saves the table.
        index: of the step to begin with, from 0; None for any.
        parent: the window.
    """

    def __init__(
        self, workbench: Workbench, taking: Exporter, index: int | None, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Sweep over amounts"))
        self._workbench = workbench
        self._swept: tuple[int, Step] | None = None
        self._wanted = 0
        self._series = JobSequence(workbench.bridge, self)
        self.step = QComboBox()
        self.step.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.step.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.amounts = QLineEdit(FIRST_AMOUNTS)
        self.amounts.setPlaceholderText("10%, 20%, 30%")
        self.model: ResultModel[SweepRow] = ResultModel(COLUMNS, self)
        self.results = ResultTable(self.model, tr("Results by amount"), PROBLEM)
        self.results.setSelectionMode(ResultTable.SelectionMode.SingleSelection)
        self.results.activated.connect(self._take)
        self._problem = Message()
        self.note = Message()
        self.note.say(tr(EXPLANATION), warning=False)
        self._buttons = buttons = JobSequenceButtons(self)
        self.run, self.cancel, self.save = buttons.run, buttons.cancel, buttons.save
        self.run.clicked.connect(self._run)
        self.cancel.clicked.connect(self._series.cancel)
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
        self._series.came.connect(lambda _, row: self._add(row))
        self._series.failed.connect(self._fail)
        self._series.ended.connect(self._refresh)
        self.amounts.textChanged.connect(self._refresh)
        workbench.edited.connect(self._list_steps)
        workbench.opened.connect(self.close)
        self._list_steps()
        self.step.setCurrentIndex(max(self.step.findData(index), 0))
        self._refresh()

    def table(self) -> Table | None:
        """Return the results to be taken away."""
        session = self._workbench.session
        if session is None or not self.model.rows:
            return None
        return self.model.table(f"{session.checkpoint.path.stem} sweep")

    def done(self, result: int) -> None:
        """Close, and try no more."""
        self._series.cancel()
        super().done(result)

    def _list_steps(self) -> None:
        """Offer the steps that have an amount, as they are now."""
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
        """Let the user do what can be done now, and say why not."""
        problem = "" if self.step.count() else tr(NO_STEP)
        try:
            parse_amounts(self.amounts.text())
        except ValueError as error:
            problem = problem or str(error)
        self._problem.say(problem)
        self._buttons.follow(ready=not problem, running=self._series.running)
        self.save.setEnabled(bool(self.model.rows))

    def _run(self) -> None:
        session = self._workbench.session
        if session is None:
            return
        index: int = self.step.currentData()
        amounts = parse_amounts(self.amounts.text())
        self._swept = index, session.steps[index]
        self._wanted = len(amounts)
        self.model.show(())
        self._count()
        self._series.start(sweep_jobs(session, index + 1, amounts))
        self._refresh()

    def _add(self, row: SweepRow) -> None:
        self.model.add((row,))
        self.results.scrollToBottom()
        self._count()
        self._refresh()

    def _count(self) -> None:
        done = len(self.model.rows)
        counted = tr("{done:,} of {total:,} done", done=done, total=self._wanted)
        self.note.say(tr(EXPLANATION) if done == self._wanted else counted, warning=False)

    def _fail(self, tried: str, error: BaseException) -> None:
        if isinstance(error, PruneGuiError):
            self.note.say(str(error))
        else:
            self._workbench.failed.emit(tried, error)

    def _take(self, place: QModelIndex) -> None:
        """Give the step the amount of a row, unless it is not the step any more that was tried."""
        row, session = self.model.rows[place.row()], self._workbench.session
        if row.error or session is None or self._swept is None:
            return
        index, step = self._swept
        taken = with_amount(step, row.amount)
        now = session.steps[index : index + 1]
        if not now or not has_amount(now[0].method) or with_amount(now[0], row.amount) != taken:
            self.note.say(
                tr("Step {number} is another one by now. Run the sweep again.", number=index + 1)
            )
            return
        self._workbench.edit(lambda session: session.replace(index, taken))
        self.note.say(
            tr(
                "Step {number} has the amount {amount} now; Undo takes that back.",
                number=index + 1,
                amount=_amount(row),
            ),
            warning=False,
        )
