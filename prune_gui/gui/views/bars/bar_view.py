"""What the views Norms and Groups share: bars of channels or units, and moving along them."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPalette

from prune_gui.gui.views.bars.data import ChannelData, ChannelRow, ScoreOf, visible_positions
from prune_gui.gui.views.controls import switch
from prune_gui.gui.views.plot import IndexAxis, OverflowMark, Plot, bar_item, kept_cap, pen
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.draft_request import CutRequest
from prune_gui.session.subjects import Subject

MAX_BARS: Final = 2000
"""Maximum number of bars. There is also at most one per pixel column, so that all are visible."""


class BarView(View[Subject]):
    """A bar per channel or unit. The cut of the draft or of a step can be dragged.

    In views that select, Shift with a key selects what it moves along.
    """

    has_table = True
    selects: ClassVar[bool] = False

    def __init__(
        self, workbench: Workbench, name: str, plot_name: str, pointed_name: str, sorted_tip: str
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, name)
        self._row: ChannelRow | None = None
        self._channels: frozenset[int] = frozenset()  # the selected ones
        self._current: int | None = None  # the channel of the keyboard
        self._plot = plot = ChannelPlot(plot_name)
        self._sorted = switch(tr("&Sorted"), sorted_tip, self.refresh)
        self._pointed = ElidedLabel(pointed_name)
        self._describe_current()
        plot.view.sigXRangeChanged.connect(self._settle)
        plot.view.sigResized.connect(self._settle)
        plot.scene().sigMouseMoved.connect(self._point_at)
        plot.left.connect(self._describe_current)
        plot.banded.connect(self._draw_band)
        plot.stepped.connect(self._step)
        plot.cut_dragged.connect(self._drag)

    @property
    def _max_bars(self) -> int:
        return max(1, min(MAX_BARS, round(float(self._plot.view.width()))))

    def _in_sight(self, size: int) -> range:
        return visible_positions(self._plot.view.viewRange()[0], size)

    @abstractmethod
    def _describe(self, row: ChannelRow, channel: int) -> str:
        """Describe a channel in one line."""

    @abstractmethod
    def _hint(self) -> str:
        """Return what the user can do, while no channel is described."""

    @abstractmethod
    def _band_text(self, count: int) -> str:
        """Return how many channels a rubber band covers."""

    @abstractmethod
    def _take_band(self, channels: frozenset[int]) -> None:
        """Select or prune the channels in a finished rubber band."""

    @abstractmethod
    def _cut_request(self, score: float, step: int | None) -> CutRequest:
        """Return the request to prune up to a score, in a step or in the draft."""

    def _show_row(self, row: ChannelRow, axis: str, height: str, *, is_new: bool) -> None:
        self._row = row
        if is_new:
            self._channels, self._current = frozenset(), None
            self._plot.show_positions(len(row.order), 2)
        self._plot.show_row(row, self.colours())
        self._show_chosen()
        self._plot.label("bottom", axis)
        self._plot.plotItem.getAxis("bottom").end = len(row.order)
        self._plot.label("left", height)

    def _choose(self, channels: frozenset[int], current: int | None) -> None:
        self._channels, self._current = channels, current
        self._show_chosen()
        self._describe_current()

    def show_selection(self, *, on: bool) -> None:
        if on:
            self._show_chosen()
        elif self._row is not None:
            self._plot.show_chosen(self._row.positions_of(frozenset()), None, self.colours())

    def _show_chosen(self) -> None:
        row = self._row
        if row is not None:
            current = None if self._current is None else row.position_of(self._current)
            self._plot.show_chosen(row.positions_of(self._channels), current, self.colours())

    def _step(self, positions: int, choosing: bool) -> None:
        row = self._row
        if row is None:
            return
        if self._current is None:
            to = self._in_sight(len(row.order)).start
        else:
            to = min(max(0, row.position_of(self._current) + positions), len(row.order) - 1)
        channel = int(row.order[to])
        added = frozenset([channel] if choosing and self.selects else [])
        self._choose(self._channels | added, channel)
        self._plot.keep_in_sight(to)

    def _draw_band(self, first: int, last: int, at_its_end: bool) -> None:
        if not at_its_end:
            self._pointed.say(self._band_text(last - first + 1))
        elif self._row is not None:
            self._take_band(frozenset(self._row.order[first : last + 1].tolist()))

    def _drag(self, score: float) -> None:
        by = self._row.measured.by if self._row is not None else None
        if isinstance(by, ScoreOf) and self.subject is not None:
            step = None if by.step == self.subject.draft else by.step
            self._request_draft(self._cut_request(score, step))

    def _point_at(self, scene: QPointF) -> None:
        row = self._row
        position = None if row is None else self._plot.position_at(scene, len(row.order))
        if row is None or position is None:
            self._describe_current()
        else:
            self._pointed.say(self._describe(row, int(row.order[position])))

    def _describe_current(self) -> None:
        row, current = self._row, self._current
        text = self._hint() if row is None or current is None else self._describe(row, current)
        self._pointed.say(text)


DEAD_STRIP_SHARE: Final = 0.04
"""Height of the strip below the bars that marks dead channels, as a share of the tallest bar."""
HEADROOM: Final = 1.05
MAX_ARROWS: Final = 200
"""Maximum number of bars with an arrow that points beyond the plot; more would cover the bars."""
MAX_BARS_WITH_GAPS: Final = 200
MINIMUM_LINE_ALPHA: Final = 110
POINT_SIZE_PX: Final = 4
SELECTION_ALPHA: Final = 130
KEY_STEPS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_PageUp: -10,
    Qt.Key.Key_PageDown: 10,
    Qt.Key.Key_Home: -(10**9),
    Qt.Key.Key_End: 10**9,
}
SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
CONTROL: Final = Qt.KeyboardModifier.ControlModifier


class ChannelBox(pg.ViewBox):  # type: ignore[misc]
    """The view box of the bars. A drag pans; with Shift or while `banding`, it selects a range."""

    clicked = Signal(float, bool)  # (x, whether Control or Shift is held)
    banded = Signal(float, float, bool)  # (start x, end x, whether finished) a rubber band is drawn

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.banding = False

    def mouseClickEvent(self, event: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:  # noqa: N802
        if event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            adds = bool(event.modifiers() & (CONTROL | SHIFT))
            self.clicked.emit(self.mapToView(event.pos()).x(), adds)

    def mouseDragEvent(  # noqa: N802
        self, event: pg.GraphicsScene.mouseEvents.MouseDragEvent, axis: int | None = None
    ) -> None:
        bands = self.banding or bool(event.modifiers() & SHIFT)
        if axis is not None or event.button() != Qt.MouseButton.LeftButton or not bands:
            super().mouseDragEvent(event, axis=axis)
            return
        event.accept()
        ends = (self.mapToView(QPointF(at)).x() for at in (event.buttonDownPos(), event.pos()))
        self.banded.emit(*ends, event.isFinish())


class ChannelPlot(Plot):
    """Shows a row of channels, and emits what the user does with them."""

    picked = Signal(int, bool)  # (position, whether to add to the selection) a channel was clicked
    banded = Signal(int, int, bool)  # (first and last position, whether finished) of a rubber band
    stepped = Signal(int, bool)  # (positions, whether to select) a key moves the current channel
    toggled = Signal()  # this and the next two: a key concerns the current channel or the selection
    prune_wanted = Signal()
    dropped = Signal()
    cut_dragged = Signal(float)  # (score) the step of the cut is to prune channels up to this score

    def __init__(self, name: str) -> None:
        self.box = ChannelBox()
        super().__init__({"bottom": IndexAxis("bottom")}, self.box)
        self.setAccessibleName(name)
        self.setMouseEnabled(x=True, y=False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._row: ChannelRow | None = None
        self._items: list[pg.GraphicsObject] = []
        self._chosen: list[pg.BarGraphItem] = []
        self._band = pg.LinearRegionItem(movable=False)
        self._current = pg.InfiniteLine()
        self._cut = _cut_line(1, movable=True)
        self._cut.setToolTip(tr("Drag to change how much the step prunes"))
        self._own_cut = _cut_line(0)
        self._own_cut.setToolTip(tr("The maximum sparsity of the step stops it here"))
        self._cut.sigDragged.connect(lambda line: self.cut_dragged.emit(max(0.0, line.value())))
        for z, item in enumerate((self._band, self._current, self._own_cut, self._cut), start=10):
            item.setZValue(z)
            item.hide()
            self.addItem(item, ignoreBounds=True)
        self._overflow = OverflowMark(self, "top")
        self.box.clicked.connect(self._click)
        self.box.banded.connect(self._draw_band)

    def show_row(self, row: ChannelRow, colours: Colours) -> None:
        self._row = row
        for item in self._items:
            self.removeItem(item)
        self._items = _bars(row, colours) if row.point_codes is None else _points(row, colours)
        for item in self._items:
            self.addItem(item, ignoreBounds=True)
        self.setYRange(-DEAD_STRIP_SHARE * row.top, HEADROOM * row.top, padding=0)
        norms = row.measured.norms
        beyond = int(np.count_nonzero(np.isfinite(norms) & (norms > HEADROOM * row.top)))
        self._overflow.show_count(beyond, row.measured.highest, colours)
        self._show_cut(row.measured, colours)

    def show_chosen(self, chosen: NDArray[np.bool_], current: int | None, colours: Colours) -> None:
        for item in self._chosen:
            self.removeItem(item)
        self._chosen = []
        if self._row is None:
            return
        bars, top = self._row.bars, self._row.top
        marked = bars.any_of(chosen)
        if marked.any():
            shade = QColor(self.palette().color(QPalette.ColorRole.Accent))
            shade.setAlpha(SELECTION_ALPHA)
            left, right = bars.edges[:-1][marked] - 0.5, bars.edges[1:][marked] - 0.5
            item = bar_item(left, right, -DEAD_STRIP_SHARE * top, HEADROOM * top, shade)
            item.setZValue(5)
            self._chosen.append(item)
            self.addItem(item, ignoreBounds=True)
        self._current.setVisible(current is not None)
        self._current.setPen(pen(colours.foreground, dashed=True))
        if current is not None:
            self._current.setValue(current)

    def keep_in_sight(self, position: int) -> None:
        low, high = self.view.viewRange()[0]
        shift = min(0.0, position - 0.5 - low) or max(0.0, position + 0.5 - high)
        if shift:
            self.setXRange(low + shift, high + shift, padding=0)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = Qt.Key(event.key())
        if key in KEY_STEPS:
            self.stepped.emit(KEY_STEPS[key], bool(event.modifiers() & SHIFT))
        elif key == Qt.Key.Key_Space:
            self.toggled.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Delete):
            self.prune_wanted.emit()
        elif key == Qt.Key.Key_Escape:
            self.dropped.emit()
        else:
            super().keyPressEvent(event)

    def _show_cut(self, measured: ChannelData, colours: Colours) -> None:
        own, shared = measured.cut, measured.shared_cut
        self._cut.setVisible(own is not None)
        self._own_cut.setVisible(shared is not None)
        if own is None:
            return
        self._cut.setPen(pen(colours.cut, width=2))
        self._cut.setHoverPen(pen(colours.draft, width=4))
        self._own_cut.setPen(pen(colours.cut, dashed=True))
        for line in (self._cut, self._own_cut):
            line.label.setColor(colours.cut)
            line.label.fill = pg.mkBrush(colours.background)
        self._cut.setBounds((0.0, measured.highest))
        if not self._cut.moving:
            self._cut.setValue(own if shared is None else shared)
        assert isinstance(measured.by, ScoreOf)
        value, step = float(self._cut.value()), tr("step {number}", number=measured.by.step)
        if measured.by.step == measured.subject.draft:
            step = tr("draft")
        text = tr("{step}: up to {value:.4g}", step=step, value=value)
        if shared is not None:
            text = tr("{step}, all targets: up to {value:.4g}", step=step, value=value)
            own_text = tr("{step}, limited here: up to {value:.4g}", step=step, value=own)
            self._own_cut.setValue(own)
            self._own_cut.label.setFormat(own_text)
        self._cut.label.setFormat(text)

    def _position(self, x: float) -> int:
        end = 0 if self._row is None else len(self._row.order) - 1
        return min(max(0, round(x)), end)

    def _click(self, x: float, add: bool) -> None:
        if self._row is not None:
            self.picked.emit(self._position(x), add)

    def _draw_band(self, start: float, stop: float, at_its_end: bool) -> None:
        if self._row is None:
            return
        low, high = sorted((start, stop))
        self._band.setRegion((low, high))
        self._band.setVisible(not at_its_end)
        self.banded.emit(self._position(low), self._position(high), at_its_end)


def _cut_line(anchor: int, *, movable: bool = False) -> pg.InfiniteLine:
    """Return a horizontal line with a label above it (anchor 1) or below it (anchor 0)."""
    options = {"position": 0.02, "anchors": [(0, anchor)] * 2}
    return pg.InfiniteLine(angle=0, movable=movable, label="", labelOpts=options)


def _bars(row: ChannelRow, colours: Colours) -> list[pg.GraphicsObject]:
    bars, top = row.bars, row.top
    gap = 0.1 if len(bars.dead) <= MAX_BARS_WITH_GAPS else 0.0
    left, right = bars.edges[:-1] - 0.5 + gap, bars.edges[1:] - 0.5 - gap
    items: list[pg.GraphicsObject] = []
    for part, code in enumerate(row.measured.channels.codes):
        colour = colours.of(code, row.measured.subject.draft)
        cap = kept_cap(colours) if code == KEPT else None
        items.append(bar_item(left, right, bars.tops[part], bars.tops[part + 1], colour, cap))
    beyond = bars.tops[-1] > HEADROOM * top
    if 0 < np.count_nonzero(beyond) <= MAX_ARROWS:
        middles = ((left + right) / 2)[beyond]
        style = {"symbol": "t1", "size": 9, "pen": None, "brush": colours.foreground}
        items.append(pg.ScatterPlotItem(middles, np.full(len(middles), top), **style))
    if (dead := bars.dead).any():
        y0, y1 = -DEAD_STRIP_SHARE * top, -DEAD_STRIP_SHARE * top / 4
        items.append(bar_item(left[dead], right[dead], y0, y1, colours.warning))
    if (odd := bars.non_finite).any():  # it ranks as the largest norm, so its bar fills the height
        y0, y1 = bars.tops[-1][odd], HEADROOM * top
        items.append(bar_item(left[odd], right[odd], y0, y1, colours.warning))
    if bars.max_channels > 1:
        faint = QColor(colours.foreground)
        faint.setAlpha(MINIMUM_LINE_ALPHA)
        edges, line = bars.edges - 0.5, pg.mkPen(faint)
        items.append(pg.PlotCurveItem(edges, bars.minimum, stepMode="center", pen=line))
    return items


def _points(row: ChannelRow, colours: Colours) -> list[pg.GraphicsObject]:
    assert row.point_codes is not None
    positions = np.arange(row.bars.edges[0], row.bars.edges[-1])
    channels = row.order[positions]
    heights, codes = row.measured.norms[channels], row.point_codes[channels]
    finite = np.isfinite(heights)
    shown = [
        (
            finite & (codes == code),
            colours.of(code, row.measured.subject.draft),
            kept_cap(colours) if code == KEPT else None,
        )
        for code in row.measured.channels.codes
    ]
    shown.append(
        (~finite, colours.warning, None)
    )  # they rank as the largest, so they are at the top
    heights = np.where(finite, heights, row.top)
    return [
        pg.ScatterPlotItem(
            positions[marked], heights[marked], size=POINT_SIZE_PX, pen=outline, brush=colour
        )
        for marked, colour, outline in shown
        if marked.any()
    ]
