"""Profiles at the margins of a picture: which share of each row and each column is pruned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray

from prune_gui.gui.theme import Colours
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.profiles import Profiles
    from prune_gui.gui.views.plot import Plot

BREADTH = 46
"""Pixels that a profile takes across."""
MOST = 1500
"""Bars of a profile; more lines are taken together."""

Numbers = NDArray[np.float64]


def bars(share: Numbers, sight: tuple[float, float], most: int = MOST) -> tuple[Numbers, Numbers]:
    """Return the edges and the heights of bars over the lines in sight.

    Args:
        share: one per line; NaN where a line has no entries.
        sight: from, to, in lines.
        most: how many bars; each stands for the mean of its lines.
    """
    first = min(max(0, math.floor(sight[0] + 0.5)), len(share) - 1)
    stop = max(first + 1, min(len(share), math.ceil(sight[1] + 0.5)))
    count = min(most, stop - first)
    edges = first + np.arange(count + 1) * (stop - first) // count
    there = ~np.isnan(share[first:stop])
    sums = np.add.reduceat(np.where(there, share[first:stop], 0.0), edges[:-1] - first)
    lines = np.add.reduceat(there, edges[:-1] - first, dtype=np.int64)
    borders: Numbers = (edges - 0.5).astype(np.float64)
    heights: Numbers = sums / np.maximum(lines, 1)
    return borders, heights


class Margins:
    """A strip above a plot and one on its right, that move with its picture."""

    def __init__(self, plot: Plot) -> None:
        self._main = plot.view
        self._profiles: Profiles | None = None
        self._above, self._beside = (
            pg.ViewBox(enableMouse=False, enableMenu=False, defaultPadding=0) for _ in range(2)
        )
        self._columns, self._rows = (pg.PlotCurveItem() for _ in range(2))
        place = plot.plotItem.layout
        place.removeItem(plot.plotItem.titleLabel)
        place.setHorizontalSpacing(0)
        place.addItem(self._above, 0, 1)
        place.addItem(self._beside, 2, 3)
        self._above.addItem(self._columns)
        self._beside.addItem(self._rows)
        self._above.setXLink(self._main)
        self._beside.setYLink(self._main)
        self._beside.invertY(True)
        self._above.setYRange(0, 1, padding=0)
        self._beside.setXRange(0, 1, padding=0)
        self._above.setToolTip(tr("Share pruned of each column"))
        self._beside.setToolTip(tr("Share pruned of each row"))
        self._layout = place
        self.set_shown(shown=False)

    def set_shown(self, *, shown: bool) -> None:
        """Give the strips room beside the picture, or none."""
        self._layout.setRowFixedHeight(0, BREADTH if shown else 0)
        self._layout.setColumnFixedWidth(3, BREADTH if shown else 0)
        for box in (self._above, self._beside):
            box.setVisible(shown)

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the shares along both axes; None leaves the strips empty."""
        self._profiles = profiles
        for item in (self._columns, self._rows):
            item.setVisible(profiles is not None)
        self.draw()

    def draw(self) -> None:
        """Draw the bars of what is in sight."""
        if self._profiles is None:
            return
        across, down = self._main.viewRange()
        edges, heights = _outline(*bars(self._profiles.columns, tuple(across)))
        self._columns.setData(edges, heights)
        edges, heights = _outline(*bars(self._profiles.rows, tuple(down)))
        self._rows.setData(heights, edges)

    def recolour(self, colours: Colours) -> None:
        """Take other colours."""
        for item in (self._columns, self._rows):
            item.setPen(pg.mkPen(colours.in_file, width=1))
            item.setBrush(pg.mkBrush(colours.grid))
            item.setFillLevel("enclosed")


def _outline(edges: Numbers, heights: Numbers) -> tuple[Numbers, Numbers]:
    """Return the outline of bars, from the ground and back to it."""
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
