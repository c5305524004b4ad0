"""The tables of the program: Qt models whose columns are `Column` records, and their views."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import (
    QAbstractTableModel,
    QMetaMethod,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from prune_gui.errors import one_line
from prune_gui.gui.widgets.eliding import elided_name
from prune_gui.language import format_number, tr
from prune_gui.table import Column, Rows, Table, Values, record_column, sorted_rows, table_of

Row = TypeVar("Row")
Number = TypeVar("Number", bound=float)
Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
ROOT: Final = QModelIndex()
LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


ROW_MARGIN_PX = 6
BAR_MARGIN_PX = 2
BAR_ALPHA, SELECTED_BAR_ALPHA = 100, 60  # opacity, of 255, of the bars in cells
MIN_COLUMN_WIDTH_PX = 72
MAX_MEASURED_ROWS = 64
"""Rows of which columns of parameters are as wide as their texts, so that this takes no time."""


def text_column(title: str, text: Callable[[Row], str]) -> Column[Sequence[Row]]:
    """Return a column of words, which are the same on the screen and in files."""
    return record_column(title, text, lambda row: text(row) or None, is_number=False)


def number_column(
    title: str,
    number: Callable[[Row], Number | None],
    text: Callable[[Number], str] = format_number,
) -> Column[Sequence[Row]]:
    """Return a column of numbers. Cells of None are empty, and in files also those of NaN."""

    def shown(row: Row) -> str:
        value = number(row)
        return "" if value is None else text(value)

    def in_file(row: Row) -> Number | None:
        value = number(row)
        return None if value is None or math.isnan(value) else value

    return record_column(title, shown, in_file)


class TableModel(QAbstractTableModel, Generic[Rows]):
    """Shows a collection of rows, in its order."""

    def __init__(self, columns: Sequence[Column[Rows]], rows: Rows) -> None:
        super().__init__()
        self.rows = rows
        self._use_columns(columns)

    def row_at(self, position: int) -> int:
        """Return the row at a position on the screen."""
        return position

    def table(self, title: str) -> Table:
        """Return the rows for export, with headings in English."""
        return table_of(title, self._all_columns, self.rows, heading=str)

    def cell(self, index: Index) -> tuple[str, bool]:
        column = self.columns[index.column()]
        return one_line(column.text(self.rows, self.row_at(index.row()))), column.is_number

    def _use_columns(self, columns: Sequence[Column[Rows]]) -> None:
        self._all_columns = tuple(columns)
        self.columns = tuple(column for column in columns if column.title)

    # The interface of `QAbstractTableModel`.

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        return 0 if parent.isValid() else len(self.columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:  # noqa: ANN401 - as Qt has it
        if orientation == Qt.Orientation.Vertical:
            return section + 1 if role == Role.DisplayRole else None
        if not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == Role.DisplayRole:
            return tr(column.title)
        if role == Role.ToolTipRole:
            return tr(column.tip) or None
        if role == Role.TextAlignmentRole:
            return RIGHT if column.is_number else LEFT
        if role == Role.InitialSortOrderRole and column.descending_first:
            return Qt.SortOrder.DescendingOrder
        return None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        if not index.isValid():
            return None
        if role == Role.DisplayRole:
            return self.cell(index)[0]
        column = self.columns[index.column()]
        if role == Role.ToolTipRole:
            if column.cell_tip is None:
                return self.cell(index)[0]
            return column.cell_tip(self.rows, self.row_at(index.row()))
        if role == Role.TextAlignmentRole:
            return RIGHT if column.is_number else LEFT
        return None


class RecordModel(TableModel[Sequence[Row]], Generic[Row]):
    """Shows records in the order in which they were added."""

    def __init__(self, columns: Sequence[Column[Sequence[Row]]]) -> None:
        super().__init__(columns, ())

    def show(self, records: Iterable[Row]) -> None:
        self.beginResetModel()
        self.rows = tuple(records)
        self.endResetModel()

    def add(self, records: Sequence[Row]) -> None:
        if records:
            first = len(self.rows)
            self.beginInsertRows(ROOT, first, first + len(records) - 1)
            self.rows = (*self.rows, *records)
            self.endInsertRows()

    def update(self, records: Sequence[Row]) -> None:
        """Show other records, but change only those that differ, so that a selection stays."""
        for row, (old, new) in enumerate(zip(self.rows, records, strict=False)):
            if old != new:
                self.put(row, new)
        surplus = len(self.rows) - len(records)
        if surplus > 0:
            self.remove(len(records), surplus)
        self.add(records[len(self.rows) :])

    def put(self, row: int, record: Row) -> None:
        self.rows = (*self.rows[:row], record, *self.rows[row + 1 :])
        self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.columns) - 1))

    def remove(self, first: int, count: int = 1) -> None:
        self.beginRemoveRows(ROOT, first, first + count - 1)
        self.rows = (*self.rows[:first], *self.rows[first + count :])
        self.endRemoveRows()


class SortableModel(TableModel[Rows]):
    """Shows rows sorted by a column, or in their original order."""

    def __init__(self, columns: Sequence[Column[Rows]], rows: Rows) -> None:
        super().__init__(columns, rows)
        self.order = np.arange(len(rows))  # the row at each position
        self._sorted_by: tuple[int, bool] | None = None
        self._keys: Values = ()

    def show(self, rows: Rows, columns: Sequence[Column[Rows]] | None = None) -> None:
        """Show rows in the current sort order. The same row names and titles cause no reset."""
        if columns is None:
            columns = self._all_columns
        if _titles(columns) == _titles(self.columns) and (
            _names(columns, rows) == _names(self._all_columns, self.rows)
        ):
            self._update(rows, columns)
            return
        self.beginResetModel()
        self.rows = rows
        self._use_columns(columns)
        if self._sorted_by is not None and self._sorted_by[0] >= len(self.columns):
            self._sorted_by = None
        self.order = self._row_order()
        self.endResetModel()

    def _update(self, rows: Rows, columns: Sequence[Column[Rows]]) -> None:
        self.rows = rows
        self._use_columns(columns)
        if self._current_keys() is not self._keys:
            self._sort()
        if len(rows):
            last = self.index(len(rows) - 1, len(self.columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def row_at(self, position: int) -> int:
        return int(self.order[position])

    def position_of(self, row: int) -> int:
        return int(np.flatnonzero(self.order == row)[0])

    def table(self, title: str) -> Table:
        return table_of(title, self._all_columns, self.rows, self.order)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 restores the original order."""
        descending = order == Qt.SortOrder.DescendingOrder
        self._sorted_by = (column, descending) if 0 <= column < len(self.columns) else None
        self._sort()

    def _current_keys(self) -> Values:
        return self.columns[self._sorted_by[0]].values(self.rows) if self._sorted_by else ()

    def _row_order(self) -> NDArray[np.intp]:
        self._keys = self._current_keys()
        if self._sorted_by is None:
            return np.arange(len(self.rows))
        return sorted_rows(self._keys, descending=self._sorted_by[1])

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


