"""The page of the dock with the value of the file, of the stack and of each named state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QShowEvent
from PySide6.QtWidgets import QApplication, QStyledItemDelegate

from prune_gui.evaluation.evaluation_jobs import (
    FILE,
    STACK,
    Begun,
    EvaluatedRecipe,
    MetricCurve,
    StateResults,
    StateRow,
    states_job,
)
from prune_gui.evaluation.metrics import share_of
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.tab import EvaluationTab, share_text, side_by_side, value_text
from prune_gui.gui.widgets.table_widgets import (
    Index,
    RecordModel,
    ResultTable,
    number_column,
    text_column,
)
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, join_clauses, tr
from prune_gui.number_formats import sparsity_share
from prune_gui.session.changes import Changes
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.engine import Job
    from prune_gui.evaluation import Evaluator
    from prune_gui.evaluation.metrics import Metric
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.session import Session
    from prune_gui.table import Table


KINDS: Final = {"file": FILE, "stack": STACK, "draft": deferred("Draft")}


@dataclass(frozen=True, slots=True)
class ShownState:
    """A state with its value."""

    row: StateRow
    value: float  # the metric; NaN if it is not known, or if that is what was returned
    share: float  # of the value of the file; NaN if it is not known

    @property
    def name(self) -> str:
        return tr(KINDS[self.row.kind]) if self.row.kind in KINDS else self.row.name

    @property
    def status(self) -> str:
        outcome = self.row.outcome
        if self.row.running:
            return tr("Evaluating …")
        if outcome is None:
            return tr("Not evaluated")
        if self.row.stale:
            return tr("Out of date: the stack has changed")
        if outcome.evaluation is None:
            return outcome.error
        return tr("Stored") if outcome.evaluation.cached else tr("Evaluated")


def _number(state: ShownState, name: str) -> float | None:
    """Return a number of the evaluation by its name; None if there is none."""
    return getattr(state.row.evaluation, name, None)


def _result_text(value: float) -> str:
    """Return a value that an evaluator has returned."""
    return value_text(value) or "NaN"


COLUMNS: Final[tuple[Column[Sequence[ShownState]], ...]] = (
    text_column(deferred("State"), lambda each: each.name),
    number_column(
        deferred("Value"),
        lambda each: each.value if each.row.evaluation is not None else None,
        _result_text,
    ),
    number_column(deferred("Of the file"), lambda each: each.share, share_text),
    number_column(deferred("Sparsity"), lambda each: _number(each, "sparsity"), sparsity_share),
    Column(
        file_title=deferred("Time"), values=lambda rows: [_number(row, "seconds") for row in rows]
    ),
    Column(
        file_title=deferred("Memory"), values=lambda rows: [_number(row, "memory") for row in rows]
    ),
    text_column(deferred("Status"), lambda each: each.status),
)


STATUS: Final = 4
"""The column that gets the remaining width."""


class StatesModel(RecordModel[ShownState]):
    """The states; failed ones have the colour of warnings, and those out of date are faint."""

    shades: Mapping[str, str]  # the colours of the points, by state

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401
        if role == Qt.ItemDataRole.DecorationRole and index.column() == 0:
            return QColor(self.shades.get(self.rows[index.row()].name, "#00000000"))
        if role != Qt.ItemDataRole.ForegroundRole or not index.isValid():
            return super().data(index, role)
        row, palette = self.rows[index.row()].row, QApplication.palette()
        if row.outcome is None or row.stale or row.running:
            return palette.placeholderText()
        return QColor(colours(palette).warning) if row.evaluation is None else None


class StatesTab(EvaluationTab):
    """Lists the states with their values, and evaluates those without one."""

    name, title = deferred("States"), deferred("Evaluate")

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._results = StateResults()
        self.model = StatesModel(COLUMNS)
        self.model.shades = {}
        self.list = ResultTable(self.model, tr("Values of the states"), STATUS)
        self.list.setItemDelegate(QStyledItemDelegate(self.list))
        self.list.selectionModel().currentRowChanged.connect(self._describe)
        self.plot = MetricPlot(tr("States by sparsity"), tr("sparsity, %"))
        self.plot.pointed.connect(self._select)
        self.plot.taken.connect(self._select)
        self._lay_out((), side_by_side(self.plot, self.list))
        self.refresh()

    def clear(self) -> None:
        super().clear()
        self._look_up()

    def _forget(self) -> None:
        self._results = StateResults()

    def refresh(self) -> None:
        session, metric = self._workbench.session, self._evaluations.metric
        rows = self._rows(session) if session is not None else ()
        dense = metric.value(rows[0].evaluation) if rows else math.nan
        states = []
        for row in rows:
            value = metric.value(row.evaluation)
            states.append(ShownState(row, value, share_of(value, dense)))
        known = ((each, each.row.evaluation) for each in states)
        curves = [
            MetricCurve.of(state.name, [(found.sparsity, state.value, state)])
            for state, found in known
            if found is not None
        ]
        evaluation = rows[0].evaluation if rows else None
        title = metric.title(evaluation) if evaluation else tr("metric")
        self.plot.show_curves(curves, {}, title, colours(self.palette()))
        self.model.shades = self.plot.shades
        self.model.update(states)
        self.list.viewport().update()
        self._describe()
        self._enable()

    def _rows(self, session: Session) -> tuple[StateRow, ...]:
        draft, base = self._workbench.draft.current, self._evaluations.base(session)
        drafted = None
        if draft is not None:
            replaces = draft.replaces if self._evaluations.after_stack else None
            end = len(base.steps) if replaces is None else replaces
            steps = *base.steps[:end], draft.step, *base.steps[end + 1 :]
            drafted = base.with_steps(steps)
        return self._results.rows(session.recipe, session.named_states, drafted)

    def picture(self) -> MetricPlot | None:
        return self.plot if self.plot.curves else None

    def _select(self, state: ShownState | None) -> None:
        if state is not None:
            self.list.selectRow(self.model.rows.index(state))

    def _has_results(self) -> bool:
        return bool(self.model.rows)

    def _table(self, name: str) -> Table:
        return self.model.table(f"{name} evaluation")

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look for stored results, which a hidden page does not do."""
        super().showEvent(event)
        self._look_up()

    def _look_up(self) -> None:
        session = self._workbench.session
        if session is None or not self.isVisible():
            return
        wanted = [row.recipe for row in self._rows(session)]
        missing = [recipe for recipe in wanted if self._results.get(recipe) is None]
        if missing:
            self._evaluations.look_up(session, missing, self._use)

    def _use(self, outcomes: Sequence[EvaluatedRecipe]) -> None:
        for outcome in outcomes:
            self._results.put(outcome)
        self.refresh()

    def _run(self, session: Session) -> None:
        def make_job(evaluator: Evaluator, _: Metric) -> Job:
            rows = self._rows(session)
            open_rows = [row for row in rows if row.stale or row.evaluation is None]
            recipes = [row.recipe for row in open_rows or rows]
            distinct = [each for at, each in enumerate(recipes) if each not in recipes[:at]]
            return states_job(evaluator, session.resolver, distinct)

        self._run_job(make_job)

    def _take(self, found: object) -> None:
        if isinstance(found, Begun):
            self._results.running = found.recipe
        elif isinstance(found, EvaluatedRecipe):
            self._results.running = None
            self._results.put(found)
        self.refresh()

    def _end(self, error: str, details: str) -> None:
        self._results.running = None
        super()._end(error, details)
        self.refresh()

    def _describe(self) -> None:
        """Say what the stack is worth; and why the current row, or else any, has failed."""
        rows, current = self.model.rows, self.list.currentIndex().row()
        for state in rows[1:2]:
            evaluation = state.row.evaluation
            text = evaluation and tr(
                "The stack: {metric} {value}",
                metric=self._evaluations.metric.title(evaluation),
                value=_result_text(state.value),
            )
            share = share_text(state.share)
            of_dense = share and tr("{share} of the unpruned", share=share)
            self._say(
                join_clauses((text, of_dense)) if text else "",
                tr("States that you name in History are compared here."),
            )
        self.plot.ring(rows[current] if current >= 0 else None)
        ordered = (*rows[current : current + 1], *rows) if current >= 0 else rows
        failed = (each.row.outcome for each in ordered if each.row.outcome is not None)
        outcome = next((each for each in failed if each.error), None)
        if self._evaluations.run is None:
            self.note.say_error(
                outcome.error if outcome else "", outcome.details if outcome else ""
            )

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        if changes.recipe and not changes.file:
            self.refresh()
            self._look_up()
