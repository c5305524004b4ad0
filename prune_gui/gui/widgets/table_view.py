"""The table of the program: whole rows are selected, and a cell is painted with one call."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from prune_gui.gui.widgets.table_model import LEFT, RIGHT, Index, TableModel

ROW_MARGIN_PX = 6


class TableView(QTableView):
    """A table view of a `TableModel`."""

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
        self.horizontalHeader().setHighlightSections(False)


class CellDelegate(QStyledItemDelegate):
    """Paints a cell with one call to the model; one call per role takes several times as long."""

    def __init__(self, model: TableModel[Any]) -> None:
        super().__init__(model)
        self._model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Set the text and the alignment of a cell."""
        option.text, is_number = self._model.cell(index)
        option.features |= QStyleOptionViewItem.ViewItemFeature.HasDisplay
        option.displayAlignment = RIGHT if is_number else LEFT
