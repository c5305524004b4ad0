"""A step's cut in a histogram: a line on either side of zero, or one where there are no signs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QObject, Signal

from prune_gui.gui.views.axis_limits import MOST
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import tr

STEP, DRAFT, TEXT = 100, 101, 102
"""What lies above what: the line of the draft above those of steps, texts above all lines."""


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
        """Return where a number lies, or where it would be drawn."""
        return (
            min(max(value, -MOST), MOST) if self.low is None else math.log10(max(value, self.low))
        )

    def value(self, place: float) -> float:
        """Return the number that lies somewhere, without its sign."""
        return abs(place) if self.low is None else math.pow(10.0, place)


class CutLine(QObject):
    """A line at a value, and if there are signs another at minus the value: they move together.

    Attributes:
        label: what it is; `arrange` puts it beside the line.
        drafted: whether it is the cut of the draft, which can be dragged.

    Signals:
        dragged: (absolute value) the user moved one of them.
    """

    dragged = Signal(float)

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self._plot = plot
        self._scale = Scale()
        self._negative, self._positive = pg.InfiniteLine(), pg.InfiniteLine()
        self.label = pg.TextItem()
        self.label.setZValue(TEXT)
        self.drafted = False
        for line in (self._negative, self._positive):
            line.sigDragged.connect(self._drag)
        for item in (self._negative, self._positive, self.label):
            plot.addItem(item, ignoreBounds=True)

    @property
    def moving(self) -> bool:
        """Whether the user has hold of it."""
        return bool(self._negative.moving or self._positive.moving)

    @property
    def at(self) -> float:
        """Where it lies on the axis; of two lines, the one above zero."""
        return float(self._positive.value())

    def show_cut(
        self, value: float, text: str, colours: Colours, scale: Scale, *, limit: float | None
    ) -> None:
        """Show the cut of a step.

        Args:
            value: the absolute value up to which it prunes.
            text: what to call it.
            colours: of the theme.
            scale: of the axis.
            limit: how far it can be dragged; None if it cannot be.
        """
        self.drafted, self._scale = limit is not None, scale
        self._negative.setVisible(scale.signed)
        hint = (
            tr("Drag to change what the draft prunes")
            if self.drafted
            else tr("Edit the step to move it")
        )
        for line in (self._negative, self._positive):
            line.setZValue(DRAFT if self.drafted else STEP)
            line.setMovable(self.drafted)
            line.setPen(pen(colours.cut, width=2 if self.drafted else 1, dashed=not self.drafted))
            line.setHoverPen(pen(colours.draft, width=4))
            line.setToolTip(hint)
        if not self.moving:
            self._bound(limit)
            self._place(scale.place(value))
        shown = scale.value(self.at) if self.moving else value
        self.label.fill = pg.mkBrush(colours.background)
        self.label.setText(
            tr("{what}: {symbol} ≤ {value:.4g}", what=text, symbol=scale.symbol, value=shown),
            colours.cut,
        )

    def remove(self) -> None:
        """Take it off the plot."""
        for item in (self._negative, self._positive, self.label):
            self._plot.removeItem(item)
        self.deleteLater()

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


def arrange(plot: Plot, cuts: Iterable[CutLine]) -> None:
    """Write what cuts are beside their lines, on the side where there is room.

    Texts that would meet stand below one another, that of the draft last: it is the one that moves.
    """
    (low, high), (bottom, top) = plot.view.viewRange()
    inside = []
    for cut in sorted(cuts, key=lambda cut: cut.drafted):
        cut.label.setVisible(low <= cut.at <= high)
        if cut.label.isVisible():
            inside.append(cut)
    if not inside or low == high:  # as it is for a moment while the limits of the axis change
        return
    width, height = plot.view.width(), plot.view.height()
    across, down = (high - low) / width, (top - bottom) / height
    sizes = [cut.label.boundingRect().size() for cut in inside]
    line_height = max(size.height() for size in sizes)
    spans = [
        span((cut.at - low) / across, size.width(), width)
        for cut, size in zip(inside, sizes, strict=True)
    ]
    lines = lines_for(spans, int(height / line_height))
    for cut, (start, _), line in zip(inside, spans, lines, strict=True):
        cut.label.setPos(low + start * across, top - line * line_height * down)


def span(at: float, width: float, room: float) -> tuple[float, float]:
    """Return from where to where a text reaches beside a line: on its right if that has room."""
    return (at, at + width) if at + width <= room else (at - width, at)


def lines_for(spans: Sequence[tuple[float, float]], most: int) -> list[int]:
    """Return the line of each text: the first, from 0, in which it meets none before it.

    Args:
        spans: from where to where each reaches.
        most: lines that there are; texts for which none is free are all in the last.
    """
    lines: list[list[tuple[float, float]]] = [[] for _ in range(max(most, 1))]
    found = []
    for start, end in spans:
        free = (
            number
            for number, taken in enumerate(lines)
            if all(end <= other or start >= until for other, until in taken)
        )
        found.append(next(free, len(lines) - 1))
        lines[found[-1]].append((start, end))
    return found
