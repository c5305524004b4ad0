"""The page of the dock that prunes one parameter or group at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QFormLayout, QLabel, QLineEdit, QSpinBox, QVBoxLayout, QWidget

from prune_gui.errors import PruneGuiError
from prune_gui.gui.evaluations import Evaluations
from prune_gui.gui.panels.evaluate.heat_table import HeatModel, HeatTable, scale_html
from prune_gui.gui.panels.evaluate.sweep_tab import DEFAULT_TARGETS
from prune_gui.gui.panels.evaluate.tab import EvaluationTab
from prune_gui.gui.panels.evaluate.texts import value_text
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr, trn
from prune_gui.recipe.amounts import parse_amounts
from prune_gui.recipe.selector import patterns_in, select
from prune_gui.session.evaluations.sensitivity import sensitivity_rows
from prune_gui.worker.evaluation_jobs import Dense, scan_job

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Trial
    from prune_gui.gui.export.exporter import Exporter
    from prune_gui.table import Table

DEFAULT_AMOUNTS: Final = "50%, 80%"
MAX_DEPTH: Final = 20
MAX_EVALUATIONS: Final = 5_000


class SensitivityTab(EvaluationTab):
    """Shows the metric for each parameter and amount; a click chooses the parameter."""

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter, tr("Scan"), with_picture=True)
        self.setAccessibleName(tr("Sensitivity"))
        self._dense: Evaluation | None = None
        self._trials: list[Trial] = []
        self._groups: Mapping[str, Sequence[str]] = {}
        self._amounts: tuple[float, ...] = ()
        self._whole: HeatTable | None = None
        self.targets = QLineEdit(DEFAULT_TARGETS)
        self.targets.setToolTip(tr("The parameters to prune: a glob, or conditions"))
        self.amounts = QLineEdit(DEFAULT_AMOUNTS)
        self.group_depth = QSpinBox(minimum=0, maximum=MAX_DEPTH)
        self.group_depth.setSpecialValueText(tr("Each parameter"))
        self.group_depth.setToolTip(
            tr("Prune the parameters together whose names begin with the same parts, this many")
        )
        self.model = HeatModel(self)
        self.heat = HeatTable(self.model)
        self.heat.clicked.connect(self._choose)
        self.heat.activated.connect(self._choose)
        self._scale = QLabel(textFormat=Qt.TextFormat.RichText)
        results = QWidget()
        results.setFocusProxy(self.heat)
        column = QVBoxLayout(results)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.heat, 1)
        column.addWidget(self._scale)
        self._count = QLabel(wordWrap=True)
        self._count.setForegroundRole(self._count.palette().ColorRole.PlaceholderText)
        form = QFormLayout()
        form.addRow(tr("Targets"), self.targets)
        form.addRow(tr("Group by"), self.group_depth)
        form.addRow(tr("Amounts"), self.amounts)
        form.addRow(self._count)
        self._lay_out(form, results)
        self.refresh()

    def clear(self) -> None:
        """Remove the results."""
        self._dense, self._trials = None, []
        self.refresh()

    def refresh(self) -> None:
        """Show the values with the current metric."""
        rows = []
        metric, dense = self._evaluations.metric, self._dense
        if dense is not None:
            rows = sensitivity_rows(self._groups, self._amounts, self._trials, dense, metric)
        self.model.show_scan(rows, self._amounts if rows else (), colours(self.palette()))
        self._scale.setText(self.legend())
        self._enable()

    def _has_results(self) -> bool:
        return bool(self.model.rows)

    def picture(self) -> QWidget | None:
        """Return a table with all rows; None without results."""
        if not self.model.rows:
            return None
        if self._whole is not None:
            self._whole.deleteLater()
        self._whole = self.heat.whole(self)
        return self._whole

    def legend(self) -> str:
        """Return the meaning of the colours as rich text."""
        if self._dense is None:
            return ""
        metric = self._evaluations.metric
        before = tr(
            "{metric} without pruning: {value}",
            metric=metric.title(self._dense),
            value=value_text(metric.value(self._dense)),
        )
        return f"{scale_html(colours(self.palette()))}&nbsp;&nbsp; {before}"

    def table(self) -> Table | None:
        """Return the values as a table; None without results."""
        session = self._workbench.session
        if session is None or not self.model.rows:
            return None
        return self.model.table(f"{session.checkpoint.path.stem} sensitivity")

    def _run(self) -> None:
        from prune_gui.evaluation.scan import groups_of  # slow to import

        session = self._workbench.session
        if session is None:
            return
        try:
            shares = [float(amount) for amount in parse_amounts(self.amounts.text())]
            patterns = patterns_in(self.targets.text())
            groups = groups_of(session.checkpoint, patterns, self.group_depth.value() or None)
        except (ValueError, PruneGuiError) as error:
            self.note.say(str(error))
            return
        count = len(groups) * len(shares)
        if max(shares) > 1:
            self.note.say(tr("Write shares, such as 50% or 0.5."))
            return
        if count > MAX_EVALUATIONS:
            self.note.say(
                tr(
                    "This would take {count:,} evaluations. Narrow the targets, or group them.",
                    count=count,
                )
            )
            return
        if self._start(
            lambda evaluator, metric: scan_job(evaluator, session, groups, shares, metric)
        ):
            self._groups, self._amounts = groups, tuple(shares)
            self._dense, self._trials = None, []
            self._count.setText(trn("{count:,} evaluation", "{count:,} evaluations", count))
            self.refresh()

    def _take(self, found: object) -> None:
        from prune_gui.evaluation import Trial  # loaded by the job that reports it

        if isinstance(found, Dense):
            self._dense = found.evaluation
        elif isinstance(found, Trial):
            self._trials.append(found)
        self.refresh()

    def _choose(self, index: QModelIndex) -> None:
        """Choose the parameter of a row, or the first one of its group."""
        session = self._workbench.session
        patterns = self._groups.get(self.model.rows[index.row()].label)
        if session is not None and patterns:
            [first, *_] = select(patterns, session.checkpoint.tensors.values())
            self._workbench.choose(first.name)