def _titles(columns: Sequence[Column[Rows]]) -> list[str]:
    return [column.title for column in columns if column.title]


def _names(columns: Sequence[Column[Rows]], rows: Rows) -> Values:
    return columns[0].values(rows) if columns else ()


class TableView(QTableView):
    """A table view of a `TableModel`.

    A `SortableModel` is sorted by a click on a heading; a third click restores its order.
    """

    def __init__(self, model: TableModel[Any], name: str) -> None:
        super().__init__()
        self.setModel(model)
        self.setItemDelegate(CellDelegate(model))
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + ROW_MARGIN_PX)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        if isinstance(model, SortableModel):
            header.setSortIndicatorClearable(True)
            header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
            self.setSortingEnabled(True)


class CellDelegate(QStyledItemDelegate):
    """Paints a cell with one call to the model; one call per role takes several times as long."""

    def __init__(self, model: TableModel[Any]) -> None:
        super().__init__(model)
        self._model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        option.text, is_number = self._model.cell(index)
        option.features |= QStyleOptionViewItem.ViewItemFeature.HasDisplay
        option.displayAlignment = RIGHT if is_number else LEFT

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a bar below the text, and over the background of a selected row."""
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        if not is_selected:
            self._draw_bar(painter, option, index)
        drawn = QStyleOptionViewItem(option)
        self.initStyleOption(drawn, index)
        style = drawn.widget.style()
        if drawn.textElideMode == Qt.TextElideMode.ElideMiddle:
            margin = 1 + style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin)  # of Qt
            width = drawn.rect.width() - 2 * margin
            drawn.text = elided_name(drawn.text, drawn.fontMetrics, width)
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, drawn, painter, drawn.widget)
        if is_selected:
            self._draw_bar(painter, option, index)

    def _draw_bar(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        bar = self._model.columns[index.column()].bar
        share = bar(self._model.rows)[self._model.row_at(index.row())] if bar is not None else 0
        if share > 0:
            rect = QRectF(option.rect).adjusted(BAR_MARGIN_PX, 1, -BAR_MARGIN_PX, -1)
            rect.setWidth(max(BAR_MARGIN_PX, share * rect.width()))
            is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
            roles = QPalette.ColorRole
            colour = option.palette.color(roles.HighlightedText if is_selected else roles.Accent)
            colour.setAlpha(SELECTED_BAR_ALPHA if is_selected else BAR_ALPHA)
            painter.fillRect(rect, colour)


class ResultTable(TableView):
    """A table of results with columns as wide as their texts; column `wide` takes the rest."""

    def __init__(self, model: TableModel[Any], name: str, wide: int) -> None:
        super().__init__(model, name)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._wide = wide
        self._fit()
        header.setMinimumSectionSize(MIN_COLUMN_WIDTH_PX)
        for changed in (model.rowsInserted, model.dataChanged, model.modelReset):
            changed.connect(self._fit)
        header.sortIndicatorChanged.connect(self.scrollToTop)

    def _fit(self) -> None:
        """Make Qt measure the columns; after a change of rows, it does not do so by itself."""
        self.horizontalHeader().setSectionResizeMode(self._wide, QHeaderView.ResizeMode.Stretch)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Accept Enter on a row if `activated` is connected, so that no default button gets it."""
        super().keyPressEvent(event)
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        used = self.isSignalConnected(QMetaMethod.fromSignal(self.activated))
        if enter and used and self.currentIndex().isValid():
            event.accept()


