"""The tree widget, with a selection model that is fast for thousands of rows."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    Qt,
)
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from prune_gui.gui.panels.modules.columns import BARS, ColumnWidths
from prune_gui.gui.panels.modules.delegates import RowDelegate, ShareBar
from prune_gui.gui.panels.modules.model import TreeColumn, TreeModel
from prune_gui.language import tr

INDENTATION_PX: Final = 14
Flag = QItemSelectionModel.SelectionFlag


class WholeRows(QItemSelectionModel):
    """A selection model for whole rows, without Qt's `Rows` flag.

    With the flag, Qt compares each row with all others, which takes seconds for thousands of rows.
    """

    def select(  # type: ignore[override]
        self, what: QModelIndex | QItemSelection, command: QItemSelectionModel.SelectionFlag
    ) -> None:
        """Select or deselect the rows of cells, as `command` says."""
        if isinstance(what, QModelIndex):
            what = QItemSelection(what, what)
        model, rows = self.model(), QItemSelection()
        for cells in what.toList():
            parent = cells.parent()
            last = model.columnCount(parent) - 1
            ends = model.index(cells.top(), 0, parent), model.index(cells.bottom(), last, parent)
            rows.append(QItemSelectionRange(*ends))
        super().select(rows, command & ~Flag.Rows)

    def rows(self) -> list[QModelIndex]:
        """Return the indexes of the selected rows, in the name column."""
        return [
            self.model().index(row, TreeColumn.NAME, rows.parent())
            for rows in self.selection().toList()
            for row in range(rows.top(), rows.bottom() + 1)
        ]


class ModuleTree(QTreeView):
    """The tree view of modules and parameters.

    Attributes:
        selection: the selection model.
    """

    selection: WholeRows

    def __init__(self, model: TreeModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModel(model)
        self.selection = WholeRows(model, self)
        self.setSelectionModel(self.selection)
        self.setAccessibleName(tr("Modules and parameters"))
        self.setUniformRowHeights(True)
        self.setIndentation(INDENTATION_PX)
        self.setAlternatingRowColors(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setItemDelegate(RowDelegate(self, model))
        for column in BARS:
            self.setItemDelegateForColumn(column, ShareBar(self, model))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        ColumnWidths(self, model)
        # Auto scroll would move the names out of view to show the clicked column.
        self.setAutoScroll(False)
        self.selection.currentChanged.connect(
            lambda current, _: self.scrollTo(current.siblingAtColumn(TreeColumn.NAME))
        )

    def selectAll(self) -> None:  # noqa: N802
        """Select the top rows. They stand for all shown parameters except biases and norms."""
        model = self.model()
        if last := model.rowCount():
            first = model.index(0, TreeColumn.NAME)
            rows = QItemSelection(first, model.index(last - 1, TreeColumn.NAME))
            self.selection.setCurrentIndex(first, Flag.NoUpdate)
            self.selection.select(rows, Flag.ClearAndSelect)
