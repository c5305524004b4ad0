"""A table of how much two states prune of each parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from prune_gui.errors import one_line
from prune_gui.language import deferred, format_number, tr

if TYPE_CHECKING:
    from prune_gui.audit.diff.comparison import Overlap
    from prune_gui.audit.table import Table

Index = QModelIndex | QPersistentModelIndex
COLUMNS: Final[tuple[tuple[str, Callable[[Overlap], str | int | float]], ...]] = (
    (deferred("Parameter"), lambda row: row.name),
    (deferred("Both"), lambda row: row.both),
    (deferred("Only left"), lambda row: row.left),
    (deferred("Only right"), lambda row: row.right),
    (deferred("IoU"), lambda row: row.iou),
    (deferred("n:m"), lambda row: _patterns_text(*row.patterns)),
)
"""Heading and sort key of each column."""
TIPS: Final = {
    2: deferred("Pruned on the left, kept on the right: what the right one has revived"),
    3: deferred("Kept on the left, pruned on the right"),
    4: deferred("Pruned in both over pruned in either"),
    5: deferred("n:m patterns that either side follows along the input channels, the left first"),
}
"""Tool tips by column."""
ARROW: Final = "\N{RIGHTWARDS ARROW}"
RIGHT_ALIGNED: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
LEFT_ALIGNED: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
DISPLAY: Final = Qt.ItemDataRole.DisplayRole


class OverlapModel(QAbstractTableModel):
    """A row per parameter, in the order of the file until the user sorts."""

    def __init__(self) -> None:
        super().__init__()
        self._unsorted: Sequence[Overlap] = ()
        self._rows: Sequence[Overlap] = ()
        self._order = (-1, Qt.SortOrder.AscendingOrder)

    def show_rows(self, rows: Sequence[Overlap]) -> None:
        """Replace the rows; the sort order stays."""
        self._unsorted = rows
        self.sort(*self._order)

    def as_table(self, title: str) -> Table:
        """Return the rows in the order on the screen, for export."""
        from prune_gui.audit.table import Table

        figures = {
            tr(heading): [value(row) for row in self._rows] for heading, value in COLUMNS[:-1]
        }
        patterns = [[", ".join(names) for names in row.patterns] for row in self._rows]
        return Table(
            title,
            {
                **figures,
                tr("Entries"): [row.total for row in self._rows],
                tr("n:m on the left"): [left for left, _ in patterns],
                tr("n:m on the right"): [right for _, right in patterns],
            },
        )

    def name(self, row: int) -> str:
        """Return the name of the parameter in a row."""
        return self._rows[row].name

    def row_of(self, name: str | None) -> int | None:
        """Return the row of a parameter; None if it has no row."""
        return next((i for i, row in enumerate(self._rows) if row.name == name), None)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; restore the order of the file if `column` is negative."""
        self._order = column, order
        self.beginResetModel()
        if column < 0:
            self._rows = self._unsorted
        else:
            descending = order == Qt.SortOrder.DescendingOrder
            self._rows = sorted(self._unsorted, key=COLUMNS[column][1], reverse=descending)
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        """Return the number of columns."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = DISPLAY) -> object:
        """Return the text or the alignment of a cell."""
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        name = index.column() == 0
        if role != DISPLAY and not (name and role == Qt.ItemDataRole.ToolTipRole):
            return None
        value = COLUMNS[index.column()][1](self._rows[index.row()])
        if isinstance(value, str):
            return one_line(value)
        return format_number(value) if isinstance(value, int) else format_number(value, ".3f")

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> object:  # noqa: N802
        """Return the heading of a column; numeric columns are sorted in descending order first."""
        if orientation == Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        if role == Qt.ItemDataRole.InitialSortOrderRole:
            return Qt.SortOrder.DescendingOrder if section else Qt.SortOrder.AscendingOrder
        if role == Qt.ItemDataRole.ToolTipRole and section in TIPS:
            return tr(TIPS[section])
        return tr(COLUMNS[section][0]) if role == DISPLAY else None


def _patterns_text(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    """Return the patterns that each side follows; "" if neither follows any."""
    if not left and not right:
        return ""
    before, after = (", ".join(names) or tr("none") for names in (left, right))
    return before if before == after else f"{before} {ARROW} {after}"


def _alignment(column: int) -> Qt.AlignmentFlag:
    return RIGHT_ALIGNED if column else LEFT_ALIGNED


class OverlapTable(QTableView):
    """Shows overlaps; a click on a heading sorts, and a third click restores the order of the file.

    Signals:
        chosen: (name) the user selected the row of a parameter.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Every parameter in both"))
        self._model = OverlapModel()
        self._name: str | None = None
        self._marking = False
        self.setModel(self._model)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setTabKeyNavigation(False)
        self.setFrameShape(self.Shape.NoFrame)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 6)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(48)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self._model.modelReset.connect(self._mark)
        self.selectionModel().currentRowChanged.connect(self._current_row_changed)

    def show_rows(self, rows: Sequence[Overlap]) -> None:
        """Replace the rows."""
        self._model.show_rows(rows)

    def as_table(self, title: str) -> Table:
        """Return the rows in the order on the screen, for export."""
        return self._model.as_table(title)

    def mark(self, name: str | None) -> None:
        """Mark the row of a parameter without emitting `chosen`."""
        if name != self._name:
            self._name = name
            self._mark()

    def _mark(self) -> None:
        row = self._model.row_of(self._name)
        self.executeDelayedItemsLayout()  # otherwise scrolling is limited by the previous rows
        self._marking = True
        if row is None:
            self.selectionModel().clear()
        else:
            self.setCurrentIndex(self._model.index(row, 0))
        self._marking = False

    def _current_row_changed(self, current: QModelIndex) -> None:
        if current.isValid() and not self._marking:
            self.chosen.emit(self._model.name(current.row()))