class ParameterTable(TableView, Generic[Row]):
    """Shows rows with the name of a parameter each; the names get the remaining width."""

    chosen = Signal(str)  # (name) the user selected the row of a parameter

    def __init__(
        self,
        columns: Sequence[Column[Sequence[Row]]],
        name: str,
        parameter: Callable[[Row], str],
        *,
        min_name_px: int = 60,
        min_column_px: int = 40,
    ) -> None:
        self._model: SortableModel[Sequence[Any]] = SortableModel(columns, ())
        super().__init__(self._model, name)
        self._parameter = parameter
        self._min_name_px = min_name_px
        self._marked: Callable[[Row], bool] = lambda _: False
        self._marking = False
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setFrameShape(self.Shape.NoFrame)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setMinimumSectionSize(min_column_px)
        header.setResizeContentsPrecision(MAX_MEASURED_ROWS)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Fixed)
        header.sectionResized.connect(self._fit_names)
        self._model.modelReset.connect(self._mark)
        self._model.layoutChanged.connect(self._follow_order)
        self.selectionModel().currentRowChanged.connect(self._current_row_changed)

    def show_rows(self, rows: Sequence[Row], marked: Callable[[Row], bool] | None = None) -> None:
        self._model.show(rows)
        self._fit_names()
        self.mark(marked or self._marked)

    def mark(self, marked: Callable[[Row], bool]) -> None:
        """Mark the first row for which a function holds, without emitting `chosen`."""
        self._marked = marked
        self._mark()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit_names()

    def _fit_names(self, resized: int = 1) -> None:
        if resized > 0:  # another column than that of the names
            others = sum(map(self.columnWidth, range(1, len(self._model.columns))))
            self.setColumnWidth(0, max(self._min_name_px, self.viewport().width() - others))

    def _mark(self) -> None:
        rows = self._model.rows
        row = next((i for i, one in enumerate(rows) if self._marked(one)), None)
        self.executeDelayedItemsLayout()  # otherwise scrolling is limited by the previous rows
        self._marking = True
        if row is None:
            self.selectionModel().clear()
        else:
            index = self._model.index(self._model.position_of(row), 0)
            if index != self.currentIndex():
                self.setCurrentIndex(index)
                self.scrollTo(index)
        self._marking = False

    def _follow_order(self) -> None:
        self._mark()
        self.scrollTo(self.currentIndex())

    def _current_row_changed(self, current: QModelIndex) -> None:
        if current.isValid() and not self._marking:
            self.chosen.emit(self._parameter(self._model.rows[self._model.row_at(current.row())]))
