"""The tree itself, which stays quick whatever is selected in it."""

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

from prune_gui.gui.panels.modules.columns import TreeColumns
from prune_gui.gui.panels.modules.delegates import RowDelegate, SparsityBar
from prune_gui.gui.panels.modules.model import Column, TreeModel
from prune_gui.language import tr

INDENTATION: Final = 14
"""In pixels."""

Flag = QItemSelectionModel.SelectionFlag


class WholeRows(QItemSelectionModel):
    """Selects rows; Qt would compare each with all before it, which takes seconds for thousands."""

    def select(  # type: ignore[override]
        self, what: QModelIndex | QItemSelection, command: QItemSelectionModel.SelectionFlag
    ) -> None:
        """Select or deselect the rows of some cells."""
        if isinstance(what, QModelIndex):
            what = QItemSelection(what, what)
        model, rows = self.model(), QItemSelection()
        for some in what.toList():
            parent = some.parent()
            last = model.columnCount(parent) - 1
            ends = model.index(some.top(), 0, parent), model.index(some.bottom(), last, parent)
            rows.append(QItemSelectionRange(*ends))
        super().select(rows, command & ~Flag.Rows)

    def rows(self) -> list[QModelIndex]:
        """Return the names of the rows that are selected."""
        return [
            self.model().index(row, Column.NAME, rows.parent())
            for rows in self.selection().toList()
            for row in range(rows.top(), rows.bottom() + 1)
        ]


class ModuleTree(QTreeView):
    """Shows modules and parameters.

    Attributes:
        selection: the rows that are selected.
    """

    selection: WholeRows

    def __init__(self, model: TreeModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModel(model)
        self.selection = WholeRows(model, self)
        self.setSelectionModel(self.selection)
        self.setAccessibleName(tr("Modules and parameters"))
        self.setUniformRowHeights(True)
        self.setIndentation(INDENTATION)
        self.setAlternatingRowColors(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setItemDelegate(RowDelegate(self, model))
        self.setItemDelegateForColumn(Column.SPARSITY, SparsityBar(self, model))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        TreeColumns(self)
        self.setAutoScroll(False)  # it would hide the names to show the column clicked on
        self.selection.currentChanged.connect(
            lambda current, _: self.scrollTo(current.siblingAtColumn(Column.NAME))
        )

    def selectAll(self) -> None:  # noqa: N802
        """Select the uppermost rows: they mean all that is shown, but no biases and norms."""
        model = self.model()
        if last := model.rowCount():
            first = model.index(0, Column.NAME)
            rows = QItemSelection(first, model.index(last - 1, Column.NAME))
            self.selection.setCurrentIndex(first, Flag.NoUpdate)
            self.selection.select(rows, Flag.ClearAndSelect)
