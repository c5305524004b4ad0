"""A plot in the colours of the theme."""

from __future__ import annotations

from html import escape

import pyqtgraph as pg
from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QApplication

from prune_gui.gui.views.axes import ValueAxis
from prune_gui.gui.widgets import theme
from prune_gui.gui.widgets.spacing import GAP_PX, TIGHT_PX, WIDE_PX
from prune_gui.raster.colours import Colours


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """A plot without pyqtgraph's menu and buttons.

    Signals:
        left: the cursor left the plot.
    """

    left = Signal()

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
        """The view box that contains the items."""
        return self.plotItem.vb

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Emit that the cursor left."""
        super().leaveEvent(event)
        self.left.emit()

    def label(self, side: str, text: str) -> None:
        """Set the label of an axis."""
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
