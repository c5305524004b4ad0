"""The plot of a sweep: the kept energy as a function of the sparsity."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from prune_gui.gui.views.plot import Plot, pen
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import Colours
from prune_gui.session.sweep_curve import SweepCurve

HEADROOM: Final = 0.06
"""Space above and below the curves, as a share of their height."""
MIN_HEIGHT: Final = 1.0
"""Minimum height of the axis, in percentage points."""
MARGIN: Final = 2.0
"""Space beside the curves, in percentage points."""
POINT_PX: Final = 8
CURRENT_PX: Final = 15
"""Diameters of a point, and of the ring around the current point."""
CURVES: Final = (
    ("targets", deferred("kept energy of the step's targets")),
    ("worst", deferred("kept energy of its worst target")),
)
STEPS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Home: -(10**9),
    Qt.Key.Key_End: 10**9,
}


class SweepPlot(Plot):
    """Two curves with a point per row. The cursor and the arrow keys choose a point.

    Signals:
        pointed: (row) the current point is that of this row; -1 if there is none.
        taken: (row) the user clicked the point of this row, or pressed Enter on it.
    """

    pointed = Signal(int)
    taken = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Kept energy by sparsity"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseEnabled(x=False, y=False)
        self.setMinimumWidth(240)
        self._curve: SweepCurve | None = None
        self._current: int | None = None
        self._lines = [pg.PlotDataItem(connect="finite", antialias=True) for _ in CURVES]
        self._ring = pg.ScatterPlotItem(size=CURRENT_PX, brush=None)
        for item in (*self._lines, self._ring):
            self.addItem(item, ignoreBounds=True)
        self.label("bottom", tr("sparsity of all parameters, %"))
        self.label("left", tr("kept energy, %"))
        self.scene().sigMouseMoved.connect(self._point_at)
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self._choose(None))

    def show_curve(self, curve: SweepCurve, colours: Colours) -> None:
        """Show curves; the current point is forgotten."""
        self.recolour(colours)
        self._curve = curve
        for line, (name, _), colour in zip(
            self._lines, CURVES, curve_colours(colours), strict=True
        ):
            line.setData(curve.sparsity, getattr(curve, name))
            line.setPen(pen(colour, width=2))
            line.setSymbol("o")
            line.setSymbolSize(POINT_PX)
            line.setSymbolPen(None)
            line.setSymbolBrush(colour)
        self._ring.setPen(pen(colours.foreground, width=2))
        low, high = min(curve.lowest, 100.0 - MIN_HEIGHT), 100.0
        space = HEADROOM * (high - low)
        self.setYRange(low - space, high + space, padding=0)
        if len(curve):
            first, last = float(curve.sparsity[0]), float(curve.sparsity[-1])
            self.setXRange(first - MARGIN, last + MARGIN, padding=0)
        self._choose(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Move to another point, or take the current one."""
        curve, key = self._curve, Qt.Key(event.key())
        if curve is None or not len(curve):
            super().keyPressEvent(event)
        elif key in STEPS:
            at = 0 if self._current is None else self._current + STEPS[key]
            self._choose(min(max(at, 0), len(curve) - 1))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current is not None:
            event.accept()  # the default button of the dialog does not get it
            self.taken.emit(curve.rows[self._current])
        else:
            super().keyPressEvent(event)

    def _choose(self, point: int | None) -> None:
        self._current, curve = point, self._curve
        if point is None or curve is None:
            self._ring.setData([], [])
            self.pointed.emit(-1)
            return
        heights = np.array([curve.targets[point], curve.worst[point]])
        is_finite = np.isfinite(heights)
        self._ring.setData(np.full(2, curve.sparsity[point])[is_finite], heights[is_finite])
        self.pointed.emit(curve.rows[point])

    def _point_at(self, scene: QPointF) -> None:
        if self._curve is not None and self.view.sceneBoundingRect().contains(scene):
            self._choose(self._curve.nearest(self.view.mapSceneToView(scene).x()))
        else:
            self._choose(None)

    def _click(self, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if click.button() == Qt.MouseButton.LeftButton:
            self._point_at(click.scenePos())
            if self._curve is not None and self._current is not None:
                self.taken.emit(self._curve.rows[self._current])


def curve_colours(colours: Colours) -> tuple[str, str]:
    """Return the colours of the curves, in the order of `CURVES`."""
    return colours.steps[4], colours.steps[0]


def curve_legend(colours: Colours) -> str:
    """Return the meaning of the curves as rich text; each line is an item."""
    return "<br>".join(
        f'<span style="color: {colour}">■</span>&nbsp;{text}'
        for text, colour in zip(
            (tr(title) for _, title in CURVES), curve_colours(colours), strict=True
        )
    )
