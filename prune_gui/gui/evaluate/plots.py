"""Plots of curves whose points can be chosen: a metric, or the kept energy, by the sparsity."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import ArrayLike, NDArray
from PySide6.QtCore import QPointF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent

from prune_gui.evaluation.evaluation_jobs import MetricCurve
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import Colours
from prune_gui.session.sweep_curve import SweepCurve

HEADROOM: Final = 0.06
"""Space around the curves, as a share of their extent."""
LABEL_SPACES: Final = 2
"""Space for the label above the highest line, relative to `HEADROOM`."""
POINT_PX: Final = 8
CURRENT_PX: Final = 15
BEST_PX: Final = 20
"""Diameters of a point, of the ring around the current point, and of that around the best one."""
MAX_LEVELS: Final = 3
REACH_PX: Final = 24
"""Distance from the cursor within which a point of a metric becomes the current one."""
MIN_ENERGY_RANGE: Final = 1.0
"""Minimum height of the axis of the kept energy, in percentage points."""
SPARSITY_MARGIN: Final = 2.0
"""Space beside the curves of the kept energy, in percentage points."""
SYMBOLS: Final = ("o", "s", "t", "d", "t1", "star", "p", "h")
ENERGIES: Final = (
    ("targets", deferred("kept energy of the step's targets")),
    ("worst", deferred("kept energy of its worst target")),
)

At = tuple[int, int]
"""The number of a curve, and of a point on it."""
Key = Qt.Key


class PointPlot(Plot):
    """Curves whose points the cursor and the keys of `STEPS` choose; a click or Enter takes one."""

    pointed = Signal(object)  # (point) the current point; None if there is none
    taken = Signal(object)  # (point) the user clicked this point, or pressed Enter on it
    STEPS: ClassVar[Mapping[Qt.Key, At]] = {Key.Key_Left: (0, -1), Key.Key_Right: (0, 1)}
    """By key, the steps to another curve and to another point."""

    def __init__(self, name: str, sparsity: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseEnabled(x=False, y=False)
        self._current: At | None = None
        self._ring = pg.ScatterPlotItem(size=CURRENT_PX, brush=None)
        self.label("bottom", sparsity)
        self.scene().sigMouseMoved.connect(self._point_at)
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self._choose(None))

    @abstractmethod
    def _counts(self) -> Sequence[int]:
        """Return the numbers of points of the curves."""

    @abstractmethod
    def _nearest(self, scene: QPointF) -> At | None:
        """Return the point at a position in the scene."""

    @abstractmethod
    def _point(self, at: At) -> object:
        """Return what is emitted for a point."""

    @abstractmethod
    def _marks(self, at: At) -> tuple[ArrayLike, ArrayLike]:
        """Return where rings mark a point."""

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = Key(event.key())
        if any(self._counts()) and key in self.STEPS:
            self._move(*self.STEPS[key])
        elif key in (Key.Key_Return, Key.Key_Enter) and self._current is not None:
            event.accept()  # the default button of a dialog does not get it
            self.taken.emit(self._point(self._current))
        else:
            super().keyPressEvent(event)

    def _move(self, curves: int, points: int) -> None:
        counts = self._counts()
        curve, point = self._current or (-curves, -points)
        curve = min(max(curve + curves, 0), len(counts) - 1)
        self._choose((curve, min(max(point + points, 0), counts[curve] - 1)))

    def _choose(self, at: At | None) -> None:
        self._current = at
        self._ring.setData(*([], []) if at is None else self._marks(at))
        self.pointed.emit(None if at is None else self._point(at))

    def _point_at(self, scene: QPointF) -> None:
        self._choose(self._nearest(scene))

    def _click(self, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if click.button() == Qt.MouseButton.LeftButton:
            self._point_at(click.scenePos())
            if self._current is not None:
                self.taken.emit(self._point(self._current))


class MetricPlot(PointPlot):
    """A metric by the sparsity: curves, or points alone, and lines at values to compare with."""

    STEPS: ClassVar[Mapping[Qt.Key, At]] = {
        **PointPlot.STEPS,
        Key.Key_Up: (-1, 0),
        Key.Key_Down: (1, 0),
    }

    def __init__(self, sparsity: str) -> None:
        super().__init__(tr("Metric by sparsity"), sparsity)
        self.setMinimumSize(160, 100)
        self.curves: list[MetricCurve] = []  # the curves with at least one point
        self.levels: dict[str, float] = {}  # the values of horizontal lines, by their labels
        self._lines: list[pg.PlotDataItem] = []
        self._level_lines = [_level_line(at) for at in range(MAX_LEVELS)]
        self._front = pg.PlotDataItem()
        self._best = pg.ScatterPlotItem(size=BEST_PX, brush=None)
        for item in (self._front, self._best, self._ring, *self._level_lines):
            self.addItem(item, ignoreBounds=True)
        self.setXRange(0, 100)

    def show_curves(
        self,
        curves: Sequence[MetricCurve],
        levels: Mapping[str, float],
        title: str,
        colours: Colours,
        shades: Sequence[str] = (),
        within: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        """Show curves in the colours of steps, or in `shades`, and lines at finite levels.

        A curve without a label is points alone. Values beyond `within` are triangles at its ends.
        """
        self.recolour(colours)
        self.label("left", title)
        for line in self._lines:
            self.removeItem(line)
        self._lines, self.curves = [], []
        for item in (self._front, self._best):
            item.setData([], [])
        self.levels = {text: value for text, value in levels.items() if math.isfinite(value)}
        for at, curve in enumerate(curves):
            if curve.points:
                shade = shades[at] if shades else curve_colour(colours, at)
                symbol = "o" if shades else SYMBOLS[at % len(SYMBOLS)]
                self._draw_curve(curve, shade, symbol, within)
        for line in self._level_lines:
            line.hide()
        for at, (text, value) in enumerate(self.levels.items()):
            line = self._level_lines[at]
            line.setPen(pen(colours.foreground, dashed=at == 0))
            line.label.setColor(colours.foreground)
            line.label.setFormat(text)
            line.setValue(value)
            line.show()
        self._ring.setPen(pen(colours.foreground, width=2))
        self._fit()
        self._choose(None)

    def _draw_curve(
        self, curve: MetricCurve, shade: str, symbol: str, within: tuple[float, float]
    ) -> None:
        low, high = within
        values = np.clip(curve.values, low, high)
        style = _style(shade, symbol)
        if not curve.label:
            marks = np.full(len(values), symbol, object)
            marks[curve.values < low], marks[curve.values > high] = "t", "t1"
            style |= {"pen": None, "symbol": list(marks)}
        self.curves.append(replace(curve, values=values))
        self._lines.append(pg.PlotDataItem(curve.sparsity, values, **style))
        self.addItem(self._lines[-1], ignoreBounds=True)

    def draw_front(self, points: NDArray[np.intp], best: Sequence[int], colours: Colours) -> None:
        """Join some points of the first curve with a line, and ring others for good."""
        x, y = self.curves[0].sparsity, self.curves[0].values
        self._front.setData(x[points], y[points], pen=pen(colours.steps[0], width=2))
        self._best.setData(x[best], y[best], pen=pen(colours.cut, width=3))

    def ring(self, point: object) -> None:
        """Ring a point as if the cursor were on it, without a signal; None: no point."""
        places = (
            (curve, index)
            for curve, drawn in enumerate(self.curves)
            for index, each in enumerate(drawn.points)
            if each is point
        )
        with QSignalBlocker(self):
            self._choose(next(places, None))

    def _fit(self) -> None:
        """Make the axes show all finite points, and the levels."""
        sparsity = np.concatenate([curve.sparsity for curve in self.curves] or [np.zeros(0)])
        values = np.concatenate([curve.values for curve in self.curves] or [np.zeros(0)])
        values = np.append(values, [*self.levels.values()])
        values = values[np.isfinite(values)]
        for shown, set_range, above in (
            (sparsity, self.setXRange, 1),
            (values, self.setYRange, 1 + LABEL_SPACES * bool(self.levels)),
        ):
            if len(shown):
                low, high = float(shown.min()), float(shown.max())
                space = HEADROOM * (high - low) or HEADROOM * (abs(high) or 1.0)
                set_range(low - space, high + above * space, padding=0)

    def _counts(self) -> Sequence[int]:
        return [len(curve.points) for curve in self.curves]

    def _point(self, at: At) -> object:
        return self.curves[at[0]].points[at[1]]

    def _marks(self, at: At) -> tuple[ArrayLike, ArrayLike]:
        curve = self.curves[at[0]]
        value = curve.values[at[1]]
        return [curve.sparsity[at[1]]], [value if np.isfinite(value) else 0.0]

    def _nearest(self, scene: QPointF) -> At | None:
        distances: dict[At, float] = {}
        for at, curve in enumerate(self.curves):
            for point, pair in enumerate(zip(curve.sparsity, curve.values, strict=True)):
                place = self.view.mapViewToScene(QPointF(*map(float, pair)))
                distances[at, point] = math.hypot(place.x() - scene.x(), place.y() - scene.y())
        within = {at: away for at, away in distances.items() if away < REACH_PX}
        return min(within, key=within.__getitem__, default=None)


class SweepPlot(PointPlot):
    """The kept energy by the sparsity: two curves with a point per row. Points are row numbers."""

    STEPS: ClassVar[Mapping[Qt.Key, At]] = {
        **PointPlot.STEPS,
        Key.Key_Home: (0, -(10**9)),
        Key.Key_End: (0, 10**9),
    }

    def __init__(self) -> None:
        super().__init__(tr("Kept energy by sparsity"), tr("sparsity of all parameters, %"))
        self.setMinimumWidth(240)
        self._curve: SweepCurve | None = None
        self._lines = [pg.PlotDataItem() for _ in ENERGIES]
        for item in (*self._lines, self._ring):
            self.addItem(item, ignoreBounds=True)
        self.label("left", tr("kept energy, %"))

    def show_curve(self, curve: SweepCurve, colours: Colours) -> None:
        self.recolour(colours)
        self._curve = curve
        for at, (name, _) in enumerate(ENERGIES):
            style = _style(energy_colours(colours)[at], "o")
            self._lines[at].setData(curve.sparsity, getattr(curve, name), **style)
        self._ring.setPen(pen(colours.foreground, width=2))
        low, high = min(curve.lowest, 100.0 - MIN_ENERGY_RANGE), 100.0
        space = HEADROOM * (high - low)
        self.setYRange(low - space, high + space, padding=0)
        if len(curve):
            first, last = float(curve.sparsity[0]), float(curve.sparsity[-1])
            self.setXRange(first - SPARSITY_MARGIN, last + SPARSITY_MARGIN, padding=0)
        self._choose(None)

    def _counts(self) -> Sequence[int]:
        return [0 if self._curve is None else len(self._curve)]

    def _point(self, at: At) -> int:
        assert self._curve is not None
        return self._curve.rows[at[1]]

    def _marks(self, at: At) -> tuple[ArrayLike, ArrayLike]:
        assert self._curve is not None
        heights = np.array([getattr(self._curve, name)[at[1]] for name, _ in ENERGIES])
        heights = heights[np.isfinite(heights)]
        return np.full(len(heights), self._curve.sparsity[at[1]]), heights

    def _nearest(self, scene: QPointF) -> At | None:
        if self._curve is None or not self.view.sceneBoundingRect().contains(scene):
            return None
        point = self._curve.nearest(self.view.mapSceneToView(scene).x())
        return None if point is None else (0, point)


def curve_colour(colours: Colours, position: int) -> str:
    """Return the colour of the curve of a metric at a position, from 0."""
    return colours.steps[position % len(colours.steps)]


def energy_colours(colours: Colours) -> tuple[str, str]:
    """Return the colours of the curves, in the order of `ENERGIES`."""
    return colours.steps[4], colours.steps[0]


def energy_legend(colours: Colours) -> str:
    """Return the meaning of the curves of the kept energy as rich text; each line is an item."""
    titles = [tr(title) for _, title in ENERGIES]
    return "<br>".join(
        f'<span style="color: {colour}">■</span>&nbsp;{title}'
        for title, colour in zip(titles, energy_colours(colours), strict=True)
    )


def _level_line(at: int) -> pg.InfiniteLine:
    """Return a hidden horizontal line; the label of the first is above it, others are below."""
    corner = (0, int(at == 0))
    line = pg.InfiniteLine(angle=0, label="", labelOpts={"position": 0.01, "anchors": [corner] * 2})
    line.hide()
    return line


def _style(colour: str, symbol: str) -> dict[str, object]:
    return {
        "connect": "finite",
        "antialias": True,
        "pen": pen(colour, width=2),
        "symbol": symbol,
        "symbolSize": POINT_PX,
        "symbolPen": None,
        "symbolBrush": colour,
    }
