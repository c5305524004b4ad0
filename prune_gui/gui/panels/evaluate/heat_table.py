"""The table of a sensitivity scan: a row for each parameter, with a colour for each value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QWidget

from prune_gui.gui.panels.evaluate.texts import amount_text, value_text
from prune_gui.gui.widgets.table_model import Index, RecordModel
from prune_gui.gui.widgets.table_view import TableView
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import LIGHT, Colours
from prune_gui.session.evaluations.sensitivity import SensitivityRow, largest_drop
from prune_gui.table import Column, record_column

VALUE_PX: Final = 84
"""Width of the column of an amount."""
NAME_PX: Final = 260
"""Minimum width of the column of the names, in an exported picture."""
DARK_SHARE: Final = 0.5
"""Share of the colour scale above which the text has the colour of the background."""
NAME: Final[Column[Sequence[SensitivityRow]]] = record_column(
    deferred("Pruned"), lambda row: row.label, lambda row: row.label, is_number=False
)


class HeatModel(RecordModel[SensitivityRow]):
    """The values of a scan. A cell is the darker, the larger its drop is.

    Attributes:
        amounts: the amounts, one per column after the first.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__((NAME,), parent)
        self.amounts: tuple[float, ...] = ()
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
        """Return the data of a cell for a role."""
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
