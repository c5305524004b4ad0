"""Bars of all parameters: what is pruned, the number of elements, and the kept energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QHideEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from prune_gui.gui.views.axes import CountAxis, IndexAxis
from prune_gui.gui.views.layers.segment_box import Segment, SegmentBox
from prune_gui.gui.views.maps.map_navigation import add_axis_shortcuts
from prune_gui.gui.views.plot import Plot
from prune_gui.language import deferred, format_number, tr
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.statistics.layer_rows import Rows

Numbers = NDArray[np.floating[Any]]

MAX_BARS: Final = 300
AXIS_WIDTH_PX: Final = 60
"""Enough for "100 M". All plots have the same axis width, so their bars are aligned."""
MIN_WIDTH_FOR_GAPS_PX: Final = 8
"""Minimum bar width for gaps between bars; with gaps, narrower bars could vanish."""
SETTLE_MS: Final = 25
"""Interval in which changes of the visible range are merged into one redraw."""
PLOT_NAMES: Final = (
    deferred("Sparsity of each parameter"),
    deferred("Size of each parameter"),
    deferred("Kept energy of each parameter"),
)
STRETCH_FACTORS: Final = (4, 2, 3)
"""Vertical stretch of each plot; the last one also has the tick texts."""
MIN_HEIGHTS_PX: Final = (64, 48, 88)
"""Minimum height of each plot, so that the axis label fits."""
PERCENT_TICKS: Final = [[(0, "0"), (50, "50"), (100, "100")], [(25, ""), (75, "")]]
"""Ticks with a text, and ticks without one."""
UNIT_PREFIXES: Final = ("", " k", " M", " G", " T")
HEADROOM: Final = 1.02
MARK_ALPHA: Final = 60
"""Opacity of the mark of the chosen row, of 255."""


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Bars at adjacent positions. Each bar shows one row, or the sum of several.

    Attributes:
        edges: (bars + 1,), the first position of each bar, and the one after the last.
        codes: code of each segment of a bar, from the bottom.
        tops: (codes + 1, bars), the share at which each segment ends; row 0 is 0.
        total: int64 (bars,), number of elements.
        kept: float64 (bars,), share of the energy that is kept; NaN if it is not known.
    """

    edges: NDArray[np.intp]
    codes: tuple[int, ...]
    tops: NDArray[np.float64]
    total: NDArray[np.int64]
    kept: NDArray[np.float64]

    @property
    def max_rows(self) -> int:
        """Maximum number of rows in one bar."""
        return int(np.diff(self.edges).max(initial=1))


def bars_of(rows: Rows, order: NDArray[np.intp], positions: range, max_bars: int) -> Bars:
    """Return the bars of a range of positions."""
    number = min(max_bars, len(positions))
    edges = np.linspace(0, len(positions), number + 1).astype(np.intp)
    visible_rows, starts = order[positions.start : positions.stop], edges[:-1]
    total = np.add.reduceat(rows.total[visible_rows], starts)
    counts = np.add.reduceat(rows.counts[:, visible_rows], starts, axis=1)
    tops = np.concatenate([np.zeros((1, number)), np.cumsum(counts, axis=0) / total])
    energy = np.add.reduceat(rows.energy[visible_rows], starts)
    kept_energy = np.add.reduceat(rows.kept[visible_rows], starts)
    kept = np.full(number, np.nan)
    np.divide(kept_energy, energy, out=kept, where=np.isfinite(energy) & (energy > 0))
    return Bars(edges + positions.start, rows.codes, tops, total, kept)


class PositionAxis(IndexAxis):
    """An axis of positions, counted from 1."""

    def tickValues(  # noqa: N802
        self, low: float, high: float, size: float
    ) -> list[tuple[float, list[float]]]:
        """Return the tick positions by spacing, so that the displayed numbers are round."""
        return [
            (spacing, [value - 1 for value in values])
            for spacing, values in super().tickValues(low + 1, high + 1, size)
        ]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        end = 0 if self.end is None else self.end
        return [format_number(round(value) + 1) if 0 <= value < end else "" for value in values]


class SizeAxis(CountAxis):
    """A logarithmic axis of counts with short texts: 100, 10 k, 1 M."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick; only powers of ten have one."""
        texts = []
        for value in values:
            thousands, digits = divmod(round(value), 3)
            is_power = value == round(value) and 0 <= thousands < len(UNIT_PREFIXES)
            texts.append(f"{10**digits}{UNIT_PREFIXES[thousands]}" if is_power else "")
        return texts


