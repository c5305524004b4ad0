"""The page of the dock that prunes one parameter or group at a time, and its coloured table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QModelIndex, QObject, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHeaderView, QLabel, QLineEdit, QSpinBox, QStyledItemDelegate, QWidget

from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import (
    SensitivityRow,
    largest_drop,
    scan_job,
    sensitivity_rows,
)
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.sweep_tab import DEFAULT_TARGETS
from prune_gui.gui.evaluate.tab import EvaluationTab, amount_text, value_text
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import Index, RecordModel, TableView, text_column
from prune_gui.gui.widgets.theme import colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr, trn
from prune_gui.raster.colours import LIGHT, Colours
from prune_gui.recipe.amounts import parse_amounts
from prune_gui.recipe.selector import patterns_in, select
from prune_gui.table import Column, record_column

if TYPE_CHECKING:
    from prune_gui.evaluation import Trial
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.session import Session
    from prune_gui.table import Table


DEFAULT_AMOUNTS: Final = "50%, 80%"
MAX_DEPTH: Final = 20
MAX_EVALUATIONS: Final = 5_000
VALUE_PX: Final = 84
"""Width of the column of an amount."""
NAME_PX: Final = 260
"""Minimum width of the column of the names, in an exported picture."""
DARK_SHARE: Final = 0.5
"""Share of the colour scale above which the text has the colour of the background."""
NAME: Final[Column[Sequence[SensitivityRow]]] = text_column(
    deferred("Pruned"), lambda row: row.label
)


class SensitivityTab(EvaluationTab):
    """Shows the metric for each parameter and amount; a click chooses the parameter."""

    name, title = deferred("Sensitivity"), deferred("Scan")
    with_picture = True

    def __init__(self, workbench: Workbench, evaluations: Evaluations, exporter: Exporter) -> None:
        super().__init__(workbench, evaluations, exporter)
        self._found: list[Trial]
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
        layouts.column((self.heat, 1), self._scale, of=results, margin=0)
        self._count = layouts.remark()
        form = layouts.form(
            (tr("Targets"), self.targets),
            (tr("Group by"), self.group_depth),
            (tr("Amounts"), self.amounts),
            self._count,
        )
        self._lay_out(form, results)
        self.refresh()

    def refresh(self) -> None:
        rows = []
        metric, dense = self._evaluations.metric, self._dense
        if dense is not None:
            rows = sensitivity_rows(self._groups, self._amounts, self._found, dense, metric)
        self.model.show_scan(rows, self._amounts if rows else (), colours(self.palette()))
        self._scale.setText(self.legend())
        self._enable()

    def _has_results(self) -> bool:
        return bool(self.model.rows)

    def picture(self) -> QWidget | None:
        """Return a table with all rows; None without results."""
        if not self._has_results():
            return None
        if self._whole is not None:
            self._whole.deleteLater()
        self._whole = self.heat.whole(self)
        return self._whole

    def legend(self) -> str:
        if self._dense is None:
            return ""
        metric = self._evaluations.metric
        before = tr(
            "{metric} without pruning: {value}",
            metric=metric.title(self._dense),
            value=value_text(metric.value(self._dense)),
        )
        return f"{scale_html(colours(self.palette()))}&nbsp;&nbsp; {before}"

    def _table(self, name: str) -> Table:
        return self.model.table(f"{name} sensitivity")

    def _run(self, session: Session) -> None:
        from prune_gui.evaluation.trials import groups_of  # slow to import

        shares = [float(amount) for amount in parse_amounts(self.amounts.text())]
        patterns = patterns_in(self.targets.text())
        groups = groups_of(session.checkpoint, patterns, self.group_depth.value() or None)
        count = len(groups) * len(shares)
        if max(shares) > 1:
            raise ValueError(tr("Write shares, such as 50% or 0.5."))
        if count > MAX_EVALUATIONS:
            raise PruneGuiError(
                "This would take {count:,} evaluations. Narrow the targets, or group them.",
                count=count,
            )
        if self._start(
            lambda evaluator, metric: scan_job(
                evaluator, session.checkpoint, session.recipe, groups, shares, metric
            )
        ):
            self._groups, self._amounts = groups, tuple(shares)
            self._count.setText(trn("{count:,} evaluation", "{count:,} evaluations", count))
            self.clear()

    def _choose(self, index: QModelIndex) -> None:
        """Choose the parameter of a row, or the first one of its group."""
        session = self._workbench.session
        patterns = self._groups.get(self.model.rows[index.row()].label)
        if session is not None and patterns:
            [first, *_] = select(patterns, session.checkpoint.tensors.values())
            self._workbench.choose(first.name)


class HeatModel(RecordModel[SensitivityRow]):
    """The values of a scan. A cell is the darker, the larger its drop is."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__((NAME,), parent)
        self.amounts: tuple[float, ...] = ()  # the amounts, one per column after the first
        self._largest, self._shades = 0.0, LIGHT

    def show_scan(
        self, rows: Sequence[SensitivityRow], amounts: Sequence[float], shades: Colours
    ) -> None:
        """Show the rows of a scan. The same rows with more values cause no reset."""
        self._largest, self._shades = largest_drop(rows), shades
        labels = [row.label for row in self.rows]
        if tuple(amounts) == self.amounts and [row.label for row in rows] == labels:
            self.rows = tuple(rows)
            if labels:
                last = self.index(len(labels) - 1, len(amounts))
                self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self.rows, self.amounts = tuple(rows), tuple(amounts)
        self._use_columns((NAME, *(_column(at, amount) for at, amount in enumerate(amounts))))
        self.endResetModel()

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401
        is_colour = role in (Qt.ItemDataRole.BackgroundRole, Qt.ItemDataRole.ForegroundRole)
        if not is_colour or not index.isValid() or index.column() == 0:
            return super().data(index, role)
        row, shades = self.rows[index.row()], self._shades
        drop = row.drops[index.column() - 1]
        if math.isnan(drop):
            is_text = role == Qt.ItemDataRole.ForegroundRole
            return QColor(shades.warning) if is_text else None
        share = max(drop, 0.0) / self._largest if self._largest else 0.0
        if role == Qt.ItemDataRole.BackgroundRole:
            return QColor(shades.share(share))
        return QColor(shades.background if share > DARK_SHARE else shades.foreground)


