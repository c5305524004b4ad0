"""The plot of a metric as a function of the sparsity: a curve for each step that was swept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from prune_gui.gui.views.plot import Plot, pen
from prune_gui.language import tr
from prune_gui.raster.colours import Colours
from prune_gui.session.evaluations.curves import CurvePoint, MetricCurve

HEADROOM: Final = 0.06
"""Space around the curves, as a share of their extent."""
POINT_PX: Final = 8
CURRENT_PX: Final = 15
"""Diameters of a point, and of the ring around the current point."""
REACH_PX: Final = 24
"""Distance from the cursor within which a point becomes the current one."""
MIN_HEIGHT_PX: Final = 100
SYMBOLS: Final = ("o", "s", "t", "d", "t1", "star", "p", "h")
STEPS: Final = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""The arrow keys: to another curve, or to another point of the same curve."""


class MetricPlot(Plot):
    """Curves with a point per evaluation. The cursor and the arrow keys choose a point.

    Attributes:
        curves: the curves with at least one point.
        dense: the value of the file; NaN if it is not known.

    Signals:
        pointed: (point) the current `CurvePoint`; None if there is none.
        taken: (point) the user clicked this `CurvePoint`, or pressed Enter on it.
    """

    pointed = Signal(object)
    taken = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Metric by sparsity"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseEnabled(x=False, y=False)
        self.setMinimumHeight(MIN_HEIGHT_PX)
        self.curves: list[MetricCurve] = []
        self._current: tuple[int, int] | None = None
        self._lines: list[pg.PlotDataItem] = []
        self.dense = math.nan
        self._dense_line = pg.InfiniteLine(angle=0)
        self._ring = pg.ScatterPlotItem(size=CURRENT_PX, brush=None)
        for item in (self._dense_line, self._ring):
            self.addItem(item, ignoreBounds=True)
        self._dense_line.hide()
        self.setXRange(0, 100)
        self.label("bottom", tr("sparsity of all prunable parameters, %"))
        self.scene().sigMouseMoved.connect(self._point_at)
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self._choose(None))

    def show_curves(
        self, curves: Sequence[MetricCurve], dense: float, title: str, colours: Colours
    ) -> None:
        """Show curves; the current point is forgotten."""
        self.recolour(colours)
        self.label("left", title)
        self.dense = dense
        for line in self._lines:
            self.removeItem(line)
        self.curves = [curve for curve in curves if curve.points]
        self._lines = [
            _line(curve, curve_colour(colours, at), SYMBOLS[at % len(SYMBOLS)])
            for at, curve in enumerate(curves)
            if curve.points
        ]
        for line in self._lines:
            self.addItem(line, ignoreBounds=True)
        self._dense_line.setPen(pen(colours.foreground, dashed=True))
        self._dense_line.setVisible(bool(np.isfinite(dense)))
        if np.isfinite(dense):
            self._dense_line.setValue(dense)
        self._ring.setPen(pen(colours.foreground, width=2))
        self._fit(dense)
        self._choose(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Move to another point, or take the current one."""
        key = Qt.Key(event.key())
        if not self.curves:
            super().keyPressEvent(event)
        elif key in STEPS:
            self._move(*STEPS[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current is not None:
            event.accept()
            self.taken.emit(self._point(self._current))
        else:
            super().keyPressEvent(event)

    def _fit(self, dense: float) -> None:
        """Make the axes show all finite points, and the dense value."""
        sparsity = np.concatenate([curve.sparsity for curve in self.curves] or [np.zeros(0)])
        values = np.concatenate([curve.values for curve in self.curves] or [np.zeros(0)])
        values = np.append(values, dense)
        values = values[np.isfinite(values)]
        for shown, set_range in ((sparsity, self.setXRange), (values, self.setYRange)):
            if len(shown):
                low, high = float(shown.min()), float(shown.max())
                space = HEADROOM * (high - low) or HEADROOM * (abs(high) or 1.0)
                set_range(low - space, high + space, padding=0)

    def _move(self, curves: int, points: int) -> None:
        if self._current is None:
            self._choose((0, 0))
            return
        curve, point = self._current
        curve = min(max(curve + curves, 0), len(self.curves) - 1)
        last = len(self.curves[curve].points) - 1
        self._choose((curve, min(max(point + points, 0), last)))

    def _point(self, at: tuple[int, int]) -> CurvePoint:
        return self.curves[at[0]].points[at[1]]

    def _choose(self, at: tuple[int, int] | None) -> None:
        self._current = at
        if at is None:
            self._ring.setData([], [])
            self.pointed.emit(None)
            return
        curve = self.curves[at[0]]
        value = curve.values[at[1]]
        self._ring.setData([curve.sparsity[at[1]]], [value] if np.isfinite(value) else [0.0])
        self.pointed.emit(self._point(at))

    def _point_at(self, scene: QPointF) -> None:
        nearest, distance = None, float(REACH_PX)
        for at, curve in enumerate(self.curves):
            for point, pair in enumerate(zip(curve.sparsity, curve.values, strict=True)):
                place = self.view.mapViewToScene(QPointF(*map(float, pair)))
                away = float(np.hypot(place.x() - scene.x(), place.y() - scene.y()))
                if away < distance:
                    nearest, distance = (at, point), away
        self._choose(nearest)

    def _click(self, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if click.button() == Qt.MouseButton.LeftButton:
            self._point_at(click.scenePos())
            if self._current is not None:
                self.taken.emit(self._point(self._current))


def curve_colour(colours: Colours, position: int) -> str:
    """Return the colour of the curve at a position, from 0."""
    return colours.steps[position % len(colours.steps)]


def _line(curve: MetricCurve, colour: str, symbol: str) -> pg.PlotDataItem:
    return pg.PlotDataItem(
        curve.sparsity,
        curve.values,
        connect="finite",
        antialias=True,
        pen=pen(colour, width=2),
        symbol=symbol,
        symbolSize=POINT_PX,
        symbolPen=None,
        symbolBrush=colour,
    )
