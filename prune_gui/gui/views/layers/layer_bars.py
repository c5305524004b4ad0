"""Bars of all parameters: what is pruned, the number of elements, and the kept energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QHideEvent, QPainter
from PySide6.QtWidgets import QApplication, QWidget

from prune_gui.gui.views.bars.data import visible_positions
from prune_gui.gui.views.controls import add_axis_shortcuts
from prune_gui.gui.views.layers.data import MAX_BARS, Bars, bars_of
from prune_gui.gui.views.plot import CountAxis, Plot, bar_item, kept_cap
from prune_gui.gui.views.view import SETTLE_MS
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import SMALL, TIGHT_PX, scaled
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.architecture.blocks import ShortName
    from prune_gui.statistics.layer_rows import Rows


AXIS_WIDTH_PX: Final = 60
"""Enough for "100 M". All plots have the same axis width, so their bars are aligned."""
MIN_WIDTH_FOR_GAPS_PX: Final = 8
"""Minimum bar width for gaps between bars; with gaps, narrower bars could vanish."""
PLOT_NAMES: Final = (
    deferred("Sparsity of each parameter"),
    deferred("Size of each parameter"),
    deferred("Kept energy of each parameter"),
)
STRETCH_FACTORS: Final = (4, 2, 4)
"""Vertical stretch of each plot; the last one also has the tick texts."""
MIN_HEIGHTS_PX: Final = (64, 48, 88)  # minimum height of each plot
AROUND_LABEL_PX: Final = (12, 12, 72)
"""Height of each plot beyond its left axis, so that the label of the axis fits."""
PERCENT_TICKS: Final = [[(0, "0"), (50, "50"), (100, "100")], [(25, ""), (75, "")]]
UNIT_PREFIXES: Final = ("", " k", " M", " G", " T")
HEADROOM: Final = 1.02
MARK_ALPHA: Final = 60
MAX_NAMES_PX, MAX_NAMES_SHARE = 64, 0.35
"""Maximum height of the names below the bars, and the same as a share of the plot."""
LINE_PX: Final = 18  # height of a line of an axis: the blocks, or a remark
ELIDED: Final = Qt.TextElideMode.ElideMiddle
RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
CENTRE: Final = Qt.AlignmentFlag.AlignCenter
REACH_PX: Final = 6  # maximum distance of the cursor from the end of a segment that it grabs


class Segment(NamedTuple):
    """A segment of the bar of a row: its code, and its lower end in percent."""

    row: int
    code: int
    bottom: float


class SegmentBox(pg.ViewBox):  # type: ignore[misc]
    """The view box of bars from 0 to 100 percent. A drag pans, or moves the end of a segment."""

    dragged = Signal(int, int, float)  # (row, code, share) the segment is to have this height

    def __init__(self, segment_at: Callable[[float, float, float], Segment | None]) -> None:
        super().__init__(enableMenu=False)
        self._segment_at = segment_at
        self._segment: Segment | None = None

    def mouseDragEvent(  # noqa: N802
        self, event: pg.GraphicsScene.mouseEvents.MouseDragEvent, axis: int | None = None
    ) -> None:
        if event.isStart():
            left = axis is None and event.button() == Qt.MouseButton.LeftButton
            self._segment = self._grabbed(event.buttonDownPos()) if left else None
        if self._segment is None:
            super().mouseDragEvent(event, axis=axis)
            return
        event.accept()
        row, code, bottom = self._segment
        height = self.mapToView(QPointF(event.pos())).y() - bottom
        self.dragged.emit(row, code, min(max(height / 100, 0.0), 1.0))

    def hoverEvent(self, event: pg.GraphicsScene.mouseEvents.HoverEvent) -> None:  # noqa: N802
        if not event.isExit() and self._grabbed(event.pos()):
            self.setCursor(Qt.CursorShape.SizeVerCursor)
        else:
            self.unsetCursor()

    def _grabbed(self, pos: QPointF) -> Segment | None:
        above, below = QPointF(0, REACH_PX), QPointF(pos)
        high, low = self.mapToView(below - above), self.mapToView(below + above)
        return self._segment_at(high.x(), low.y(), high.y())


class NameAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of short names, which run upwards if they are wide, above the names of blocks.

    If the rows are not in the order of the network, each name has its block in front.
    """

    def __init__(self) -> None:
        super().__init__("bottom")
        self._names: Sequence[ShortName] = ()  # of rows
        self._order = np.zeros(0, np.intp)  # the row at each position
        self._blocks: list[str] = []  # of positions, as the labels
        self._labels: list[str] = []
        self._pitch = self._names_px = 0.0

    def show_names(self, names: Sequence[ShortName], order: NDArray[np.intp], limit: float) -> None:
        """Show the names of rows in an order; those that run upwards have at most a height."""
        if names is not self._names or not np.array_equal(order, self._order):
            self._names, self._order = names, order
            found = [names[row] for row in order.tolist()]
            in_order = bool((np.diff(order) > 0).all())
            self._blocks = [name.block for name in found] if in_order else []
            full = (".".join(filter(None, name)) for name in found)
            self._labels = [name.label for name in found] if in_order else list(full)
        metrics, view = QFontMetricsF(self._font()), self.linkedView()
        first, last = view.viewRange()[0]
        self._pitch = view.width() / max(1e-9, last - first)
        widest = max(map(metrics.horizontalAdvance, self._labels[:MAX_BARS]), default=0)
        fits_across = widest <= self._pitch - TIGHT_PX
        height = metrics.height() if fits_across else min(widest + 1, limit)
        self._names_px = height if self._pitch >= metrics.height() else 0.0
        remark = LINE_PX if self.labelText else 0
        self.setHeight(self._names_px + 3 * TIGHT_PX + metrics.height() + remark)
        self.update()

    def _font(self) -> QFont:
        return scaled(QApplication.font(), SMALL)

    def paint(self, painter: QPainter, *_: object) -> None:
        view, metrics, height = self.linkedView(), QFontMetricsF(self._font()), self._names_px
        first, last = view.viewRange()[0]
        shown = range(max(0, math.ceil(first)), min(len(self._labels), math.floor(last) + 1))
        painter.setPen(self.textPen())
        painter.setFont(self._font())

        def x_of(position: float) -> float:
            return float(self.mapFromItem(view, view.mapFromView(QPointF(position, 0))).x())

        for position in shown if height else ():
            is_upright = metrics.horizontalAdvance(self._labels[position]) > self._pitch - TIGHT_PX
            width, side = (height, RIGHT) if is_upright else (self._pitch, CENTRE)
            text = metrics.elidedText(self._labels[position], ELIDED, width)
            line = metrics.height()
            painter.save()
            painter.translate(x_of(position), TIGHT_PX)
            painter.rotate(-90 if is_upright else 0)
            area = QRectF(-width, -line / 2, width, line)
            if not is_upright:
                area.moveTo(-width / 2, 0)
            painter.drawText(area, side, text)
            painter.restore()
        end = -math.inf
        for block, run in groupby(shown if self._blocks else (), key=self._blocks.__getitem__):
            positions = list(run)
            left, right = x_of(positions[0] - 0.5), x_of(positions[-1] + 0.5)
            painter.drawLine(QPointF(left, 0), QPointF(left, TIGHT_PX))
            width = metrics.horizontalAdvance(block)
            at = (left + right - width) / 2
            if block and at > end and at + width < self.width():
                painter.drawText(QPointF(at, 2 * TIGHT_PX + height + metrics.ascent()), block)
                end = at + width + TIGHT_PX


