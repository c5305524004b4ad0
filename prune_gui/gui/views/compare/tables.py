"""The table of what every parameter loses from the left side to the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import Qt

from prune_gui.gui.views.compare.text import LOSS_COLUMNS, LOST
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.language import tr

MIN_COLUMN_WIDTH_PX: Final = 76
MIN_NAME_WIDTH_PX: Final = 200
"""Minimum width of the names. Wider tables scroll."""


class LossTable(ParameterTable[str]):
    """Shows what every parameter loses, the largest loss first."""

    def __init__(self) -> None:
        widths = {"min_name_px": MIN_NAME_WIDTH_PX, "min_column_px": MIN_COLUMN_WIDTH_PX}
        super().__init__(LOSS_COLUMNS, tr("What every parameter loses"), str, **widths)
        self.horizontalHeader().setSortIndicatorClearable(False)

    def show_rows(self, rows: Sequence[str], marked: Callable[[str], bool] | None = None) -> None:
        super().show_rows(rows, marked)
        if self.horizontalHeader().sortIndicatorSection() < 0:
            self.sortByColumn(LOST, Qt.SortOrder.DescendingOrder)

    def _follow_order(self) -> None:
        """Bring the top of the new order to the screen."""
        self._mark()
        self.scrollToTop()