class HeatTable(TableView):
    """Shows a `HeatModel`; names are elided at their left."""

    def __init__(self, model: HeatModel) -> None:
        super().__init__(model, tr("Sensitivity"))
        self.setItemDelegate(QStyledItemDelegate(self))
        self.setAlternatingRowColors(False)
        self.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.verticalHeader().hide()
        model.modelReset.connect(self._fit)

    def whole(self, parent: QWidget) -> HeatTable:
        """Return a hidden table of the same model that shows all rows without scroll bars."""
        model = self.model()
        assert isinstance(model, HeatModel)
        table = HeatTable(model)
        table.setParent(parent)
        for policy in (table.setHorizontalScrollBarPolicy, table.setVerticalScrollBarPolicy):
            policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.setFrameShape(TableView.Shape.NoFrame)
        table._fit()
        names = max(self.sizeHintForColumn(0), NAME_PX)
        height = table.horizontalHeader().sizeHint().height() + table.verticalHeader().length()
        table.resize(names + VALUE_PX * len(model.amounts), height)
        return table

    def _fit(self) -> None:
        """Give the names the width that the values leave."""
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setDefaultSectionSize(VALUE_PX)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)


def scale_html(shades: Colours, steps: int = 8) -> str:
    """Return the colour scale as rich text, from no drop to the largest."""
    swatches = "".join(
        f'<span style="color: {shades.share(at / (steps - 1))}">■</span>' for at in range(steps)
    )
    return "&nbsp;".join((tr("no change"), swatches, tr("largest loss")))


def _column(at: int, amount: float) -> Column[Sequence[SensitivityRow]]:
    def text(row: SensitivityRow) -> str:
        return tr("failed") if row.errors[at] else value_text(row.values[at])

    def value(row: SensitivityRow) -> float | None:
        return None if math.isnan(row.values[at]) else row.values[at]

    def tip(row: SensitivityRow) -> str:
        return row.errors[at] or text(row)

    return record_column(amount_text(amount), text, value, cell_tip=tip)
