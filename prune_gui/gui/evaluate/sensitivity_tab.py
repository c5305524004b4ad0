"""The page of the dock that prunes one parameter or group at a time: curves and a heat map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSpinBox, QWidget

from prune_gui.architecture.blocks import short_names
from prune_gui.engine import Job
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import (
    SensitivityRow,
    scan_job,
    sensitivity_curve,
    sensitivity_rows,
)
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.sweep_tab import DEFAULT_TARGETS
from prune_gui.gui.evaluate.tab import EvaluationTab, amount_text, field, side_by_side, value_text
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.views.legend_text import SEPARATOR, scale
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.grid_painter import Cell
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import text_column
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, join_clauses, tr
from prune_gui.raster.colours import Colours
from prune_gui.recipe.amounts import parse_amounts
from prune_gui.recipe.selector import patterns_in
from prune_gui.table import Column, record_column, table_of

if TYPE_CHECKING:
    from prune_gui.evaluation import Trial
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.session import Session
    from prune_gui.table import Table


DEFAULT_AMOUNTS: Final = "50%, 70%, 90%"
LIGHTEST: Final = 0.3
"""The lightest colour of a curve, as a share of the scale: lighter lines cannot be seen."""
SCALE_STEPS: Final = 5
MAX_NAMES: Final = 12
"""Number of the most sensitive curves that have their names in the plot if there is room."""
MAX_DEPTH: Final = 20
MAX_EVALUATIONS: Final = 5_000
NAME: Final[Column[Sequence[SensitivityRow]]] = text_column(
    deferred("Pruned"), lambda row: row.label
)


class SensitivityTab(EvaluationTab):
    """Shows the metric for each parameter and amount; a click chooses the parameter."""

    name, title = deferred("Sensitivity"), deferred("Scan")

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._found: list[Trial]
        self._groups: Mapping[str, Sequence[str]] = {}
        self._names: dict[str, str] = {}  # the label of the group of each parameter
        self._amounts: tuple[float, ...] = ()
        self._arrangement: Arrangement | None = None
        self.rows: list[SensitivityRow] = []
        tip = tr("The parameters to prune: a glob, or conditions")
        self.targets = field(DEFAULT_TARGETS, tr("Targets"), tip)
        self.amounts = field(DEFAULT_AMOUNTS, tr("Amounts"))
        self.group_depth = QSpinBox(minimum=0, maximum=MAX_DEPTH)
        self.group_depth.setSpecialValueText(tr("Each parameter"))
        self.group_depth.setToolTip(
            tr("Prune the parameters together whose names begin with the same parts, this many")
        )
        self.plot = MetricPlot(tr("Metric by amount"), tr("amount, %"))
        self.plot.pointed.connect(self._describe)
        self.plot.taken.connect(lambda trial: self._choose(trial.label))
        self.amount = Choice(tr("Amount of the heat map"), (), self.refresh)
        self.grid = BlockGrid(tr("Heat map"))
        self.grid.pointed.connect(self._point_at)
        self.grid.opened.connect(workbench.choose)
        self._scale = QLabel(textFormat=Qt.TextFormat.RichText)
        map_ = QWidget()
        scale = layouts.row(self.amount, self._scale, layouts.STRETCH)
        layouts.column(scale, (self.grid, 1), of=map_, margin=0)
        targets, amounts = QLabel(tr("Targets")), QLabel(tr("Amounts"))
        fields = targets, (self.targets, 2), self.group_depth, amounts, (self.amounts, 1)
        self._lay_out(fields, side_by_side(self.plot, map_))
        self.refresh()

    def refresh(self) -> None:
        metric, shades = self._evaluations.metric, colours(self.palette())
        self.rows = []
        if self._start is not None:
            start, groups = self._start, self._groups
            self.rows = sensitivity_rows(groups, self._amounts, self._found, start, metric)
        self._largest = max((row.largest_drop for row in self.rows), default=0.0)
        lightest = LIGHTEST * self._largest
        drops = [self._shade(max(row.largest_drop, lightest), shades) for row in self.rows]
        curves, title = [*map(sensitivity_curve, self.rows)], self._metric_title()
        self.plot.show_curves(curves, self._levels(), title, shades, drops)
        labels = [row.label for row in sorted(self.rows, key=lambda row: -row.largest_drop)]
        short = [".".join(filter(None, parts)) for parts in short_names(labels)]
        self.plot.name_curves(dict(zip(labels[:MAX_NAMES], short, strict=False)), shades)
        amounts = [(amount_text(each), at) for at, each in enumerate(self._amounts)]
        self.amount.offer(amounts, len(amounts) - 1)
        cells = {row.label: self._cell(row, shades) for row in self.rows}
        names, unknown = self._names, Cell("")
        if self._arrangement is not None:
            self.grid.show_cells(
                self._arrangement, lambda name: cells.get(names[name], unknown), shades
            )
        for part in (self.amount, self.grid):
            part.setVisible(self._arrangement is not None)
        self._scale.setText(_scale(shades) if self._found else "")
        self._describe(None)
        self._enable()

    def _shade(self, drop: float, shades: Colours) -> str:
        return shades.share(max(drop, 0.0) / self._largest if self._largest else 0.0)

    def _cell(self, row: SensitivityRow, shades: Colours) -> Cell:
        at: int = self.amount.value or 0
        trial = row.trials[at] if row.trials else None
        if trial is not None and trial.error:
            return Cell(tr("failed"), shades.warning)
        drop = row.drops[at] if trial is not None else math.nan
        known = not math.isnan(drop)
        return Cell(value_text(row.values[at]), self._shade(drop, shades) if known else "")

    def picture(self) -> QWidget | None:
        return self.grid if self._arrangement is not None and self._found else None

    def legend(self) -> str:
        amount = tr("at {amount}", amount=self.amount.currentText())
        return f"{_scale(colours(self.palette()))}{SEPARATOR}{amount}" if self._found else ""

    def _table(self, name: str) -> Table:
        values = [_column(at, amount) for at, amount in enumerate(self._amounts)]
        return table_of(f"{name} sensitivity", (NAME, *values), self.rows, heading=str)

    def _run(self, session: Session) -> None:
        from prune_gui.evaluation.trials import groups_of, names_by_group  # slow to import

        shares = [float(amount) for amount in parse_amounts(self.amounts.text())]
        patterns = patterns_in(self.targets.text())
        base, depth = self._evaluations.base(session), self.group_depth.value() or None
        groups = groups_of(session.checkpoint, patterns, depth, base.protect)
        count = len(groups) * len(shares)
        if max(shares) > 1:
            raise ValueError(tr("Write shares, such as 50% or 0.5."))
        if count > MAX_EVALUATIONS:
            raise PruneGuiError(
                "This would take {count:,} evaluations. Narrow the targets, or group them.",
                count=count,
            )
        if not self._run_job(
            lambda evaluator, metric: scan_job(
                evaluator, session.checkpoint, base, groups, shares, metric
            )
        ):
            return
        self.clear()
        tensors = session.checkpoint.tensors
        protected, labels = session.protected, names_by_group(tensors, depth)
        names = {n: label for label in groups for n in labels[label] if n not in protected}
        self._groups, self._amounts, self._names = groups, tuple(shares), names

        def show(arrangement: Arrangement) -> None:
            if self._names is names:
                self._arrangement = arrangement
                self.refresh()

        job = Job(deferred("Arranging the parameters"), lambda _: Arrangement.of(tensors, names))
        self._workbench.bridge.run(job, show)

    def _forget(self) -> None:
        super()._forget()
        self._groups, self._names, self._arrangement = {}, {}, None

    def _choose(self, label: str) -> None:
        """Choose the parameter, or the first one of a group."""
        name = next((name for name, each in self._names.items() if each == label), None)
        if name is not None:
            self._workbench.choose(name)

    def _point_at(self, name: str) -> None:
        """Ring the point of the parameter under the cursor in the heat map."""
        label, at = self._names.get(name), self.amount.value or 0
        row = next((row for row in self.rows if row.label == label), None)
        trial = row.trials[at] if row is not None else None
        self.plot.ring(trial)
        self._describe(trial)

    def _describe(self, trial: Trial | None) -> None:
        """Describe a trial, or without one the most sensitive parameter; mark it in the grid."""
        label = trial.label if trial is not None else None
        self.grid.mark([name for name, each in self._names.items() if each == label])
        text = ""
        if trial is not None and trial.error:
            text = f"{label}: {trial.error}"
        elif trial is None and self._largest:
            worst = max(self.rows, key=lambda row: row.largest_drop)
            trial = worst.trials[worst.drops.index(worst.largest_drop)]
            text = tr("Most sensitive: {result}", result=self._result(trial))
        elif trial is not None:
            text = self._result(trial)
        self._say(join_clauses((text, self._measured_on())))

    def _result(self, trial: Trial | None) -> str:
        assert trial is not None
        return tr(
            "{label}, {metric} {value} at {amount}",
            label=trial.label,
            amount=amount_text(trial.amount),
            metric=self._metric_title(),
            value=value_text(self._evaluations.metric.value(trial.evaluation)),
        )


def _scale(shades: Colours) -> str:
    """Return the colour scale as rich text, from no drop to the largest."""
    swatches = [(shades.share(at / SCALE_STEPS), "") for at in range(SCALE_STEPS)]
    return scale(tr("no change"), [*swatches, (shades.share(1.0), tr("largest loss"))])


def _column(at: int, amount: float) -> Column[Sequence[SensitivityRow]]:
    def value(row: SensitivityRow) -> float | None:
        return None if math.isnan(row.values[at]) else row.values[at]

    return record_column(amount_text(amount), lambda row: value_text(row.values[at]), value)
