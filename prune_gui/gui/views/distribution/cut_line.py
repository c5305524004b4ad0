"""A step's cut in a histogram: a line on either side of zero, or one line on an unsigned axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyqtgraph as pg
from PySide6.QtCore import QObject, Signal

from prune_gui.gui.views.bars.data import MAX_MAGNITUDE
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.statistics.element_scores import StepCut

STEP_Z, DRAFT_Z, TEXT_Z = 100, 101, 102
"""Stacking order: the draft's line is above those of steps, and labels are above all lines."""


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Maps numbers to positions along the axis, whose lower end is `low` if it is logarithmic."""

    low: float | None = None
    signed: bool = True
    symbol: str = "|w|"

    def position(self, value: float) -> float:
        if self.low is not None:
            return math.log10(max(value, self.low))
        return min(max(value, -MAX_MAGNITUDE), MAX_MAGNITUDE)

    def value(self, position: float) -> float:
        return abs(position) if self.low is None else math.pow(10.0, position)


class CutLine(QObject):
    """A line at a value, and on a signed axis a second one at minus it, which move together."""

    dragged = Signal(float)  # (absolute value) the user moved one of the lines

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self._plot = plot
        self._scale = AxisScale()
        self._lines = self._negative, self._positive = pg.InfiniteLine(), pg.InfiniteLine()
        self.label = pg.TextItem()
        self.label.setZValue(TEXT_Z)
        self.drafted = False
        for line in self._lines:
            line.sigDragged.connect(self._drag)
        for item in (*self._lines, self.label):
            plot.addItem(item, ignoreBounds=True)

    @property
    def moving(self) -> bool:
        return bool(self._negative.moving or self._positive.moving)

    @property
    def at(self) -> float:
        """Position on the axis; of two lines, that of the positive one."""
        return float(self._positive.value())

    def show_cut(
        self,
        cut: StepCut,
        text: str,
        colours: Colours,
        scale: AxisScale,
        *,
        limit: float,
        drafted: bool,
        own: bool = False,
    ) -> None:
        value, hint = cut.value, tr("Drag to edit the step")
        if own:
            text = tr("{step}, limited here", step=text)
            hint = tr("The maximum sparsity of the step stops it here")
        elif drafted:
            hint = tr("Drag to change what the draft prunes")
        if cut.shared is not None and not own:
            value, text = cut.shared, tr("{step}, all targets", step=text)
        message = deferred("{what}: {symbol} ≤ {value:.4g}")
        if value == cut.value and not cut.inclusive:
            message = deferred("{what}: {symbol} < {value:.4g}")
        self.drafted, self._scale = drafted and not own, scale
        self._negative.setVisible(scale.signed)
        for line in self._lines:
            line.setZValue(DRAFT_Z if self.drafted else STEP_Z)
            line.setMovable(not own)
            line.setPen(pen(colours.cut, width=2 if self.drafted else 1, dashed=not self.drafted))
            line.setHoverPen(pen(colours.draft, width=4))
            line.setToolTip(hint)
        if not self.moving:
            start, end = 0.0 if scale.low is None else scale.position(0.0), scale.position(limit)
            self._positive.setBounds((start, end))
            self._negative.setBounds((-end, -start))
            self._move_to(scale.position(value))
        shown = scale.value(self.at) if self.moving else value
        self.label.fill = pg.mkBrush(colours.background)
        self.label.setText(tr(message, what=text, symbol=scale.symbol, value=shown), colours.cut)

    def remove(self) -> None:
        for item in (*self._lines, self.label):
            self._plot.removeItem(item)
        self.deleteLater()

    def _move_to(self, position: float) -> None:
        self._positive.setValue(position)
        self._negative.setValue(-position)

    def _drag(self, line: pg.InfiniteLine) -> None:
        position = float(line.value())
        self._move_to(abs(position) if self._scale.signed else position)
        self.dragged.emit(self._scale.value(position))


def arrange_labels(plot: Plot, cuts: Iterable[CutLine]) -> None:
    """Put the labels of cuts next to their lines, on the side with enough room.

    Labels that would overlap are stacked. The draft's label is placed last because it moves most.
    """
    (low, high), (bottom, top) = plot.view.viewRange()
    cuts = sorted(cuts, key=lambda cut: cut.drafted)
    for cut in cuts:
        cut.label.setVisible(low <= cut.at <= high)
    inside = [cut for cut in cuts if cut.label.isVisible()]
    if not inside or low == high:  # happens briefly while the axis limits change
        return
    width, height = plot.view.width(), plot.view.height()
    across, down = (high - low) / width, (top - bottom) / height
    sizes = [cut.label.boundingRect().size() for cut in inside]
    line_height = max(size.height() for size in sizes)
    spans = [
        label_span((cut.at - low) / across, size.width(), width)
        for cut, size in zip(inside, sizes, strict=True)
    ]
    lines = label_lines(spans, int(height / line_height))
    for cut, (start, _), line in zip(inside, spans, lines, strict=True):
        cut.label.setPos(low + start * across, top - line * line_height * down)


def label_span(at: float, width: float, available_width: float) -> tuple[float, float]:
    """Return the horizontal range of a label: right of its line if it fits, else left."""
    return (at, at + width) if at + width <= available_width else (at - width, at)


def label_lines(spans: Sequence[tuple[float, float]], max_lines: int) -> list[int]:
    """Return the line of each label: the first, from 0, without overlap with earlier labels."""
    lines: list[list[tuple[float, float]]] = [[] for _ in range(max(max_lines, 1))]
    result = []
    for start, end in spans:
        free = (
            number
            for number, taken in enumerate(lines)
            if all(end <= other or start >= other_end for other, other_end in taken)
        )
        result.append(next(free, len(lines) - 1))
        lines[result[-1]].append((start, end))
    return result
