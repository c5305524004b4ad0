"""The bars of all parameters: what is pruned, how many entries there are, and the kept energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QHideEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from prune_gui.gui.views.axes import CountAxis, IndexAxis
from prune_gui.gui.views.maps.map_navigation import go_along_by_keys
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import later, number, tr

if TYPE_CHECKING:
    from prune_gui.audit.statistics.layer_rows import Rows

Numbers = NDArray[np.floating[Any]]

MOST_BARS: Final = 300
AXIS_WIDTH: Final = 104
"""In pixels, for 1,000,000,000; the same for all plots, so that bars stand above each other."""
LEAST_WITH_GAPS: Final = 8
"""Pixels from which on there are gaps between bars; between narrower ones, some would vanish."""
SETTLE: Final = 25
"""Milliseconds in which moves of the picture count as one."""
NAMES: Final = (
    later("Sparsity of each parameter"),
    later("Size of each parameter"),
    later("Kept energy of each parameter"),
)
STRETCHES: Final = (4, 2, 3)
"""How the height is shared; the last has the numbers under it."""
LEAST: Final = (64, 48, 88)
"""Pixels of height with less than which an axis has no room for what it is called."""
PERCENT: Final = [[(0, "0"), (50, "50"), (100, "100")], [(25, ""), (75, "")]]
"""Ticks: those with a number, and those without."""
HEADROOM: Final = 1.02
FAINT: Final = 60
"""The opacity, of 255, of what marks the chosen row."""


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Bars for places next to each other; each stands for one row or for several together.

    Attributes:
        edges: one more than there are bars: the first place of each, and the one after the last.
        codes: of the parts of the bars, from the bottom.
        tops: (codes and one more, bars), shares at which the parts end; the first row is 0.
        total: entries.
        kept: share of the energy that is kept; NaN if not known.
    """

    edges: NDArray[np.intp]
    codes: tuple[int, ...]
    tops: NDArray[np.float64]
    total: NDArray[np.int64]
    kept: NDArray[np.float64]

    @property
    def most(self) -> int:
        """How many rows a bar stands for, at most."""
        return int(np.diff(self.edges).max(initial=1))


def bars_of(rows: Rows, order: NDArray[np.intp], places: range, most: int) -> Bars:
    """Return the bars of some places, at most so many.

    Args:
        rows: what there is.
        order: the row at each place.
        places: of which to draw bars; at least one.
        most: bars; with more places, those next to each other are added up.
    """
    number = min(most, len(places))
    edges = np.linspace(0, len(places), number + 1).astype(np.intp)
    shown, starts = order[places.start : places.stop], edges[:-1]
    total = np.add.reduceat(rows.total[shown], starts)
    counts = np.add.reduceat(rows.counts[:, shown], starts, axis=1)
    tops = np.concatenate([np.zeros((1, number)), np.cumsum(counts, axis=0) / total])
    energy = np.add.reduceat(rows.energy[shown], starts)
    left = np.add.reduceat(rows.kept[shown], starts)
    kept = np.full(number, np.nan)
    np.divide(left, energy, out=kept, where=np.isfinite(energy) & (energy > 0))
    return Bars(edges + places.start, rows.codes, tops, total, kept)


class PlaceAxis(IndexAxis):
    """An axis of places, which are counted from 1."""

    def tickValues(  # noqa: N802
        self, low: float, high: float, size: float
    ) -> list[tuple[float, list[float]]]:
        """Return the places of the ticks by their spacing, at round numbers as they are written."""
        return [
            (spacing, [value - 1 for value in values])
            for spacing, values in super().tickValues(low + 1, high + 1, size)
        ]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        end = 0 if self.end is None else self.end
        return [number(round(value) + 1) if 0 <= value < end else "" for value in values]