class LayerBars(QWidget):
    """Three plots above one another, with a bar per position in each.

    Attributes:
        can_drag: returns whether the end of a bar's segment can be dragged, by row and code.

    Signals:
        pointed: (position) the cursor is over this position; -1 if it is over none.
        clicked: (position) the user clicked this position.
        dragged: (row, code, share) the segment of a row is to be this share of its weights.
    """

    pointed = Signal(int)
    clicked = Signal(int)
    dragged = Signal(int, int, float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: Rows | None = None
        self._order = np.zeros(0, np.intp)
        self._draft: int | None = None
        self._colours: Colours | None = None
        self._chosen: int | None = None
        self._items: list[tuple[Plot, pg.BarGraphItem]] = []
        self._bars: Bars | None = None
        self.can_drag: Callable[[int, int], bool] = lambda _row, _code: False
        box = SegmentBox(self._segment_at)
        box.dragged.connect(self.dragged)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self.plots: Sequence[Plot] = [
            Plot({"left": axis, "bottom": PositionAxis("bottom")}, view)
            for axis, view in (
                (pg.AxisItem("left"), box),
                (SizeAxis("left"), None),
                (pg.AxisItem("left"), None),
            )
        ]
        for plot, name, span, min_height in zip(
            self.plots, PLOT_NAMES, STRETCH_FACTORS, MIN_HEIGHTS_PX, strict=True
        ):
            layout.addWidget(plot, span)
            plot.setAccessibleName(tr(name))
            plot.setMouseEnabled(x=True, y=False)
            add_axis_shortcuts(plot)
            plot.setMinimumHeight(min_height)
            plot.plotItem.getAxis("left").setWidth(AXIS_WIDTH_PX)
            plot.scene().sigMouseMoved.connect(lambda at, plot=plot: self._point_at(plot, at))
            plot.scene().sigMouseClicked.connect(lambda click, plot=plot: self._click(plot, click))
            plot.left.connect(lambda: self.pointed.emit(-1))
        for plot in self.plots[:-1]:
            plot.setXLink(self.plots[-1])
            plot.plotItem.getAxis("bottom").setStyle(showValues=False)
        self.plots[1].plotItem.getAxis("left").setLogMode(True)
        self.plots[0].label("left", tr("pruned, %"))
        self.plots[1].label("left", tr("weights"))
        self.plots[2].label("left", tr("energy, %"))
        for plot in (self.plots[0], self.plots[2]):
            plot.plotItem.getAxis("left").setTicks(PERCENT_TICKS)
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self._draw)
        self.plots[-1].view.sigXRangeChanged.connect(self._moved)
        self.plots[-1].view.sigResized.connect(self._moved)

    def show_rows(
        self, rows: Rows, order: NDArray[np.intp], draft: int | None, colours: Colours
    ) -> None:
        """Show rows in an order."""
        before, self._rows = self._rows, rows
        self._order, self._draft, self._colours = order, draft, colours
        if before is None or before.names is not rows.names:
            positions = len(rows)
            for plot in self.plots:
                plot.view.setLimits(xMin=-0.5, xMax=positions - 0.5, minXRange=min(4, positions))
            self.plots[-1].setXRange(-0.5, positions - 0.5, padding=0)
        self._draw()

    def choose(self, position: int | None) -> None:
        """Mark a position."""
        if position != self._chosen:
            self._chosen = position
            self._draw()

    def recolour(self, colours: Colours) -> None:
        """Use other colours; bars change colour when they are drawn next."""
        for plot in self.plots:
            plot.recolour(colours)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timer."""
        super().hideEvent(event)
        self._settle_timer.stop()

    def _in_sight(self, positions: int) -> range:
        low, high = self.plots[-1].view.viewRange()[0]
        first = min(max(0, int(np.floor(low + 0.5))), positions - 1)
        return range(first, max(first + 1, min(positions, int(np.ceil(high + 0.5)))))

    def _draw(self) -> None:
        rows, colours = self._rows, self._colours
        if rows is None or colours is None or not len(rows):
            return
        bars = bars_of(rows, self._order, self._in_sight(len(rows)), MAX_BARS)
        self._bars = bars
        width = self.plots[-1].view.width() / len(bars.total)
        gap = 0.1 if width >= MIN_WIDTH_FOR_GAPS_PX else 0.0
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
        axis_label = tr("row in the table")
        if (rows_per_bar := bars.max_rows) > 1:
            axis_label = tr(
                "row in the table (a bar sums up to {count:,} rows: zoom in)", count=rows_per_bar
            )
        self.plots[-1].label("bottom", axis_label)
        self.plots[-1].plotItem.getAxis("bottom").end = len(rows)

    def _marks(self, colours: Colours, top: float) -> list[tuple[Plot, pg.BarGraphItem]]:
        """Return faint bars behind the chosen position."""
        if self._chosen is None:
            return []
        shade = QColor(colours.foreground)
        shade.setAlpha(MARK_ALPHA)
        at = np.array([float(self._chosen)])
        sides = {"x0": at - 0.5, "x1": at + 0.5}
        heights = (100 * HEADROOM, top, 100 * HEADROOM)
        marks = [_bars(sides, at * 0, at * 0 + height, shade) for height in heights]
        return list(zip(self.plots, marks, strict=True))

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _segment_at(self, x: float, low: float, high: float) -> Segment | None:
        """Return the segment whose end can be dragged at a place; the last one of several.

        Args:
            low: lower end of the range of heights in which its end is, in percent.
        """
        bars, position = self._bars, round(x)
        if bars is None or bars.max_rows > 1 or not bars.edges[0] <= position < bars.edges[-1]:
            return None
        row, bar = int(self._order[position]), position - int(bars.edges[0])
        tops = 100 * bars.tops[:, bar]
        for i, code in reversed(list(enumerate(bars.codes))):
            if low <= tops[i + 1] <= high and self.can_drag(row, code):
                return Segment(row, code, float(tops[i]))
        return None

    def _position_at(self, plot: Plot, scene: QPointF) -> int:
        position = round(plot.view.mapSceneToView(scene).x())
        inside = plot.view.sceneBoundingRect().contains(scene)
        return position if inside and 0 <= position < len(self._order) else -1

    def _point_at(self, plot: Plot, scene: QPointF) -> None:
        self.pointed.emit(self._position_at(plot, scene))

    def _click(self, plot: Plot, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        position = self._position_at(plot, click.scenePos())
        if position >= 0 and click.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(position)


def _bars(
    sides: Mapping[str, Numbers], low: Numbers, high: Numbers, colour: str | QColor
) -> pg.BarGraphItem:
    return pg.BarGraphItem(**sides, y0=low, y1=high, pen=None, brush=colour)
