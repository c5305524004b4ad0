"""A step's cut in a histogram: a line on either side of zero."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import QObject, Signal

from prune_gui.gui.theme import Colours
from prune_gui.gui.views.plot import Plot, pen

TOP = 100
LINE = 0.04
"""Height of a line of text, as a share of the picture."""


class CutLine(QObject):
    """Two lines, at plus and at minus a value, that move together.

    Signals:
        dragged: (absolute value) the user moved one of them.
    """

    dragged = Signal(float)

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self._plot = plot
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
        self, value: float, text: str, place: int, colours: Colours, *, limit: float | None
    ) -> None:
        """Show the cut of a step.

        Args:
            value: the absolute value up to which it prunes.
            text: what to call it.
            place: in which line from the top to write it.
            colours: of the theme.
            limit: how far it can be dragged; None if it cannot be.
        """
        movable = limit is not None
        low, high = self._plot.view.viewRange()[0]
        for line in (self._negative, self._positive):
            line.setZValue(TOP - place)  # no line crosses the text of one above it
        on_the_left = value > low + 0.75 * (high - low)
        self._positive.label.anchors = [(float(on_the_left), 0.5)] * 2
        self._positive.label.setPosition(1 - LINE * (place + 0.7))
        for line in (self._negative, self._positive):
            line.setMovable(movable)
            line.setPen(pen(colours.cut, width=2 if movable else 1, dashed=not movable))
            line.setHoverPen(pen(colours.draft, width=4))
        self._positive.label.setColor(colours.cut)
        self._positive.label.fill = pg.mkBrush(colours.background)
        if not self.moving:
            self._positive.setBounds((0.0, limit))
            self._negative.setBounds((None if limit is None else -limit, 0.0))
            self._place(value)
        self._positive.label.setFormat(f"{text}: |w| ≤ {self._positive.value():.4g}")

    def remove(self) -> None:
        """Take it off the plot."""
        for line in (self._negative, self._positive):
            self._plot.removeItem(line)
        self.deleteLater()

    def _place(self, value: float) -> None:
        self._positive.setValue(value)
        self._negative.setValue(-value)

    def _drag(self, line: pg.InfiniteLine) -> None:
        value = abs(float(line.value()))
        self._place(value)
        self.dragged.emit(value)
