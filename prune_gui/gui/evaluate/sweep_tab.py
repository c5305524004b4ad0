"""The page of the dock with the metric as a function of the sparsity, and its list of curves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import QLabel, QListWidget, QListWidgetItem, QWidget

from prune_gui import number_formats
from prune_gui.errors import one_line
from prune_gui.evaluation.evaluation_jobs import (
    CurvePoint,
    SweptStep,
    metric_curves,
    metric_sweep_job,
    of_step,
    rankings,
)
from prune_gui.evaluation.metrics import share_of
from prune_gui.gui import formatting
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.tab import EvaluationTab, amount_text, field, share_text, value_text
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import number_column, text_column
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, join_clauses, tr
from prune_gui.recipe.amounts import has_amount, parse_amounts
from prune_gui.recipe.selector import patterns_in
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import StepRequest
from prune_gui.table import Column, table_of

if TYPE_CHECKING:
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.session import Session
    from prune_gui.table import Table


DEFAULT_AMOUNTS: Final = "50% to 90% by 10%"
DEFAULT_TARGETS: Final = "!dims<2"
CHECKED: Final = ("balanced, LAMP", "global L1", "uniform L1", "LAMP")
"""The rankings that are compared unless the user chooses others."""
COLUMNS: Final[tuple[Column[Sequence[CurvePoint]], ...]] = (
    text_column(deferred("Curve"), lambda each: each.swept.label),
    number_column(deferred("Amount"), lambda each: each.amount, amount_text),
    number_column(
        deferred("Sparsity"), lambda each: each.evaluation.sparsity if each.evaluation else None
    ),
    text_column(deferred("Problem"), lambda each: each.error),
)
SAMPLE_PX: Final = (18, 12)
LINE_PX: Final = 2
"""The width and height of a sample of a curve, and the width of its line."""
CURVES_PX: Final = 190
"""Width of the list of curves."""


class SweepTab(EvaluationTab):
    """Compares rankings, the draft and steps of the stack by the metric over the sparsity."""

    name, title = deferred("Metric by sparsity"), deferred("Sweep")
    amount_wanted = Signal(int, object)  # (index, amount) draft the step with the amount

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._found: list[CurvePoint]
        self.curves = CurveList([tr(label) for label in CHECKED])
        tip = tr("The parameters that the rankings prune: a glob, or conditions")
        self.targets = field(DEFAULT_TARGETS, tr("Targets"), tip)
        self.amounts = field(DEFAULT_AMOUNTS, tr("Amounts"))
        self.plot = MetricPlot(tr("Metric by sparsity"), tr("sparsity, %"))
        self.plot.pointed.connect(self._describe)
        self.plot.taken.connect(self._use)
        targets, amounts = QLabel(tr("Targets")), QLabel(tr("Amounts"))
        results = QWidget()
        results.setFocusProxy(self.plot)
        layouts.row((self.plot, 1), self.curves, of=results, margin=0)
        self._lay_out((targets, (self.targets, 1), amounts, (self.amounts, 1)), results)
        self._offer()
        self.refresh()

    def clear(self) -> None:
        self._offer()
        super().clear()

    def refresh(self) -> None:
        metric, shades = self._evaluations.metric, colours(self.palette())
        self.plot.show_curves(
            metric_curves(self._found, metric), self._levels(), self._metric_title(), shades
        )
        self.curves.mark(self.plot.shades)
        self._describe(None)
        self._enable()

    def _table(self, name: str) -> Table:
        values = [_metric_column(metric) for metric in self._evaluations.metrics]
        columns = (*COLUMNS[:-1], *values, COLUMNS[-1])
        return table_of(f"{name} evaluated sweep", columns, self._found, heading=str)

    def _run(self, session: Session) -> None:
        amounts = parse_amounts(self.amounts.text())
        offered, chosen = self._steps(patterns_in(self.targets.text())), self.curves.checked()
        steps, base = [each for each in offered if each.label in chosen], session.recipe
        for each in steps:
            each.recipe_at(amounts[0], base)  # reports invalid targets at once
        if not steps:
            raise ValueError(tr("Choose at least one curve."))
        if self._run_job(
            lambda evaluator, _: metric_sweep_job(evaluator, session.resolver, base, steps, amounts)
        ):
            self._forget()
            self.refresh()

    def _describe(self, point: CurvePoint | None) -> None:
        if point is None or point.evaluation is None:
            hint = tr("Click a point to use it") if self._found else ""
            self._say("", join_clauses((hint, self._measured_on())))
            return
        metric = self._evaluations.metric
        value = metric.value(point.evaluation)
        text = tr(
            "{curve} at {amount}: {metric} {value}, {share} of the unpruned; {sparsity} pruned",
            curve=point.swept.label,
            amount=amount_text(point.amount),
            metric=metric.title(point.evaluation),
            value=value_text(value) or tr("unknown"),
            share=share_text(share_of(value, metric.value(self._dense))) or tr("unknown"),
            sparsity=number_formats.sparsity(point.evaluation.pruned, point.evaluation.total),
        )
        self._say(join_clauses((text, self._measured_on())))

    def _measured_on(self) -> str:
        if not self._found:
            return ""
        is_file = self._found[0].swept.alone
        return tr("measured on: {start}", start=tr("the file") if is_file else tr("the stack"))

    def _use(self, point: CurvePoint) -> None:
        """Make the step of a point the draft, unless the stack has changed.

        A step that was tried by itself takes the place of a stack, which can be undone.
        """
        session, index = self._workbench.session, point.swept.replaces
        if session is None or point.recipe is None:
            return
        steps = point.recipe.steps
        if point.swept.alone and point.swept.is_ranking and session.steps:
            self._workbench.edit(lambda session: session.take_steps(steps))
            self.note.say(tr("The step has replaced the stack. Undo restores it."), warning=False)
            return
        before = () if point.swept.alone else steps[: -1 if index is None else index]
        if session.steps[: len(before)] != before:
            self.note.say(tr("The stack has changed. Run the sweep again."))
            return
        self.note.say("")
        if index is None:
            self._workbench.draft_wanted.emit(StepRequest(steps[-1]))
        else:
            self.amount_wanted.emit(index, point.amount)

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        if changes.recipe or changes.resolution:
            self._offer()

    @property
    def _draft_label(self) -> str:
        draft = self._workbench.draft.current
        return tr("Draft ({method})", method=tr(draft.step.method.title)) if draft else ""

    def _own_steps(self) -> Iterator[SweptStep]:
        """Yield the draft and the steps of the stack, as far as they have an amount."""
        draft, alone = self._workbench.draft.current, not self._evaluations.after_stack
        if draft is not None and has_amount(draft.step.method):
            yield of_step(self._draft_label, draft.step, draft.replaces, alone=alone)
        for index, step in self._workbench.steps_with_amount:
            title = formatting.title_without_amount(step)
            label = tr("Step {number}: {step}", number=index + 1, step=title)
            yield of_step(one_line(label), step, index, alone=alone)

    def _steps(self, targets: Sequence[str]) -> list[SweptStep]:
        """Return the steps that can be compared; the rankings prune some targets."""
        alone = not self._evaluations.after_stack
        offered = rankings(targets, alone=alone)
        named = [replace(each, label=tr(each.label)) for each in offered]
        return [*named, *self._own_steps()]

    def _offer(self) -> None:
        self.curves.show_labels([each.label for each in self._steps(())], [self._draft_label])
        self.curves.mark(self.plot.shades)


def _metric_column(name: str) -> Column[Sequence[CurvePoint]]:
    """Return the column of a metric; it is only in files."""

    def value(point: CurvePoint) -> float | None:
        return point.evaluation.metrics.get(name) if point.evaluation is not None else None

    return Column(file_title=name, values=lambda points: [value(point) for point in points])


class CurveList(QListWidget):
    """Lists curves by their labels. It remembers what the user chose for a label."""

    def __init__(self, defaults: Collection[str]) -> None:
        super().__init__()
        self._chosen = dict.fromkeys(defaults, True)
        self.setAccessibleName(tr("Curves"))
        self.setToolTip(
            tr("Steps to compare: rankings that need no data, the draft, and those of the stack")
        )
        self.setFrameShape(QListWidget.Shape.NoFrame)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Window)  # on which boxes stand out
        self.setFixedWidth(CURVES_PX)
        self.setIconSize(QSize(*SAMPLE_PX))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.itemChanged.connect(lambda item: self._chosen.update({item.text(): _is_checked(item)}))

    @property
    def by_label(self) -> dict[str, QListWidgetItem]:
        """The items by their labels."""
        return {item.text(): item for item in map(self.item, range(self.count()))}

    def show_labels(self, labels: Sequence[str], further_defaults: Collection[str]) -> None:
        if labels == list(self.by_label):
            return
        self.clear()
        for label in labels:
            is_checked = self._chosen.get(label, label in further_defaults)
            item = QListWidgetItem(label)
            item.setToolTip(label)
            item.setCheckState(Qt.CheckState.Checked if is_checked else Qt.CheckState.Unchecked)
            self.addItem(item)

    def checked(self) -> list[str]:
        return [label for label, item in self.by_label.items() if _is_checked(item)]

    def mark(self, shades: Mapping[str, str]) -> None:
        """Show samples of lines in colours, by label; other labels get none."""
        width, height = SAMPLE_PX
        with QSignalBlocker(self):
            for label, item in self.by_label.items():
                sample = QPixmap(width, height)
                sample.fill(Qt.GlobalColor.transparent)
                if label in shades:
                    with QPainter(sample) as painter:
                        top = (height - LINE_PX) // 2
                        painter.fillRect(0, top, width, LINE_PX, QColor(shades[label]))
                item.setIcon(QIcon(sample))


def _is_checked(item: QListWidgetItem) -> bool:
    return item.checkState() == Qt.CheckState.Checked
