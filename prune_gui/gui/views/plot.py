"""A plot that follows the theme."""

from __future__ import annotations

from html import escape

import pyqtgraph as pg
from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QApplication

from prune_gui.gui.views.axes import ValueAxis
from prune_gui.gui.widgets import theme
from prune_gui.gui.widgets.theme import Colours


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """A plot without pyqtgraph's own menu and buttons.

    Args:
        axes: in place of the usual ones, by side.
        view: in place of the usual one.

    Signals:
        left: the cursor is not over it any more.
    """

    left = Signal()

    def __init__(
        self, axes: dict[str, pg.AxisItem] | None = None, view: pg.ViewBox | None = None
    ) -> None:
        now = theme.colours(QApplication.palette())
        pg.setConfigOptions(
            imageAxisOrder="row-major", background=now.background, foreground=now.foreground
        )
        items = dict(axes or {})
        items |= {side: ValueAxis(side) for side in ("left", "bottom") if side not in items}
        super().__init__(viewBox=view or pg.ViewBox(enableMenu=False), axisItems=items)
        self.plotItem.hideButtons()
        self.plotItem.setMenuEnabled(False)
        # The menu is made all the same, and belongs to nobody: it is to go with the plot.
        menu = self.plotItem.ctrlMenu
        menu.setParent(self, menu.windowFlags())
        self.setFrameShape(self.Shape.NoFrame)
        # The background is one colour. Kept as a pixmap, it would be one in a drawing too.
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.plotItem.layout.setContentsMargins(4, 10, 16, 4)
        for side in ("left", "bottom"):
            self.plotItem.getAxis(side).enableAutoSIPrefix(False)

    @property
    def view(self) -> pg.ViewBox:
        """Where the items are."""
        return self.plotItem.vb

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell that the cursor left."""
        super().leaveEvent(event)
        self.left.emit()

    def label(self, side: str, text: str) -> None:
        """Say what runs along an axis."""
        axis = self.plotItem.getAxis(side)
        axis.setLabel(escape(text))  # it shows HTML
        axis.showLabel(bool(text))
        axis.resizeEvent()  # puts it in the middle; else it begins where the text before it did

    def recolour(self, colours: Colours) -> None:
        """Take other colours; pyqtgraph does not look at the palette."""
        self.setBackground(colours.background)
        for side in ("left", "bottom"):
            axis = self.plotItem.getAxis(side)
            axis.setPen(colours.foreground)
            axis.setTextPen(colours.foreground)


def pen(colour: str, *, width: float = 1.0, dashed: bool = False) -> pg.QtGui.QPen:
    """Return a pen whose width is in pixels at any zoom."""
    style = pg.QtCore.Qt.PenStyle.DashLine if dashed else pg.QtCore.Qt.PenStyle.SolidLine
    return pg.mkPen(colour, width=width, style=style)