class SizeAxis(CountAxis):
    """A logarithmic axis of counts with short texts: 100, 10 k, 1 M."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        texts = []
        for value in values:
            thousands, digits = divmod(round(value), 3)
            is_power = value == round(value) and 0 <= thousands < len(UNIT_PREFIXES)
            texts.append(f"{10**digits}{UNIT_PREFIXES[thousands]}" if is_power else "")
        return texts


class LayerBars(QWidget):
    """Three plots above one another, with a bar per position in each.

    `can_drag` returns whether the end of a segment of a bar can be dragged, by row and code.
    """

    pointed = Signal(int)  # (position) the cursor is over this position; -1 if it is over none
    clicked = Signal(int)  # (position)
    dragged = Signal(int, int, float)  # (row, code, share) make the segment this share, in [0, 1]

    def __init__(self) -> None:
        super().__init__()
        self._rows: Rows | None = None
        self._names: Sequence[ShortName] = ()
        self._order = np.zeros(0, np.intp)
        self._draft: int | None = None
        self._colours: Colours | None = None
        self._chosen: int | None = None
        self._items: list[tuple[Plot, pg.BarGraphItem]] = []
        self._marks: list[tuple[Plot, pg.BarGraphItem]] = []  # of the items, the chosen position
        self._bars: Bars | None = None
        self.can_drag: Callable[[int, int], bool] = lambda _row, _code: False
        box = SegmentBox(self._segment_at)
        box.dragged.connect(self.dragged)
        layout = layouts.column(of=self, margin=0, gap=0)
        axes = (pg.AxisItem("left"), box), (SizeAxis("left"), None), (pg.AxisItem("left"), None)
        self._axis = NameAxis()
        bottoms = pg.AxisItem("bottom"), pg.AxisItem("bottom"), self._axis
        self.plots: Sequence[Plot] = [
            Plot({"left": axis, "bottom": bottom}, view)
            for (axis, view), bottom in zip(axes, bottoms, strict=True)
        ]
        for plot, name, span in zip(self.plots, PLOT_NAMES, STRETCH_FACTORS, strict=True):
            layout.addWidget(plot, span)
            plot.setAccessibleName(tr(name))
            plot.setMouseEnabled(x=True, y=False)
            add_axis_shortcuts(plot)
            plot.plotItem.getAxis("left").setWidth(AXIS_WIDTH_PX)
            plot.scene().sigMouseMoved.connect(lambda at, plot=plot: self._point_at(plot, at))
            plot.scene().sigMouseClicked.connect(lambda click, plot=plot: self._click(plot, click))
            plot.left.connect(lambda: self.pointed.emit(-1))
        for plot in self.plots[:-1]:
            plot.setXLink(self.plots[-1])
            plot.plotItem.getAxis("bottom").setStyle(showValues=False, tickLength=0)
        self.plots[1].plotItem.getAxis("left").setLogMode(True)
        labels = tr("pruned, %"), tr("weights"), tr("energy, %")
        length_of = self.fontMetrics().horizontalAdvance
        sizes = zip(labels, MIN_HEIGHTS_PX, AROUND_LABEL_PX, strict=True)
        for plot, (label, min_height, around) in zip(self.plots, sizes, strict=True):
            plot.label("left", label)
            plot.setMinimumHeight(max(min_height, length_of(label) + around))
        for plot in (self.plots[0], self.plots[2]):
            plot.plotItem.getAxis("left").setTicks(PERCENT_TICKS)
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self._draw)
        self.plots[-1].view.sigXRangeChanged.connect(self._moved)
        self.plots[-1].view.sigResized.connect(self._moved)

    def show_rows(
        self,
        rows: Rows,
        names: Sequence[ShortName],
        order: NDArray[np.intp],
        draft: int | None,
        colours: Colours,
    ) -> None:
        before, self._rows = self._rows, rows
        self._names, self._order = names, order
        self._draft, self._colours = draft, colours
        if before is None or before.names is not rows.names:
            for plot in self.plots:
                plot.show_positions(len(rows), 4)
        self._draw()

    def choose(self, position: int | None) -> None:
        if position != self._chosen:
            self._chosen = position
            self._draw()

    def show_mark(self, *, on: bool) -> None:
        """Show or hide the mark of the chosen position."""
        for _, item in self._marks:
            item.setVisible(on)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._settle_timer.stop()

    def _draw(self) -> None:
        rows, colours = self._rows, self._colours
        if rows is None or colours is None or not len(rows):
            return
        visible = visible_positions(self.plots[-1].view.viewRange()[0], len(rows))
        bars = bars_of(rows, self._order, visible, MAX_BARS)
        self._bars = bars
        width = self.plots[-1].view.width() / len(bars.total)
        gap = 0.1 if width >= MIN_WIDTH_FOR_GAPS_PX else 0.0
        sides = bars.edges[:-1] - 0.5 + gap, bars.edges[1:] - 0.5 - gap
        for plot, item in self._items:
            plot.removeItem(item)
        sparsity, size, energy = self.plots
        log_total = np.log10(bars.total)
        top = max(1.0, float(np.log10(rows.total.max()))) * HEADROOM
        zeros = np.zeros(len(bars.total))
        lows, highs = 100 * bars.tops[:-1], 100 * bars.tops[1:]
        self._items = [
            (sparsity, bar_item(*sides, low, high, colours.of(code, self._draft)))
            for code, low, high in zip(bars.codes, lows, highs, strict=True)
        ]
        heights = 100 * HEADROOM, top, 100 * HEADROOM
        unknown = QBrush(QColor(colours.grid), Qt.BrushStyle.BDiagPattern)
        self._marks = []
        if self._chosen is not None:  # faint bars behind the chosen position
            shade = QColor(colours.foreground)
            shade.setAlpha(MARK_ALPHA)
            at = np.array([float(self._chosen)])
            marks = [bar_item(at - 0.5, at + 0.5, at * 0, at * 0 + end, shade) for end in heights]
            self._marks = list(zip(self.plots, marks, strict=True))
            self._items[:0] = self._marks
        kept = colours.kept, kept_cap(colours)
        self._items += [
            (sparsity, bar_item(*sides, 100 * bars.tops[-1], zeros + 100, *kept)),
            (size, bar_item(*sides, zeros, log_total, colours.scale[2])),
            (energy, bar_item(*sides, zeros, 100 * np.nan_to_num(bars.kept), colours.scale[2])),
            (energy, bar_item(*sides, zeros, zeros + 100 * np.isnan(bars.kept), unknown)),
        ]
        for plot, item in self._items:
            plot.addItem(item, ignoreBounds=True)
        for plot, highest in zip(self.plots, heights, strict=True):
            plot.setYRange(0, highest, padding=0)
        count, message = bars.max_rows, deferred("a bar sums up to {count:,} rows: zoom in")
        self.plots[-1].label("bottom", tr(message, count=count) if count > 1 else "")
        limit = min(MAX_NAMES_PX, MAX_NAMES_SHARE * self.plots[-1].height())
        self._axis.show_names(self._names, self._order, limit)

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _segment_at(self, x: float, low: float, high: float) -> Segment | None:
        """Return the last segment at x whose end is in a range of heights and can be dragged."""
        bars, position = self._bars, round(x)
        if bars is None or bars.max_rows > 1 or not bars.edges[0] <= position < bars.edges[-1]:
            return None
        row, bar = int(self._order[position]), position - int(bars.edges[0])
        tops = 100 * bars.tops[:, bar]
        for i, code in reversed(list(enumerate(bars.codes))):
            if low <= tops[i + 1] <= high and self.can_drag(row, code):
                return Segment(row, code, float(tops[i]))
        return None

    def _point_at(self, plot: Plot, scene: QPointF) -> None:
        position = plot.position_at(scene, len(self._order))
        self.pointed.emit(-1 if position is None else position)

    def _click(self, plot: Plot, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        position = plot.position_at(click.scenePos(), len(self._order))
        if position is not None and click.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(position)
