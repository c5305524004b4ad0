"""The page of the dock that searches for the best recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QLabel, QSpinBox

from prune_gui import number_formats
from prune_gui.evaluation.evaluation_jobs import Goal, pareto_front, search_job, trial_curve
from prune_gui.evaluation.metrics import share_of
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.sweep_tab import DEFAULT_TARGETS
from prune_gui.gui.evaluate.tab import (
    EvaluationTab,
    field,
    share_text,
    side_by_side,
    value_text,
)
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import (
    ResultTable,
    SortableModel,
    number_column,
    text_column,
)
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, join_clauses, tr
from prune_gui.recipe.amounts import parse_share
from prune_gui.recipe.selector import patterns_in
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, SearchResult, Trial
    from prune_gui.evaluation.metrics import Metric
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.session import Session
    from prune_gui.table import Table


AT_LEAST: Final = "at_least"
GOALS: Final = {
    AT_LEAST: (deferred("Most sparsity that keeps"), "98 %"),
    "amount": (deferred("Best at this sparsity"), "70 %"),
}
"""What can be searched for: a title, and the share to begin with."""
MAX_TRIALS: Final = 10_000
TRIALS_INCREMENT: Final = 10
REACH: Final = 4
"""How far below its limit the plot reaches, relative to what the limit allows to lose."""


class SearchTab(EvaluationTab):
    """Draws the trials by sparsity and metric; the chosen one becomes the recipe."""

    name = title = deferred("Search")

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._found: list[Trial]
        self._best: Trial | None = None
        self._selected: Trial | None = None
        self._marking = False  # whether a row is selected by the program
        self._goal = Goal()
        goals = [(tr(title), goal) for goal, (title, _) in GOALS.items()]
        self.goal = Choice(tr("Goal"), goals, self._show_share)
        self.share = field("", tr("Share"))
        tip = tr("The parameters to prune: a glob, or conditions")
        self.targets = field(DEFAULT_TARGETS, tr("Targets"), tip)
        self.tuning = QSpinBox(maximum=MAX_TRIALS, singleStep=TRIALS_INCREMENT)
        self.tuning.setSpecialValueText(tr("No tuning"))
        self.tuning.setSuffix(tr(" trials"))
        self.tuning.setToolTip(
            tr(
                "How many trials Optuna makes around the best ranking: other shares of layers, and "
                "other parameters of the ranking. Trials of earlier runs count."
            )
        )
        self.take = layouts.button(tr("Use this recipe"), self._take_chosen)
        self.plot = MetricPlot(tr("Trials by sparsity"), tr("sparsity, %"))
        self.plot.pointed.connect(self._point)
        self.plot.taken.connect(self._select)
        columns = self._columns(evaluations.metric, math.nan)
        self.model: SortableModel[Sequence[Trial]] = SortableModel(columns, ())
        self.list = ResultTable(self.model, tr("Trials of the search"), 0)
        self.list.setSelectionMode(ResultTable.SelectionMode.SingleSelection)
        self.list.setMouseTracking(True)
        self.list.entered.connect(lambda index: self.plot.ring(self._trial_at(index)))
        self.list.activated.connect(self._take_chosen)
        self.list.selectionModel().currentRowChanged.connect(self._row_chosen)
        targets = QLabel(tr("Targets"))
        settings = self.goal, self.share, targets, (self.targets, 1), self.tuning
        self._lay_out(settings, side_by_side(self.plot, self.list), self.take)
        self._show_share()
        self.refresh()

    def _forget(self) -> None:
        super()._forget()
        self._best = self._selected = None

    def refresh(self) -> None:
        metric, shades = self._evaluations.metric, colours(self.palette())
        dense = metric.value(self._dense)
        self.model.show(tuple(self._found), self._columns(metric, dense))
        curve, levels = trial_curve("", self._found, metric), self._levels()
        within = -math.inf, math.inf
        if self._dense is not None and self._goal.at_least is not None:
            limit = self._goal.limit(self._dense, metric)
            levels[tr("limit {value}", value=value_text(limit))] = limit
            lowest = limit + REACH * (limit - dense)
            within = (lowest, math.inf) if lowest < dense else (-math.inf, lowest)
        title = self._metric_title()
        self.plot.show_curves([curve], levels, title, shades, [shades.draft], within)
        if self._dense is not None and curve.points:
            front = pareto_front(curve, higher_is_better=metric.higher_is_better(self._dense))
            front = front[(curve.values[front] >= within[0]) & (curve.values[front] <= within[1])]
            best = [at for at, trial in enumerate(curve.points) if trial is self._best]
            self.plot.draw_front(front, best, shades)
        self._select(self._selected)
        self._enable()

    def _columns(self, metric: Metric, dense: float) -> tuple[Column[Sequence[Trial]], ...]:
        def value(trial: Trial) -> float:
            return metric.value(trial.evaluation)

        def sparsity(trial: Trial) -> float | None:
            return trial.evaluation.sparsity if trial.evaluation else None

        def result(trial: Trial) -> str:
            return trial.error or (tr("Best") if trial is self._best else "")

        share: Column[Sequence[Trial]] = number_column(
            deferred("Of the file"), lambda trial: share_of(value(trial), dense)
        )
        return (
            text_column(deferred("Ranking"), lambda trial: tr(trial.label)),
            number_column(deferred("Sparsity"), sparsity, number_formats.sparsity_share),
            number_column(deferred("Value"), value, lambda one: value_text(one) or tr("failed")),
            replace(share, title=""),  # only in files
            replace(text_column(deferred("Result"), result), title=""),
        )

    def _table(self, name: str) -> Table:
        return self.model.table(f"{name} search")

    def _show_share(self) -> None:
        _, share = GOALS[self.goal.value]
        self.share.setText(share)

    def _run(self, session: Session) -> None:
        try:
            share = parse_share(self.share.text())
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            raise ValueError(tr("Write a share between 0 % and 100 %."))
        is_limit, trials = self.goal.value == AT_LEAST, self.tuning.value()
        goal = Goal(None, share, trials) if is_limit else Goal(share, None, trials)
        targets, base = patterns_in(self.targets.text()), self._evaluations.base(session)
        if self._run_job(
            lambda evaluator, metric: search_job(
                evaluator, session.checkpoint, base, targets, goal, metric
            )
        ):
            self._goal = goal
            self.clear()

    def _finish(self, result: SearchResult) -> None:
        self._best = result.best
        if result.best is None:
            self.note.say(tr("No ranking holds the value at any sparsity."))
        self.refresh()

    def _end(self, error: str, details: str) -> None:
        if self._best is None and self._dense is not None:
            self._best = self._best_so_far(self._dense)
        super()._end(error, details)
        self.refresh()

    def _best_so_far(self, dense: Evaluation) -> Trial | None:
        """Return what a search that was cancelled would have found; None without any."""
        metric = self._evaluations.metric
        sign = 1 if metric.higher_is_better(dense) else -1
        limit = -math.inf if self._goal.at_least is None else sign * self._goal.limit(dense, metric)
        holding = [
            (one.evaluation.sparsity if self._goal.at_least else value, at)
            for at, one in enumerate(self._found)
            if one.evaluation is not None
            and (value := sign * metric.value(one.evaluation)) >= limit
        ]
        return self._found[max(holding)[1]] if holding else None

    @property
    def _chosen(self) -> Trial | None:
        """The selected trial, or the best one if none is selected; None if it failed."""
        trial = self._selected or self._best
        return None if trial is None or trial.error else trial

    def _trial_at(self, index: QModelIndex) -> Trial | None:
        return self.model.rows[self.model.row_at(index.row())] if index.isValid() else None

    def _row_chosen(self, current: QModelIndex) -> None:
        trial = self._trial_at(current)
        if trial is not None and not self._marking:
            self._select(trial)

    def _point(self, trial: Trial | None) -> None:
        """Mark the trial under the cursor, or else the chosen one, in the table and above it."""
        shown = trial or self._selected or self._best
        self._marking = True
        if shown in self.model.rows:
            row = self.model.position_of(self.model.rows.index(shown))
            self.list.selectRow(row)
            self.list.scrollTo(self.model.index(row, 0))
        else:
            self.list.clearSelection()
        self._marking = False
        self._describe(shown)

    def _select(self, trial: Trial | None) -> None:
        self._selected = trial
        self.plot.ring(trial)
        self._point(None)
        self._enable()

    def _describe(self, trial: Trial | None) -> None:
        evaluation = trial.evaluation if trial is not None else None
        if trial is None or evaluation is None:
            self._say(trial.error if trial is not None else "")
            return
        metric = self._evaluations.metric
        value = metric.value(evaluation)
        text = tr(
            "{label}: {sparsity} pruned, {metric} {value}, {share} of the unpruned",
            label=tr("Best, {label}", label=tr(trial.label))
            if trial is self._best
            else tr(trial.label),
            sparsity=number_formats.sparsity(evaluation.pruned, evaluation.total),
            metric=metric.title(evaluation),
            value=value_text(value),
            share=share_text(share_of(value, metric.value(self._dense))) or tr("unknown"),
        )
        self._say(join_clauses((text, self._measured_on())))

    def _enable(self) -> None:
        super()._enable()
        self.take.setEnabled(self._chosen is not None)

    def _take_chosen(self) -> None:
        """Add the steps of the trial to the stack that it started with, or replace the stack."""
        trial, session, base = self._chosen, self._workbench.session, self._base
        if trial is None or session is None or base is None:
            return
        if base.steps and session.recipe != base:
            self.note.say(tr("The stack has changed. Run the search again."))
            return
        replaced = bool(session.steps and not base.steps)
        self._workbench.edit(lambda session: session.take_steps((*base.steps, *trial.steps)))
        text = tr("The recipe has replaced the stack. Undo restores it.") if replaced else ""
        self.note.say(text, warning=False)
