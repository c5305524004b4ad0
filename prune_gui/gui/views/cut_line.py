"""A step's cut in a histogram: a line on either side of zero, or one where there are no signs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QObject, Signal

from prune_gui.gui.theme import Colours
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.language import tr

TOP = 100
LINE = 0.04
"""Height of a line of text, as a share of the picture."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How numbers lie along the axis.

    Attributes:
        low: the least that is shown of a logarithmic axis; None if it is linear.
        signed: whether there are numbers below zero, which a cut means too.
        symbol: what the numbers are, in formulas.
    """

    low: float | None = None
    signed: bool = True
    symbol: str = "|w|"

    def place(self, value: float) -> float:
        """Return where a number lies."""
        return value if self.low is None else math.log10(max(value, self.low))

    def value(self, place: float) -> float:
        """Return the number that lies somewhere, without its sign."""
        return abs(place) if self.low is None else math.pow(10.0, place)


class CutLine(QObject):
    """A line at a value, and if there are signs another at minus the value: they move together.

    Signals:
        dragged: (absolute value) the user moved one of them.
    """

    dragged = Signal(float)

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self._plot = plot
        self._scale = Scale()
        self._negative = pg.InfiniteLine()
        self._positive = pg.InfiniteLine(label="", labelOpts={"position": 0.97})
        for line in (self._negative, self._positive):
            line.sigDragged.connect(self._drag)
            plot.addItem(line, ignoreBounds=True)

    @property
    def moving(self) -> bool:
        """Whether the user has hold of it."""
        return bool(self._negative.moving or self._positive.moving)

    def show_cut(
        self,
        value: float,
        text: str,
        place: int,
        colours: Colours,
        scale: Scale,
        *,
        limit: float | None,
    ) -> None:
        """Show the cut of a step.

        Args:
            value: the absolute value up to which it prunes.
            text: what to call it.
            place: in which line from the top to write it.
            colours: of the theme.
            scale: of the axis.
            limit: how far it can be dragged; None if it cannot be.
        """
        movable, self._scale = limit is not None, scale
        self._negative.setVisible(scale.signed)
        hint = (
            tr("Drag to change what the draft prunes")
            if movable
            else tr("Edit the step to move it")
        )
        for line in (self._negative, self._positive):
            line.setZValue(TOP - place)  # no line crosses the text of one above it
            line.setMovable(movable)
            line.setPen(pen(colours.cut, width=2 if movable else 1, dashed=not movable))
            line.setHoverPen(pen(colours.draft, width=4))
            line.setToolTip(hint)
        self._positive.label.setColor(colours.cut)
        self._positive.label.fill = pg.mkBrush(colours.background)
        if not self.moving:
            self._bound(limit)
            self._place(scale.place(value))
        shown = scale.value(self._positive.value()) if self.moving else value
        self._positive.label.setFormat(
            tr("{what}: {symbol} ≤ {value:.4g}", what=text, symbol=scale.symbol, value=shown)
        )
        self._positive.label.anchors = [(0.0 if self._fits_on_the_right() else 1.0, 0.5)] * 2
        self._positive.label.setPosition(1 - LINE * (place + 0.7))

    def remove(self) -> None:
        """Take it off the plot."""
        for line in (self._negative, self._positive):
            self._plot.removeItem(line)
        self.deleteLater()

    def _fits_on_the_right(self) -> bool:
        """Tell whether there is room for the text between the line and the right edge."""
        low, high = self._plot.view.viewRange()[0]
        room = (high - self._positive.value()) / (high - low) * self._plot.view.width()
        return bool(self._positive.label.textItem.boundingRect().width() <= room)

    def _bound(self, limit: float | None) -> None:
        end = None if limit is None else self._scale.place(limit)
        start = 0.0 if self._scale.low is None else self._scale.place(0.0)
        self._positive.setBounds((start, end))
        self._negative.setBounds((None if end is None else -end, -start))

    def _place(self, place: float) -> None:
        self._positive.setValue(place)
        self._negative.setValue(-place)

    def _drag(self, line: pg.InfiniteLine) -> None:
        place = float(line.value())
        self._place(abs(place) if self._scale.signed else place)
        self.dragged.emit(self._scale.value(place))