class LayerBars(QWidget):
    """Three plots over one another, with a bar per place in each.

    Signals:
        pointed: (place) the cursor is over it; -1 if it is over none.
        clicked: (place) the user wants to see more of it.
    """

    pointed = Signal(int)
    clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: Rows | None = None
        self._order = np.zeros(0, np.intp)
        self._draft: int | None = None
        self._colours: Colours | None = None
        self._chosen: int | None = None
        self._items: list[tuple[Plot, pg.BarGraphItem]] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self.plots: Sequence[Plot] = [
            Plot({"left": axis, "bottom": PlaceAxis("bottom")})
            for axis in (pg.AxisItem("left"), CountAxis("left"), pg.AxisItem("left"))
        ]
        for plot, name, span, least in zip(self.plots, NAMES, STRETCHES, LEAST, strict=True):
            layout.addWidget(plot, span)
            plot.setAccessibleName(tr(name))
            plot.setMouseEnabled(x=True, y=False)
            go_along_by_keys(plot)
            plot.setMinimumHeight(least)
            plot.plotItem.getAxis("left").setWidth(AXIS_WIDTH)
            plot.scene().sigMouseMoved.connect(lambda at, plot=plot: self._point_at(plot, at))
            plot.scene().sigMouseClicked.connect(lambda click, plot=plot: self._click(plot, click))
            plot.left.connect(lambda: self.pointed.emit(-1))
        for plot in self.plots[:-1]:
            plot.setXLink(self.plots[-1])
            plot.plotItem.getAxis("bottom").setStyle(showValues=False)
        self.plots[1].plotItem.getAxis("left").setLogMode(True)
        self.plots[0].label("left", tr("pruned, %"))
        self.plots[1].label("left", tr("entries"))
        self.plots[2].label("left", tr("energy, %"))
        for plot in (self.plots[0], self.plots[2]):
            plot.plotItem.getAxis("left").setTicks(PERCENT)
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self._draw)
        self.plots[-1].view.sigXRangeChanged.connect(self._moved)
        self.plots[-1].view.sigResized.connect(self._moved)

    def show_rows(
        self, rows: Rows, order: NDArray[np.intp], draft: int | None, colours: Colours
    ) -> None:
        """Show rows in an order.

        Args:
            rows: what there is.
            order: the row at each place.
            draft: the number that the draft has as a step.
            colours: of the theme.
        """
        before, self._rows = self._rows, rows
        self._order, self._draft, self._colours = order, draft, colours
        if before is None or before.names is not rows.names:
            places = len(rows)
            for plot in self.plots:
                plot.view.setLimits(xMin=-0.5, xMax=places - 0.5, minXRange=min(4, places))
            self.plots[-1].setXRange(-0.5, places - 0.5, padding=0)
        self._draw()

    def choose(self, place: int | None) -> None:
        """Mark a place."""
        if place != self._chosen:
            self._chosen = place
            self._draw()

    def recolour(self, colours: Colours) -> None:
        """Take other colours; what is shown takes them when it is shown again."""
        for plot in self.plots:
            plot.recolour(colours)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settled.stop()

    def _in_sight(self, places: int) -> range:
        low, high = self.plots[-1].view.viewRange()[0]
        first = min(max(0, int(np.floor(low + 0.5))), places - 1)
        return range(first, max(first + 1, min(places, int(np.ceil(high + 0.5)))))

    def _draw(self) -> None:
        rows, colours = self._rows, self._colours
        if rows is None or colours is None or not len(rows):
            return
        bars = bars_of(rows, self._order, self._in_sight(len(rows)), MOST_BARS)
        width = self.plots[-1].view.width() / len(bars.total)
        gap = 0.1 if width >= LEAST_WITH_GAPS else 0.0
        sides = {"x0": bars.edges[:-1] - 0.5 + gap, "x1": bars.edges[1:] - 0.5 - gap}
        for plot, item in self._items:
            plot.removeItem(item)
        sparsity, size, energy = self.plots
        log_total = np.log10(bars.total)
        top = max(1.0, float(np.log10(rows.total.max()))) * HEADROOM
        zeros = np.zeros(len(bars.total))
        lows, highs = 100 * bars.tops[:-1], 100 * bars.tops[1:]
        self._items = [
            *self._marks(colours, top),
            *(
                (sparsity, _bars(sides, low, high, colours.of(code, self._draft)))
                for code, low, high in zip(bars.codes, lows, highs, strict=True)
            ),
            (sparsity, _bars(sides, 100 * bars.tops[-1], zeros + 100, colours.kept)),
            (size, _bars(sides, zeros, log_total, colours.kept)),
            (energy, _bars(sides, zeros, 100 * np.nan_to_num(bars.kept), colours.kept)),
        ]
        for plot, item in self._items:
            plot.addItem(item, ignoreBounds=True)
        for plot, highest in zip(self.plots, (100 * HEADROOM, top, 100 * HEADROOM), strict=True):
            plot.setYRange(0, highest, padding=0)
        along = tr("place in the table")
        if (most := bars.most) > 1:
            along = tr("place in the table (a bar sums up to {count:,} rows: zoom in)", count=most)
        self.plots[-1].label("bottom", along)
        self.plots[-1].plotItem.getAxis("bottom").end = len(rows)

    def _marks(self, colours: Colours, top: float) -> list[tuple[Plot, pg.BarGraphItem]]:
        """Return something faint to go behind the bars of the chosen place."""
        if self._chosen is None:
            return []
        shade = QColor(colours.foreground)
        shade.setAlpha(FAINT)
        at = np.array([float(self._chosen)])
        sides = {"x0": at - 0.5, "x1": at + 0.5}
        heights = (100 * HEADROOM, top, 100 * HEADROOM)
        marks = [_bars(sides, at * 0, at * 0 + height, shade) for height in heights]
        return list(zip(self.plots, marks, strict=True))

    def _moved(self) -> None:
        if not self._settled.isActive():
            self._settled.start()

    def _place(self, plot: Plot, scene: QPointF) -> int:
        place = round(plot.view.mapSceneToView(scene).x())
        inside = plot.view.sceneBoundingRect().contains(scene)
        return place if inside and 0 <= place < len(self._order) else -1

    def _point_at(self, plot: Plot, scene: QPointF) -> None:
        self.pointed.emit(self._place(plot, scene))

    def _click(self, plot: Plot, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        place = self._place(plot, click.scenePos())
        if place >= 0 and click.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(place)


def _bars(
    sides: Mapping[str, Numbers], low: Numbers, high: Numbers, colour: str | QColor
) -> pg.BarGraphItem:
    return pg.BarGraphItem(**sides, y0=low, y1=high, pen=None, brush=colour)
