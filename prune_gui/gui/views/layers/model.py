"""The Qt model of the table of all parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from prune_gui.audit.view_data.layer_columns import NAME, Column, in_order
from prune_gui.errors import one_line

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
ROOT: Final = QModelIndex()
LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LayersModel(QAbstractTableModel):
    """Shows rows sorted by a column, or in their original order.

    Attributes:
        order: the row at each position.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.order = np.zeros(0, np.intp)
        self._names: Sequence[str] = ()
        self._columns: tuple[Column, ...] = ()
        self._sorted: tuple[int, bool] | None = None

    def show(self, names: Sequence[str], columns: tuple[Column, ...]) -> None:
        """Show rows in the current sort order. Unchanged names and titles cause no reset.

        Args:
            names: names of the rows.
            columns: columns, each with one value per row.
        """
        titles = [column.title for column in columns]
        if names == self._names and titles == [column.title for column in self._columns]:
            before, self._columns = self._columns, columns
            by = self._sorted[0] if self._sorted else NAME
            if before[by].values is not columns[by].values:
                self._sort()
            if names:
                last = self.index(len(names) - 1, len(columns) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self._names, self._columns = names, columns
        if self._sorted is not None and self._sorted[0] >= len(columns):
            self._sorted = None
        self.order = self._row_order()
        self.endResetModel()

    def position_of(self, row: int) -> int:
        """Return the position of a row."""
        return int(np.flatnonzero(self.order == row)[0])

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 restores the original order."""
        descending = order == Qt.SortOrder.DescendingOrder
        self._sorted = (column, descending) if 0 <= column < len(self._columns) else None
        self._sort()

    # QAbstractTableModel

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self._names)

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the heading of a column, or the position of a row, from 1."""
        if orientation == Qt.Orientation.Vertical:
            return section + 1 if role == Role.DisplayRole else None
        if not 0 <= section < len(self._columns):
            return None
        column = self._columns[section]
        if role == Role.DisplayRole:
            return column.title
        if role == Role.ToolTipRole:
            return column.tip
        if role == Role.TextAlignmentRole:
            return RIGHT if column.is_number else LEFT
        return None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the data of a cell for a role."""
        if not index.isValid():
            return None
        if role in (Role.DisplayRole, Role.ToolTipRole):
            return self.cell(index)[0]
        if role == Role.TextAlignmentRole:
            return RIGHT if self._columns[index.column()].is_number else None
        return None

    def cell(self, index: Index) -> tuple[str, bool]:
        """Return the text of a cell, and whether it is a number."""
        column = self._columns[index.column()]
        return one_line(column.text(int(self.order[index.row()]))), column.is_number

    def _row_order(self) -> NDArray[np.intp]:
        if self._sorted is None:
            return np.arange(len(self._names))
        column, descending = self._sorted
        return in_order(self._columns[column], descending=descending)

    def _sort(self) -> None:
        order = self._row_order()
        if np.array_equal(order, self.order):
            return
        self.layoutAboutToBeChanged.emit()
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        before = self.persistentIndexList()
        after = [self.index(int(positions[self.order[i.row()]]), i.column()) for i in before]
        self.order = order
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()


class CellDelegate(QStyledItemDelegate):
    """Paints a cell with one call to the model; one call per role takes several times as long."""

    def __init__(self, model: LayersModel) -> None:
        super().__init__(model)
        self._model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Set the text and the alignment of a cell."""
        option.text, is_number = self._model.cell(index)
        option.features |= QStyleOptionViewItem.ViewItemFeature.HasDisplay
        if is_number:
            option.displayAlignment = RIGHT
