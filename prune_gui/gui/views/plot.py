"""A plot in the colours of the theme, its bars, and marks of what is beyond its axes."""

from __future__ import annotations

from html import escape
from typing import Any, Final, Literal

import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from prune_gui.gui.views.axes import ValueAxis
from prune_gui.gui.widgets import theme
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, WIDE_PX
from prune_gui.language import join_clauses, tr
from prune_gui.raster.colours import Colours

Ends = NDArray[Any] | float  # the position of a side of each bar
Side = Literal["left", "right", "top", "peak"]
ANCHORS: Final[dict[Side, tuple[float, float]]] = {
    "left": (0.0, 0.5),
    "right": (1.0, 0.5),
    "top": (1.0, 0.0),
    "peak": (0.0, 0.5),
}
MARK_Z: Final = 102  # stacking order: above the lines of cuts


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """A plot without pyqtgraph's menu and buttons."""

    left = Signal()  # the cursor left the plot

    def __init__(
        self, axes: dict[str, pg.AxisItem] | None = None, view: pg.ViewBox | None = None
    ) -> None:
        colours = theme.colours(QApplication.palette())
        pg.setConfigOptions(
            imageAxisOrder="row-major", background=colours.background, foreground=colours.foreground
        )
        items = dict(axes or {})
        items |= {side: ValueAxis(side) for side in ("left", "bottom") if side not in items}
        super().__init__(viewBox=view or pg.ViewBox(enableMenu=False), axisItems=items)
        self.plotItem.hideButtons()
        self.plotItem.setMenuEnabled(False)
        # pyqtgraph creates the menu nevertheless, without a parent: let the plot own it.
        menu = self.plotItem.ctrlMenu
        menu.setParent(self, menu.windowFlags())
        self.setFrameShape(self.Shape.NoFrame)
        # The background is plain. A cached pixmap would end up as a bitmap in vector exports.
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.plotItem.layout.setContentsMargins(TIGHT_PX, GAP_PX, WIDE_PX, TIGHT_PX)
        for side in ("left", "bottom"):
            self.plotItem.getAxis(side).enableAutoSIPrefix(False)

    @property
    def view(self) -> pg.ViewBox:
        return self.plotItem.vb

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.left.emit()

    def show_positions(self, size: int, min_visible: int) -> None:
        """Show the positions 0 ... size - 1, and limit panning and zooming to them."""
        self.view.setLimits(xMin=-0.5, xMax=size - 0.5, minXRange=min(min_visible, size))
        self.setXRange(-0.5, size - 0.5, padding=0)

    def position_at(self, scene: QPointF, size: int) -> int | None:
        """Return the position of 0 ... size - 1 at a point of the scene; None if none is there."""
        position = round(self.view.mapSceneToView(scene).x())
        inside = self.view.sceneBoundingRect().contains(scene)
        return position if inside and 0 <= position < size else None

    def label(self, side: str, text: str) -> None:
        axis, html = self.plotItem.getAxis(side), escape(text)
        if html == axis.labelText:  # the axis would be laid out again
            return
        axis.setLabel(html)
        axis.showLabel(bool(text))
        axis.resizeEvent()  # centres the new text; otherwise it keeps the start of the old one

    def recolour(self, colours: Colours) -> None:
        """Use other colours; pyqtgraph ignores the palette."""
        self.setBackground(colours.background)
        for side in ("left", "bottom"):
            axis = self.plotItem.getAxis(side)
            axis.setPen(colours.foreground)
            axis.setTextPen(colours.foreground)


def pen(colour: str, *, width: float = 1.0, dashed: bool = False) -> pg.QtGui.QPen:
    """Return a pen whose width is in screen pixels at any zoom."""
    style = pg.QtCore.Qt.PenStyle.DashLine if dashed else pg.QtCore.Qt.PenStyle.SolidLine
    return pg.mkPen(colour, width=width, style=style)


def bar_item(x0: Ends, x1: Ends, y0: Ends, y1: Ends, colour: str | QColor) -> pg.BarGraphItem:
    """Return plain bars, given their sides."""
    return pg.BarGraphItem(x0=x0, x1=x1, y0=y0, y1=y1, pen=None, brush=colour)


class OverflowMark(pg.TextItem):  # type: ignore[misc]
    """A labelled arrow inside a plot: "▴ 12 beyond, up to 3.4"."""

    def __init__(self, plot: Plot, side: Side) -> None:
        super().__init__(anchor=ANCHORS[side])
        self._plot, self._side = plot, side
        self.setZValue(MARK_Z)
        self.hide()
        plot.addItem(self, ignoreBounds=True)

    def show_count(self, count: int, extreme: float, colours: Colours) -> None:
        self.setVisible(count > 0)
        if not count:
            return
        self._write(overflow_text(count, extreme, self._side), colours)
        (left, right), (bottom, top) = self._plot.view.viewRange()
        x = left if self._side == "left" else right
        self.setPos(x, top if self._side == "top" else bottom + 0.6 * (top - bottom))

    def show_peak(self, x: float, count: int, colours: Colours) -> None:
        self.show()
        self._write("▴ " + tr("{count:,} weights in this bin", count=count), colours)
        bottom, top = self._plot.view.viewRange()[1]
        self.setPos(x, bottom + 0.85 * (top - bottom))

    def _write(self, text: str, colours: Colours) -> None:
        self.fill = pg.mkBrush(colours.background)
        self.setText(text, colours.foreground)


def overflow_text(count: int, extreme: float, side: Side) -> str:
    """Return the text of a mark: in two lines at the side of a plot, where space is narrow."""
    beyond = tr("{count:,} beyond", count=count)
    if side == "left":
        return f"◂ {beyond}\n" + tr("down to {value:.3g}", value=extreme)
    up_to = tr("up to {value:.3g}", value=extreme)
    return f"▴ {join_clauses([beyond, up_to])}" if side == "top" else f"{beyond} ▸\n{up_to}"
