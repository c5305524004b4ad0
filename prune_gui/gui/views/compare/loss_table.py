"""What every parameter loses from the left side to the right: a table, and cells by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import Qt

from prune_gui.comparison.state_losses import StateLosses
from prune_gui.gui.views.compare.text import (
    ERROR,
    LOSS_COLUMNS,
    LOST,
    UNDEFINED,
    UNKNOWN,
    LossScale,
)
from prune_gui.gui.views.overview.grid_painter import Cell
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.language import tr
from prune_gui.number_formats import sparsity_share
from prune_gui.raster.colours import Colours
from prune_gui.table import Table

MIN_COLUMN_WIDTH_PX: Final = 48
MIN_NAME_WIDTH_PX: Final = 176
"""Minimum width of the names. Wider tables scroll."""


def loss_cells(
    losses: StateLosses, loss_scale: LossScale, colours: Colours
) -> Callable[[str], Cell]:
    """Return a function from names to cells."""
    rows = {name: row for row, name in enumerate(losses)}

    def cell_of(name: str) -> Cell:
        row = rows[name]
        share = float(losses.lost[row])
        if math.isnan(share):
            return Cell(UNDEFINED if losses.measures["known"][row] else UNKNOWN, is_faint=True)
        return Cell(sparsity_share(share), loss_scale.colour(share, colours), is_faint=not share)

    return cell_of


class LossTable(ParameterTable[str]):
    """Shows what every parameter loses, the largest loss first."""

    def __init__(self) -> None:
        widths = {"min_name_px": MIN_NAME_WIDTH_PX, "min_column_px": MIN_COLUMN_WIDTH_PX}
        super().__init__(LOSS_COLUMNS, tr("What every parameter loses"), str, **widths)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)  # names of layers differ at the end
        self.horizontalHeader().setSortIndicatorClearable(False)
        self.horizontalHeader().sortIndicatorChanged.connect(self.scrollToTop)

    def show_rows(self, rows: Sequence[str], marked: Callable[[str], bool] | None = None) -> None:
        """Show rows without scrolling: the order changes while weights are read."""
        before = self.verticalScrollBar().value()
        super().show_rows(rows, marked)
        self.verticalScrollBar().setValue(before)
        assert isinstance(rows, StateLosses)
        self.setColumnHidden(ERROR, bool(np.isnan(rows.errors).all()))
        if self.horizontalHeader().sortIndicatorSection() < 0:
            self.sortByColumn(LOST, Qt.SortOrder.DescendingOrder)

    def as_table(self, title: str) -> Table:
        table = super().as_table(title)
        hidden = tr(LOSS_COLUMNS[ERROR].file_title) if self.isColumnHidden(ERROR) else None
        return Table(title, {head: each for head, each in table.columns.items() if head != hidden})

    def _follow_order(self) -> None:
        """Do not scroll, see `show_rows`."""
