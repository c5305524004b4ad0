"""A table of results that fills while they come."""

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
    """What of each result a column shows.

    Attributes:
        title: its heading, to be translated; a file has it as it is.
        text: for a person; "" if there is nothing to show.
        value: for a file; None if there is nothing to show.
        is_number: whether it stands on the right.
        tip: what more there is to say.
    """

    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], Cell]
    is_number: bool = True
    tip: Callable[[Row], str] | None = None


class ResultModel(QAbstractTableModel, Generic[Row]):
    """Results in the order in which they came.

    Args:
        columns: from the left.
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
        """Show other results."""
        self.beginResetModel()
        self._rows = list(rows)
        self.endResetModel()

    def add(self, rows: Sequence[Row]) -> None:
        """Show more results below."""
        if rows:
            first = len(self._rows)
            self.beginInsertRows(ROOT, first, first + len(rows) - 1)
            self._rows.extend(rows)
            self.endInsertRows()

    def put(self, place: int, row: Row) -> None:
        """Show a result in the place of another."""
        self._rows[place] = row
        self.dataChanged.emit(self.index(place, 0), self.index(place, len(self._columns) - 1))

    def remove(self, place: int) -> None:
        """Show a result no longer."""
        self.beginRemoveRows(ROOT, place, place)
        del self._rows[place]
        self.endRemoveRows()

    def table(self, title: str) -> Table:
        """Return the results to be taken away."""
        columns = {
            column.title: [column.value(row) for row in self._rows] for column in self._columns
        }
        return Table(title, columns)

    # What Qt asks of a model.

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of results."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        """Return the heading of a column, or the place of a row, from 1."""
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
        """Return what one cell shows."""
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
    """Shows results.

    Args:
        model: of them.
        name: of the table, for who cannot see it.
        wide: the column that takes the room that the others leave.
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
        """Have Qt measure the columns, as it does by itself only when rows change, not come."""
        self.horizontalHeader().setSectionResizeMode(self._wide, QHeaderView.ResizeMode.Stretch)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Keep Enter on a row from a default button as well, if something comes of it here."""
        super().keyPressEvent(event)
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        used = self.isSignalConnected(QMetaMethod.fromSignal(self.activated))
        if enter and used and self.currentIndex().isValid():
            event.accept()
