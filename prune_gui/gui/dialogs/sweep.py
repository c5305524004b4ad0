"""The dialog that computes the results of a step for several amounts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QSizePolicy, QWidget

from prune_gui import number_formats
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import MetricCurve
from prune_gui.gui import formatting
from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.tab import amount_text
from prune_gui.gui.widgets import layouts, theme
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.table_widgets import RecordModel, ResultTable, number_column, text_column
from prune_gui.language import deferred, format_number, tr
from prune_gui.recipe.amounts import has_amount, parse_amounts, with_amount
from prune_gui.table import Column
from prune_gui.worker.jobs import sweep_jobs

if TYPE_CHECKING:
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Step
    from prune_gui.session.changes import Changes
    from prune_gui.session.sweep import SweepRow
    from prune_gui.table import Table

DEFAULT_AMOUNTS: Final = "10% to 90% by 10%"
EXPLANATION: Final = deferred("Click a point or a row to use its amount in the draft.")
NO_STEP: Final = deferred("No step that is switched on has an amount. Add one first.")


def _energy(share: float) -> str:
    if math.isnan(share):
        return tr("unknown")
    if 0.99995 <= share < 1:
        return tr("> {percent:.2f} %", percent=99.99)
    return tr("{percent:.2f} %", percent=100 * share)


def _number_column(
    title: str, value: Callable[[SweepRow], float], text: Callable[[float], str] = format_number
) -> Column[Sequence[SweepRow]]:
    """Return a column of numbers that is empty for a row with an error."""
    return number_column(title, lambda row: None if row.error else value(row), text)


COLUMNS: Final[tuple[Column[Sequence[SweepRow]], ...]] = (
    number_column(deferred("Amount"), lambda row: row.amount, amount_text),
    _number_column(deferred("Sparsity"), lambda row: row.sparsity, number_formats.sparsity_share),
    _number_column(deferred("Kept energy"), lambda row: row.kept_energy, _energy),
    _number_column(deferred("Of targets"), lambda row: row.target_energy, _energy),
    _number_column(deferred("Of the worst"), lambda row: row.worst_energy, _energy),
    text_column(deferred("Worst target"), lambda row: row.worst),
    _number_column(deferred("Nearly empty"), lambda row: row.nearly_empty),
    _number_column(deferred("Pruned"), lambda row: row.pruned),
    _number_column(deferred("Total"), lambda row: row.total),
    text_column(deferred("Problem"), lambda row: row.error),
)
ENERGIES: Final[Mapping[str, Callable[[SweepRow], float]]] = {
    deferred("kept energy of the step's targets"): lambda row: row.target_energy,
    deferred("kept energy of its worst target"): lambda row: row.worst_energy,
}
PROBLEM_COLUMN: Final = len(COLUMNS) - 1


def energy_curves(rows: Sequence[SweepRow]) -> list[MetricCurve]:
    """Return the kept energy in percent by the sparsity: of the targets, and of the worst one."""
    return [
        MetricCurve.of(
            tr(title), ((row.sparsity, 100 * energy(row), row) for row in rows if not row.error)
        )
        for title, energy in ENERGIES.items()
    ]


class SweepDialog(JobSequenceDialog):
    """Tries several amounts of one step: a row for each, and curves of the energy by sparsity."""

    pictured = Signal()  # as of `View`; the picture needs no job, so it is never emitted
    amount_wanted = Signal(int, object)  # (index, amount) draft the step with the amount
    evaluation_wanted = Signal()  # see what an evaluator says about several amounts

    def __init__(
        self, workbench: Workbench, taking: Exporter, index: int | None, parent: QWidget
    ) -> None:
        super().__init__(workbench, tr("Sweep over amounts"), tr("&Run"), parent)
        self._swept: tuple[int, Step] | None = None
        self._swept_title = ""
        self._amount_count = 0
        by_content = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.step = QComboBox(sizeAdjustPolicy=by_content)
        self.step.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.amounts = QLineEdit(DEFAULT_AMOUNTS, placeholderText="10%, 20%, 30%")
        self.model: RecordModel[SweepRow] = RecordModel(COLUMNS)
        self.results = ResultTable(self.model, tr("Results by amount"), PROBLEM_COLUMN)
        self.results.setSelectionMode(ResultTable.SelectionMode.SingleSelection)
        for used in (self.results.activated, self.results.clicked):
            used.connect(lambda item: self._take(self.model.rows[item.row()]))
        self.plot = MetricPlot(tr("Kept energy by sparsity"), tr("sparsity of all parameters, %"))
        self.plot.pointed.connect(self._select)
        self.plot.taken.connect(self._take)
        self._legend = layouts.described(QLabel(textFormat=Qt.TextFormat.RichText), tr("Legend"))
        self._problem = Message()
        self.note = Message()
        self.note.say(tr(EXPLANATION), warning=False)
        self.save = self._add_button(tr("Save &table as CSV…"), lambda: taking.save_table(self))
        self.save_picture = self._add_button(
            tr("Export &figure…"), lambda: taking.export_figure(self, "picture")
        )
        evaluate = self._add_button(tr("&Evaluate…"), self.evaluation_wanted.emit)
        evaluate.setToolTip(tr("Draw the value of an evaluator over the sparsity, in the dock"))
        form = layouts.form((tr("&Step"), self.step), (tr("&Amounts"), self.amounts))
        curves = QWidget()
        layouts.column((self.plot, 1), self._legend, of=curves, margin=0)
        splitter = layouts.split(curves, self.results, sizes=(460, 500))
        notes = self._problem, self.note
        layouts.column(form, (splitter, 1), *notes, self.buttons, of=self)
        self.resize(980, 560)
        self.amounts.textChanged.connect(self._refresh)
        self._list_steps()
        self.step.setCurrentIndex(max(self.step.findData(index), 0))
        self._show_curve()
        self._refresh()

    def picture(self) -> QWidget | None:
        return self.plot if self.model.rows else None

    def caption(self) -> tuple[str, str]:
        name = self._workbench.opened.checkpoint.path.name
        return name, f"{self.windowTitle()}: {self._swept_title}"

    def legend(self) -> str:
        return self._legend.text()

    def is_drawn(self) -> bool:
        return True

    def show_selection(self, *, on: bool) -> None:
        self.plot.show_current(on=on)

    def table(self) -> Table | None:
        stem = self._workbench.opened.checkpoint.path.stem
        return self.model.table(f"{stem} sweep") if self.model.rows else None

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        if not changes.file and (changes.recipe or changes.resolution):
            self._list_steps()

    def _list_steps(self) -> None:
        chosen = self.step.currentData()
        self.step.clear()
        for index, step in self._workbench.steps_with_amount:
            text = f"{index + 1}  {formatting.title(step)}  →  {formatting.targets(step)}"
            self.step.addItem(text, index)
        self.step.setCurrentIndex(max(self.step.findData(chosen), 0))
        self._refresh()

    def _refresh(self) -> None:
        problem = "" if self.step.count() else tr(NO_STEP)
        try:
            parse_amounts(self.amounts.text())
        except ValueError as error:
            problem = problem or str(error)
        self._problem.say(problem)
        self._enable_buttons(ready=not problem)
        for button in (self.save, self.save_picture):
            button.setEnabled(bool(self.model.rows))

    def _run(self) -> None:
        session = self._workbench.opened
        index: int = self.step.currentData()
        amounts = parse_amounts(self.amounts.text())
        self._swept = index, session.steps[index]
        self._swept_title = self.step.currentText()
        self._amount_count = len(amounts)
        self.model.show(())
        self._show_curve()
        self._show_progress()
        self._start(sweep_jobs(session, index + 1, amounts))
        self._refresh()

    def _take_result(self, _index: int, row: SweepRow) -> None:
        self.model.add((row,))
        self.results.scrollToBottom()
        self._show_curve()
        self._show_progress()
        self._refresh()

    def _show_progress(self) -> None:
        done = len(self.model.rows)
        progress = tr("{done:,} of {total:,} done", done=done, total=self._amount_count)
        self.note.say(tr(EXPLANATION) if done == self._amount_count else progress, warning=False)

    def _fail(self, tried: str, error: BaseException) -> None:
        if isinstance(error, PruneGuiError):
            self.note.say_error(error.brief, error.details)
        else:
            self._workbench.failed.emit(tried, error)

    def _show_curve(self) -> None:
        colours = theme.colours(self.palette())
        curves = energy_curves(self.model.rows)
        self.plot.show_curves(curves, {}, tr("kept energy, %"), colours)
        self._legend.setText(self.plot.legend())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._show_curve()

    def _select(self, row: SweepRow | None) -> None:
        if row is not None:
            self.results.selectRow(self.model.rows.index(row))

    def _take(self, row: SweepRow) -> None:
        """Draft the swept step with the amount of a row, unless it was changed or moved."""
        if row.error or self._swept is None:
            return
        index, step = self._swept
        changed, steps = with_amount(step, row.amount), self._workbench.opened.steps
        current = [step for step in steps[index : index + 1] if has_amount(step.method)]
        if [with_amount(step, row.amount) for step in current] != [changed]:
            self.note.say(tr("Step {number} has changed. Run the sweep again.", number=index + 1))
            return
        self.amount_wanted.emit(index, row.amount)
        text = tr(
            "Step {number} is edited with the amount {amount}: Apply it, or cancel.",
            number=index + 1,
            amount=amount_text(row.amount),
        )
        self.note.say(text, warning=False)
