"""What the pages of the dock share: a run, its messages, the texts of values, and the export."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QLineEdit, QMenu, QSplitter, QWidget

from prune_gui import number_formats
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import Dense, EvaluatedRecipe
from prune_gui.gui.evaluate.evaluations import EvaluationRun, Evaluations, MakeJob
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, bold
from prune_gui.gui.workbench import Workbench
from prune_gui.language import format_number, tr
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation
    from prune_gui.gui.evaluate.plots import MetricPlot
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.recipe import Recipe
    from prune_gui.recipe.amounts import Amount
    from prune_gui.session import Session
    from prune_gui.table import Table


SIZES_PX: Final = (460, 440)
"""Widths of a picture and of what is beside it, before the user changes them."""
FIELD_PX: Final = 50
"""Minimum width of a field in the row of the settings."""


class EvaluationTab(QWidget):
    """A page with a row of settings, a headline and the results below each other."""

    pictured = Signal()  # as of `PictureSource`; the picture needs no job, so it is never emitted

    name: ClassVar[str]  # of the results, to be translated
    title: ClassVar[str]  # of the button that starts a run, to be translated
    plot: MetricPlot  # of a subclass, which makes it

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__()
        self.setAccessibleName(tr(self.name))
        self._workbench = workbench
        self._evaluations = evaluations
        self._dense: Evaluation | None = None  # that of the unpruned file
        self._start: Evaluation | None = None  # that of the recipe that the run started with
        self._base: Recipe | None = None  # that recipe
        self._found: list[Any] = []
        self._job: EvaluationRun | None = None  # that of this page
        self.run = layouts.button(tr(self.title), self._on_run)
        self.note = Message()
        self.headline = ElidedLabel(tr("Result"), wrapped=True)
        self.menu = menu = QMenu(self)
        self.save_picture = menu.addAction(
            tr("Export figure…"), lambda: exporter.export_figure(self, "picture")
        )
        menu.addAction(tr("Copy picture"), lambda: exporter.copy_picture(self))
        self.save_table = menu.addAction(
            tr("Save table as CSV…"), lambda: exporter.save_table(self)
        )
        menu.addAction(tr("Copy table"), lambda: exporter.copy_table(self))
        evaluations.chosen.connect(self.clear)
        evaluations.start_changed.connect(self.refresh)
        evaluations.metric_changed.connect(self.refresh)
        evaluations.running_changed.connect(self._enable)
        workbench.changed.connect(self._on_changed)

    def clear(self) -> None:
        self._forget()
        self.refresh()

    def _forget(self) -> None:
        self._dense = self._start = self._base = None
        self._found = []

    @abstractmethod
    def refresh(self) -> None:
        """Show the results with the current metric, in the current colours."""

    def _has_results(self) -> bool:
        return bool(self._found)

    def picture(self) -> QWidget | None:
        """Return the picture to export; None without results."""
        return self.plot if self._found else None

    @abstractmethod
    def _table(self, name: str) -> Table:
        """Return the table to export for a checkpoint of this name, if there are results."""

    def table(self) -> Table | None:
        """Return the table to export; None without results."""
        stem = self._workbench.opened.checkpoint.path.stem
        return self._table(stem) if self._has_results() else None

    def _on_run(self) -> None:
        """Start a run, or cancel it; what it has found is kept."""
        if self._job is not None:
            self._evaluations.cancel()
            self.note.say(tr("Cancelled. What was found is kept."), warning=False)
        elif self._workbench.session is not None:
            try:
                self._run(self._workbench.session)
            except PruneGuiError as error:
                self.note.say_error(error.brief, error.details)
            except ValueError as error:
                self.note.say(str(error))

    @abstractmethod
    def _run(self, session: Session) -> None:
        """Start the run; raise an error if the inputs are not valid."""

    def _take(self, found: object) -> None:
        """Show what the run has reported: the value of the file, of the start, or a result."""
        if isinstance(found, Dense):
            self._dense = found.evaluation
        elif isinstance(found, EvaluatedRecipe):
            self._start, self._base = found.evaluation, found.recipe
        else:
            self._found.append(found)
        self.refresh()

    def caption(self) -> tuple[str, str]:
        session, choice = self._workbench.session, self._evaluations.choice
        name = session.checkpoint.path.name if session is not None else ""
        return name, f"{self.accessibleName()}: {Path(choice.text).name if choice else ''}"

    def legend(self) -> str:
        return self.plot.legend()

    def is_drawn(self) -> bool:
        return True

    def show_selection(self, *, on: bool) -> None:
        self.plot.show_current(on=on)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.refresh()

    def _lay_out(
        self, settings: Sequence[layouts.Part], results: QWidget, *actions: QWidget
    ) -> None:
        headline = layouts.row((self.headline, 1), *actions)
        if settings:
            rows = [layouts.row(*settings, self.run), headline]
        else:
            headline.addWidget(self.run)
            rows = [headline]
        layouts.column(*rows, self.note, (results, 1), of=self, margin=GAP_PX)
        self._results_widget = results
        self._enable()

    def _say(self, text: str, hint: str = "") -> None:
        """Show a result above the picture in bold; "" to show a hint."""
        self.headline.setFont(bold(self.font()) if text else self.font())
        self.headline.say(text or hint)

    def _levels(self) -> dict[str, float]:
        """Return the values to compare with, by their labels: of the file, and of the stack."""
        metric = self._evaluations.metric
        value = metric.value(self._dense)
        levels = {tr("unpruned {value}", value=value_text(value)): value}
        if self._base is not None and self._base.steps:
            value = metric.value(self._start)
            levels[tr("stack {value}", value=value_text(value))] = value
        return levels

    def _measured_on(self) -> str:
        """Return what the results were measured on, as a sentence; "" without results."""
        if self._base is None or self._start is None:
            return ""
        start = tr("the file")
        if self._base.steps:
            share = number_formats.sparsity(self._start.pruned, self._start.total)
            start = tr("the stack ({sparsity})", sparsity=share)
        return tr("measured on: {start}", start=start)

    def _metric_title(self) -> str:
        if self._dense is None:
            return tr("metric")
        return self._evaluations.metric.title(self._dense)

    def _run_job(self, make_job: MakeJob) -> bool:
        run = self._evaluations.start(make_job)
        if run is None:
            return False
        self.note.say("")
        self._results_widget.setFocus()  # else it would move to any input
        self._job = run
        run.found.connect(self._take)
        run.finished.connect(self._finish)
        run.ended.connect(self._end)
        self._enable()
        return True

    def _finish(self, result: Any) -> None:  # noqa: ANN401 - of the jobs
        """Use the result of a run that has finished."""

    def _end(self, error: str, details: str) -> None:
        """Show why the run has failed, or else why the first of its results has."""
        self._job = None
        failed = next((each for each in self._found if each.error), None)
        if failed is not None and not error:
            error, details = failed.error, failed.details
        if error:
            self.note.say_error(error, details)
        self._enable()

    def _enable(self) -> None:
        evaluations = self._evaluations
        is_ready = self._workbench.session is not None and evaluations.choice is not None
        is_busy = evaluations.run is not None and self._job is None
        self.run.setEnabled(is_ready and not is_busy)
        self.run.setText(tr(self.title) if self._job is None else tr("Cancel"))
        self.run.setToolTip(tr("Another page evaluates now. It can be cancelled there.") * is_busy)
        for action in self.menu.actions():
            action.setEnabled(self._has_results())

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.clear()
            self._enable()


def field(text: str, name: str, tip: str = "") -> QLineEdit:
    """Return a field of the row of the settings."""
    edit = layouts.described(QLineEdit(text), name, tip)
    edit.setMinimumWidth(FIELD_PX)
    return edit


def side_by_side(*parts: QWidget) -> QSplitter:
    """Return a splitter whose first part is the largest, and has its focus."""
    splitter = layouts.split(*parts, sizes=SIZES_PX)
    splitter.setFocusProxy(parts[0])
    return splitter


def value_text(value: float) -> str:
    """Return a value of a metric, with equal digits in a column: 0.9940, 20.63; "" for NaN."""
    if math.isnan(value):
        return ""
    size = abs(value)
    is_usual = size == 0 or 0.001 <= size < 1e6
    return format_number(value, (".4f" if size < 10 else ",.2f") if is_usual else ".4g")


def share_text(share: float) -> str:
    """Return a share of the dense value in percent; "" for NaN."""
    return "" if math.isnan(share) else tr("{percent:.1f} %", percent=100 * share)


def amount_text(amount: Amount) -> str:
    """Return the amount of a step: "50 %", or a number of units."""
    return number_formats.percent(amount) if isinstance(amount, float) else format_number(amount)
