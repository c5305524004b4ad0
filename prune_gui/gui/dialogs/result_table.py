"""A table of results that grows while they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from PySide6.QtCore import (
    QAbstractTableModel,
    QMetaMethod,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from prune_gui.audit.table import Cell, Table
from prune_gui.errors import one_line
from prune_gui.language import tr

Row = TypeVar("Row")
Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
ROOT: Final = QModelIndex()
LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of the table.

    Attributes:
        title: the heading, to be translated; not translated in files.
        text: returns the text of a cell; "" for an empty cell.
        value: returns the value of a cell in a file; None for an empty cell.
        is_number: whether the text is aligned to the right.
        tip: returns the tool tip; None for the text of the cell.
    """

    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], Cell]
    is_number: bool = True
    tip: Callable[[Row], str] | None = None


class ResultModel(QAbstractTableModel, Generic[Row]):
    """The model of the results, in the order in which they were added.

    Args:
        columns: the columns, from the left.
    """

    def __init__(self, columns: Sequence[Column[Row]], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._columns = tuple(columns)
        self._rows: list[Row] = []

    @property
    def rows(self) -> tuple[Row, ...]:
        """The results, from the top."""
        return tuple(self._rows)

    def show(self, rows: Sequence[Row]) -> None:
        """Replace all results."""
        self.beginResetModel()
        self._rows = list(rows)
        self.endResetModel()

    def add(self, rows: Sequence[Row]) -> None:
        """Append results."""
        if rows:
            first = len(self._rows)
            self.beginInsertRows(ROOT, first, first + len(rows) - 1)
            self._rows.extend(rows)
            self.endInsertRows()

    def put(self, index: int, row: Row) -> None:
        """Replace the result at an index."""
        self._rows[index] = row
        self.dataChanged.emit(self.index(index, 0), self.index(index, len(self._columns) - 1))

    def remove(self, index: int) -> None:
        """Remove the result at an index."""
        self.beginRemoveRows(ROOT, index, index)
        del self._rows[index]
        self.endRemoveRows()

    def table(self, title: str) -> Table:
        """Return the results as a table for export."""
        columns = {
            column.title: [column.value(row) for row in self._rows] for column in self._columns
        }
        return Table(title, columns)

    # The interface of `QAbstractTableModel`.

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of results."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the heading of a column, or the number of a row, from 1."""
        if orientation == Qt.Orientation.Vertical:
            return section + 1 if role == Role.DisplayRole else None
        if not 0 <= section < len(self._columns):
            return None
        if role == Role.DisplayRole:
            return tr(self._columns[section].title)
        if role == Role.TextAlignmentRole:
            return RIGHT if self._columns[section].is_number else LEFT
        return None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the text, the tool tip or the alignment of a cell."""
        if not index.isValid():
            return None
        column, row = self._columns[index.column()], self._rows[index.row()]
        if role == Role.DisplayRole:
            return one_line(column.text(row))
        if role == Role.ToolTipRole:
            text = (column.tip or column.text)(row)
            return "\n".join(map(one_line, text.split("\n")))
        if role == Role.TextAlignmentRole:
            return RIGHT if column.is_number else LEFT
        return None


class ResultTable(QTableView):
    """A table view of results.

    Args:
        model: the model of the results.
        name: the accessible name, for screen readers.
        wide: the index of the column that takes the remaining width.
    """

    def __init__(self, model: ResultModel[Any], name: str, wide: int) -> None:
        super().__init__()
        self.setModel(model)
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 6)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._wide = wide
        self._fit()
        header.setMinimumSectionSize(72)
        model.rowsInserted.connect(self._fit)

    def _fit(self) -> None:
        """Make Qt measure the columns; after inserting rows, it does not do so by itself."""
        self.horizontalHeader().setSectionResizeMode(self._wide, QHeaderView.ResizeMode.Stretch)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Accept Enter on a row if `activated` is connected, so that no default button gets it."""
        super().keyPressEvent(event)
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        used = self.isSignalConnected(QMetaMethod.fromSignal(self.activated))
        if enter and used and self.currentIndex().isValid():
            event.accept()
