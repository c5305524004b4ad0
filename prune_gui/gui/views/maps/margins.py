"""Profiles at the margins of a picture: a bar for each row and each column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtGui import QFont

from prune_gui.gui.views.axis_limits import drawable, span
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import number, tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.gui.views.plot import Plot

BREADTH = 52
"""Pixels that a profile takes across."""
HEADROOM = 0.45
"""Room for a title beyond the bars, as a share of what they take."""
SMALLER = 0.85
"""The size of a title, of that of other texts."""
MOST = 1500
"""Bars of a profile; more lines are taken together."""

Numbers = NDArray[np.float64]


def bars(means: Numbers, sight: tuple[float, float], most: int = MOST) -> tuple[Numbers, Numbers]:
    """Return the edges and the heights of bars over the lines in sight.

    Args:
        means: one per line; NaN where a line has no entries.
        sight: from, to, in lines.
        most: how many bars; each stands for the mean of its lines.
    """
    first = min(max(0, math.floor(sight[0] + 0.5)), len(means) - 1)
    stop = max(first + 1, min(len(means), math.ceil(sight[1] + 0.5)))
    count = min(most, stop - first)
    edges = first + np.arange(count + 1) * (stop - first) // count
    there = ~np.isnan(means[first:stop])
    sums = np.add.reduceat(np.where(there, means[first:stop], 0.0), edges[:-1] - first)
    lines = np.add.reduceat(there, edges[:-1] - first, dtype=np.int64)
    borders: Numbers = (edges - 0.5).astype(np.float64)
    heights: Numbers = sums / np.maximum(lines, 1)
    return borders, heights


@dataclass(frozen=True, slots=True)
class Titles:
    """What profiles are.

    Attributes:
        columns: what is said of each column.
        rows: likewise.
        shares: whether it is a share, so that the strips reach from 0 to 1.
    """

    columns: str
    rows: str
    shares: bool = False


class Margins:
    """A strip above a plot and one on its right, that move with its picture."""

    def __init__(self, plot: Plot) -> None:
        self._main = plot.view
        self._profiles: Profiles | None = None
        self._above, self._beside = (
            pg.ViewBox(enableMouse=False, enableMenu=False, defaultPadding=0) for _ in range(2)
        )
        self._columns, self._rows = (pg.PlotCurveItem() for _ in range(2))
        self._titles = pg.TextItem(anchor=(0, 0)), pg.TextItem(anchor=(0, 0), angle=-90)
        place = plot.plotItem.layout
        place.removeItem(plot.plotItem.titleLabel)
        place.setHorizontalSpacing(0)
        place.addItem(self._above, 0, 1)
        place.addItem(self._beside, 2, 3)
        self._above.addItem(self._columns)
        self._beside.addItem(self._rows)
        for box, title in zip((self._above, self._beside), self._titles, strict=True):
            title.setParentItem(box)  # stays where it is in pixels, whatever moves in the box
            title.setFont(_smaller(plot.font()))
        self._beside.sigResized.connect(lambda box: self._titles[1].setPos(box.width(), 0))
        self._above.setXLink(self._main)
        self._beside.setYLink(self._main)
        self._beside.invertY(True)
        self._layout = place
        self.set_shown(shown=False)

    def set_shown(self, *, shown: bool) -> None:
        """Give the strips room beside the picture, or none."""
        self._layout.setRowFixedHeight(0, BREADTH if shown else 0)
        self._layout.setColumnFixedWidth(3, BREADTH if shown else 0)
        for box in (self._above, self._beside):
            box.setVisible(shown)

    def show_profiles(self, profiles: Profiles, titles: Titles) -> None:
        """Show profiles along both axes, from zero to the farthest of each, or all shares."""
        self._profiles = profiles
        scales = [
            (0.0, 1.0) if titles.shares else reach(line)
            for line in (profiles.columns, profiles.rows)
        ]
        known = not np.isnan(profiles.columns).all()
        for item, text, scale in zip(
            self._titles, (titles.columns, titles.rows), scales, strict=True
        ):
            if known:
                item.setText(_titled(text, scale, shares=titles.shares))
            else:
                item.setText(tr("{profile}: nothing is finite", profile=text))
        (left, right), (low, high) = with_headroom(scales[1]), with_headroom(scales[0])
        self._above.setYRange(low, high, padding=0)
        self._beside.setXRange(left, right, padding=0)
        self._show(shown=True)
        self.draw()

    def clear(self) -> None:
        """Leave the strips empty."""
        self._profiles = None
        self._show(shown=False)

    def _show(self, *, shown: bool) -> None:
        for item in (self._columns, self._rows, *self._titles):
            item.setVisible(shown)

    def draw(self) -> None:
        """Draw the bars of what is in sight."""
        if self._profiles is None:
            return
        across, down = self._main.viewRange()
        edges, heights = _outline(*bars(drawable(self._profiles.columns), tuple(across)))
        self._columns.setData(edges, heights)
        edges, heights = _outline(*bars(drawable(self._profiles.rows), tuple(down)))
        self._rows.setData(heights, edges)

    def recolour(self, colours: Colours) -> None:
        """Take other colours."""
        for item in (self._columns, self._rows):
            item.setPen(pg.mkPen(colours.in_file, width=1))
            item.setBrush(pg.mkBrush(colours.grid))
            item.setFillLevel("enclosed")
        for title in self._titles:
            title.setColor(colours.foreground)


def reach(means: Numbers) -> tuple[float, float]:
    """Return from where to where bars from zero reach; to 1 if all are zero."""
    known = means[~np.isnan(means)]
    low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    return (low, high) if low < high else (0.0, 1.0)


def with_headroom(scale: tuple[float, float]) -> tuple[float, float]:
    """Return what a strip shows, so that a title fits beyond its bars."""
    low, high = span(*scale)
    return low, high + (high - low) * HEADROOM


def _titled(text: str, scale: tuple[float, float], *, shares: bool) -> str:
    if shares:
        return tr("{profile}, from 0 to 100 %", profile=text)
    low, high = (number(end, ".3g") for end in scale)
    return tr("{profile}, from {low} to {high}", profile=text, low=low, high=high)


def _smaller(font: QFont) -> QFont:
    small = QFont(font)
    small.setPointSizeF(font.pointSizeF() * SMALLER)
    return small


def _outline(edges: Numbers, heights: Numbers) -> tuple[Numbers, Numbers]:
    """Return the outline of bars, from the ground and back to it."""
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
