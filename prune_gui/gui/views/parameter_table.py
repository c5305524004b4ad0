"""A table whose rows each lead to a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView

from prune_gui.gui.widgets.table_widgets import SortableModel, TableView
from prune_gui.table import Column, Table

Row = TypeVar("Row")


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
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Fixed)
        header.sectionResized.connect(self._fit_names)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
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

    def as_table(self, title: str) -> Table:
        return self._model.table(title)

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
