"""The page of the dock that searches for the best recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QComboBox, QLineEdit, QSpinBox

from prune_gui.evaluation.evaluation_jobs import Goal, search_job
from prune_gui.evaluation.metrics import share_of
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.sweep_tab import DEFAULT_TARGETS
from prune_gui.gui.evaluate.tab import EvaluationTab, amount_text, share_text, value_text
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import RecordModel, ResultTable, number_column, text_column
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.number_formats import sparsity_share
from prune_gui.recipe.amounts import parse_share
from prune_gui.recipe.selector import patterns_in
from prune_gui.session.draft_request import StepRequest
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.evaluation import Trial
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.recipe import Recipe
    from prune_gui.session import Session
    from prune_gui.table import Table


AT_AMOUNT: Final = "amount"
GOALS: Final = {
    AT_AMOUNT: (deferred("Best at this sparsity"), "70 %"),
    "at_least": (deferred("Most sparsity that keeps"), "98 %"),
}
"""What can be searched for: a title, and the share to begin with."""
MAX_TRIALS: Final = 10_000
TRIALS_INCREMENT: Final = 10
COLUMNS: Final[tuple[Column[Sequence[Try]], ...]] = (
    text_column(deferred("Ranking"), lambda each: each.trial.label),
    number_column(deferred("Amount"), lambda each: each.trial.amount, amount_text),
    number_column(
        deferred("Sparsity"),
        lambda each: each.trial.evaluation.sparsity if each.trial.evaluation else None,
        sparsity_share,
    ),
    number_column(deferred("Value"), lambda each: each.value, value_text),
    number_column(deferred("Of the stack"), lambda each: each.share, share_text),
    text_column(deferred("Result"), lambda each: each.status),
)


@dataclass(frozen=True, slots=True)
class Try:
    """A trial of the search, with its value."""

    trial: Trial
    value: float  # the metric; NaN if it failed
    share: float  # of the value without the step; NaN if it is not known
    best: bool  # whether it is the result of the search

    @property
    def status(self) -> str:
        if self.trial.error:
            return tr("Failed: {error}", error=self.trial.error)
        return tr("Best") if self.best else ""


class SearchTab(EvaluationTab):
    """Searches for steps after the stack; a click on a trial makes its one step the draft."""

    name = title = deferred("Search")

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._found: list[Trial]
        self._best: Trial | None = None
        self._base: Recipe | None = None
        self.goal = QComboBox()
        for goal, (title, _) in GOALS.items():
            self.goal.addItem(tr(title), goal)
        self.goal.currentIndexChanged.connect(self._show_share)
        self.share = QLineEdit()
        self.targets = QLineEdit(DEFAULT_TARGETS)
        self.targets.setToolTip(tr("The parameters to prune: a glob, or conditions"))
        self.tuning = QSpinBox(maximum=MAX_TRIALS, singleStep=TRIALS_INCREMENT)
        self.tuning.setSpecialValueText(tr("None"))
        self.tuning.setToolTip(
            tr(
                "How many trials Optuna makes around the best ranking: other shares of layers, and "
                "other parameters of the ranking. Trials of earlier runs count."
            )
        )
        self.take = layouts.button(
            tr("Take recipe"),
            self._take_chosen,
            tr("Add the selected trial to the stack, or the best one if none is selected"),
        )
        self.model: RecordModel[Try] = RecordModel(COLUMNS, self)
        self.list = ResultTable(self.model, tr("Trials of the search"), len(COLUMNS) - 1)
        self.list.setSelectionMode(ResultTable.SelectionMode.SingleSelection)
        self.list.clicked.connect(lambda index: self._draft(index.row()))
        self.list.activated.connect(lambda index: self._draft(index.row()))
        self.list.selectionModel().selectionChanged.connect(self._enable)
        form = layouts.form(
            (tr("Find"), self.goal),
            (tr("Share"), self.share),
            (tr("Targets"), self.targets),
            (tr("Trials"), self.tuning),
        )
        self._lay_out(form, self.list, self.take)
        self._show_share()
        self.refresh()

    def _forget(self) -> None:
        super()._forget()
        self._best = None

    def refresh(self) -> None:
        metric = self._evaluations.metric
        dense = metric.value(self._dense)
        tries = []
        for trial in self._found:
            value = metric.value(trial.evaluation)
            tries.append(Try(trial, value, share_of(value, dense), trial is self._best))
        self.model.update(tries)
        self._enable()

    def _table(self, name: str) -> Table:
        return self.model.table(f"{name} search")

    def _show_share(self) -> None:
        _, share = GOALS[self.goal.currentData()]
        self.share.setText(share)

    def _run(self, session: Session) -> None:
        try:
            share = parse_share(self.share.text())
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            raise ValueError(tr("Write a share between 0 % and 100 %."))
        is_amount = self.goal.currentData() == AT_AMOUNT
        trials = self.tuning.value()
        goal = Goal(share, None, trials) if is_amount else Goal(None, share, trials)
        targets = patterns_in(self.targets.text())
        if self._start(
            lambda evaluator, metric: search_job(
                evaluator, session.checkpoint, session.recipe, targets, goal, metric
            )
        ):
            self._base = session.recipe
            self.clear()

    def _finish(self, result: object) -> None:
        from prune_gui.evaluation import SearchResult  # loaded by the job that returns it

        assert isinstance(result, SearchResult)
        self._best = result.best
        if result.best is None:
            self.note.say(tr("No ranking holds the value at any sparsity."))
        self.refresh()

    @property
    def _chosen(self) -> Trial | None:
        """The selected trial, or the best one if none is selected; None if it failed."""
        selected = self.list.selectionModel().selectedRows()
        trial = self._found[selected[0].row()] if selected else self._best
        return None if trial is None or trial.error else trial

    def _enable(self) -> None:
        super()._enable()
        self.take.setEnabled(self._chosen is not None)

    def _is_current(self) -> bool:
        """Return whether the stack is that of the search; show a note if it is not."""
        session = self._workbench.session
        is_current = session is not None and session.recipe == self._base
        self.note.say("" if is_current else tr("The stack has changed. Run the search again."))
        return is_current

    def _take_chosen(self) -> None:
        if (trial := self._chosen) is not None and self._is_current():
            steps = trial.steps
            self._workbench.edit(lambda session: session.take_steps((*session.steps, *steps)))

    def _draft(self, row: int) -> None:
        trial = self._found[row]
        if trial.error or not self._is_current():
            return
        count = len(trial.steps)
        if count == 1:
            self.draft_wanted.emit(StepRequest(trial.steps[0]))
        else:
            text = tr("This trial has {count:,} steps. Take recipe adds them.", count=count)
            self.note.say(text, warning=False)
