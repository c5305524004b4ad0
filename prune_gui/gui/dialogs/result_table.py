"""A table of results that grows while they are computed."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QMetaMethod, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHeaderView

from prune_gui.gui.widgets.table_model import RecordModel
from prune_gui.gui.widgets.table_view import TableView

MIN_COLUMN_WIDTH_PX = 72


class ResultTable(TableView):
    """A table view of results, with columns as wide as their texts.

    Args:
        wide: the index of the column that takes the remaining width.
    """

    def __init__(self, model: RecordModel[Any], name: str, wide: int) -> None:
        super().__init__(model, name)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._wide = wide
        self._fit()
        header.setMinimumSectionSize(MIN_COLUMN_WIDTH_PX)
        for changed in (model.rowsInserted, model.dataChanged):
            changed.connect(self._fit)

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
