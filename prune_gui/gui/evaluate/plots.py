"""A plot of curves whose points can be chosen: a metric, or the kept energy, by the sparsity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent

from prune_gui.evaluation.evaluation_jobs import MetricCurve
from prune_gui.gui.views.legend_text import coloured_text, unbroken
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.raster.colours import Colours

HEADROOM: Final = 0.06
"""Space around the curves, as a share of their extent."""
LABEL_PX: Final = 24
"""Height of the label above the first line."""
POINT_PX: Final = 8
CURRENT_PX: Final = 15
BEST_PX: Final = 20
"""Diameters of a point, of the ring around the current point, and of that around the best one."""
MAX_LEVELS: Final = 3
REACH_PX: Final = 24
"""Distance from the cursor within which a point becomes the current one."""
SYMBOLS: Final[Mapping[str, str]] = {
    "o": "●",
    "s": "■",
    "t": "▼",
    "d": "◆",
    "t1": "▲",
    "star": "★",
    "p": "⬟",
    "h": "⬢",
}
"""The shapes of the points of curves, as pyqtgraph names them, and as characters of a legend."""
ANY: Final = (-math.inf, math.inf)
NAME_PX: Final = 14
"""Smallest distance down between the names of two curves."""
MAX_NAMES_SHARE: Final = 0.4
"""Names take at most this share of the width."""

At = tuple[int, int]
"""The number of a curve, and of a point on it."""
Key = Qt.Key
END: Final = 10**9
STEPS: Final[Mapping[Qt.Key, At]] = {
    Key.Key_Left: (0, -1),
    Key.Key_Right: (0, 1),
    Key.Key_Up: (-1, 0),
    Key.Key_Down: (1, 0),
    Key.Key_Home: (0, -END),
    Key.Key_End: (0, END),
}
"""By key, the steps to another curve and to another point."""


class MetricPlot(Plot):
    """Curves, or points alone, and lines at values to compare with.

    The cursor and the keys of `STEPS` choose a point; a click or Enter takes it.
    """

    pointed = Signal(object)  # (point) the current point; None if there is none
    taken = Signal(object)  # (point) the user clicked this point, or pressed Enter on it

    def __init__(self, name: str, sparsity: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseEnabled(x=False, y=False)
        self.setMinimumSize(160, 100)
        self.curves: list[MetricCurve] = []  # the curves with at least one point
        self.extent: tuple[float, float] | None = None  # of the bottom axis; None: that of curves
        self.levels: dict[str, float] = {}  # the values of horizontal lines, by their labels
        self.shades: dict[str, str] = {}  # the colours of the curves, by their labels
        self._symbols: dict[str, str] = {}  # the shapes of their points
        self._current: At | None = None
        self._lines: list[pg.PlotDataItem] = []
        self._names: list[tuple[pg.TextItem, float]] = []  # and where their curves end
        self._level_lines = [_level_line(at) for at in range(MAX_LEVELS)]
        self._front = pg.PlotDataItem()
        self._best = pg.ScatterPlotItem(size=BEST_PX, brush=None)
        self._ring = pg.ScatterPlotItem(size=CURRENT_PX, brush=None)
        for item in (self._front, self._best, self._ring, *self._level_lines):
            self.addItem(item, ignoreBounds=True)
        self.label("bottom", sparsity)
        self.setXRange(0, 100)
        self.view.sigResized.connect(self._fit)
        self.scene().sigMouseMoved.connect(self._point_at)
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self._choose(None))

    def show_curves(
        self,
        curves: Sequence[MetricCurve],
        levels: Mapping[str, float],
        title: str,
        colours: Colours,
        shades: Sequence[str] = (),
        within: tuple[float, float] = ANY,
    ) -> None:
        """Show curves in colours of their own, or in `shades`, and lines at finite levels.

        A curve without a label is points alone. Values beyond `within` are triangles at its ends.
        """
        self.label("left", title)
        for item in (*self._lines, *(text for text, _ in self._names)):
            self.removeItem(item)
        self._lines, self.curves, self.shades, self._symbols, self._names = [], [], {}, {}, []
        for item in (self._front, self._best):
            item.setData([], [])
        self.levels = {text: value for text, value in levels.items() if math.isfinite(value)}
        alike: dict[tuple[str, str], list[MetricCurve]] = {}  # drawn at once, for speed
        for at, curve in enumerate(curves):
            if curve.points:
                shade = shades[at] if shades else colours.curves[at % len(colours.curves)]
                symbol = "o" if shades else [*SYMBOLS][at % len(SYMBOLS)]
                alike.setdefault((shade, symbol), []).append(curve)
                self.shades[curve.label], self._symbols[curve.label] = shade, symbol
                self.curves.append(replace(curve, values=np.clip(curve.values, *within)))
        for (shade, symbol), members in alike.items():
            self._draw(members, shade, symbol, within)
        for line in self._level_lines:
            line.hide()
        for at, (text, value) in enumerate(self.levels.items()):
            line = self._level_lines[at]
            line.setPen(pen(colours.foreground, dashed=at == 0))
            line.label.setColor(colours.foreground)
            line.setValue(value)
            line.show()
            line.label.setFormat(text)  # ignored while it is hidden
        self._ring.setPen(pen(colours.foreground, width=2))
        self._fit()
        self._choose(None)

    def name_curves(self, names: Mapping[str, str], colours: Colours) -> None:
        """Write names at the ends of the curves with these labels, the first ones if too close."""
        by_label = {curve.label: curve for curve in self.curves}
        for label, name in names.items():
            curve = by_label.get(label)
            if curve is not None and np.isfinite(curve.values[-1]):
                text = pg.TextItem(
                    name, colours.foreground, anchor=(0, 0.5), fill=colours.background
                )
                text.setPos(curve.sparsity[-1], curve.values[-1])
                self._names.append((text, float(curve.values[-1])))
                self.addItem(text, ignoreBounds=True)
        self._fit()

    def draw_front(self, points: NDArray[np.intp], best: Sequence[int], colours: Colours) -> None:
        """Join some points of the first curve with a line, and ring others for good."""
        x, y = self.curves[0].sparsity, self.curves[0].values
        self._front.setData(x[points], y[points], pen=pen(colours.curves[0], width=2))
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

    def show_current(self, *, on: bool) -> None:
        """Show or hide the ring around the current point."""
        self._ring.setVisible(on)

    def legend(self) -> str:
        """Return the line, the shape and the label of each curve that has one, as rich text."""

        def mark(curve: MetricCurve) -> str:
            line = "─" * (len(curve.points) > 1)
            shape = line + SYMBOLS[self._symbols[curve.label]] + line
            return coloured_text(shape, self.shades[curve.label])

        labelled = [one for one in self.curves if one.label]
        return "<br>".join(f"{mark(one)}&nbsp;{unbroken(one.label)}" for one in labelled)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = Key(event.key())
        if self.curves and key in STEPS:
            self._move(*STEPS[key])
        elif key in (Key.Key_Return, Key.Key_Enter) and self._current is not None:
            event.accept()  # the default button of a dialog does not get it
            self.taken.emit(self._point(self._current))
        else:
            super().keyPressEvent(event)

    def _move(self, curves: int, points: int) -> None:
        curve, point = self._current or (-curves, -points)
        curve = min(max(curve + curves, 0), len(self.curves) - 1)
        last = len(self.curves[curve].points) - 1
        self._choose((curve, min(max(point + points, 0), last)))

    def _choose(self, at: At | None) -> None:
        self._current = at
        x, y = np.zeros(0), np.zeros(0)
        if at is not None:
            curve, point = self.curves[at[0]], slice(at[1], at[1] + 1)
            if np.isfinite(curve.values[at[1]]):
                x, y = curve.sparsity[point], curve.values[point]
        self._ring.setData(x, y)
        self.pointed.emit(None if at is None else self._point(at))

    def _point(self, at: At) -> object:
        return self.curves[at[0]].points[at[1]]

    def _point_at(self, scene: QPointF) -> None:
        self._choose(self._nearest(scene))

    def _click(self, click: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if click.button() == Qt.MouseButton.LeftButton:
            self._point_at(click.scenePos())
            if self._current is not None:
                self.taken.emit(self._point(self._current))

    def _draw(
        self, curves: Sequence[MetricCurve], shade: str, symbol: str, within: tuple[float, float]
    ) -> None:
        sparsity = np.concatenate([np.append(curve.sparsity, np.nan) for curve in curves])
        values = np.concatenate([np.append(curve.values, np.nan) for curve in curves])
        symbols = np.full(len(values), symbol, object)
        symbols[values < within[0]], symbols[values > within[1]] = "t", "t1"
        values = np.clip(values, *within)
        values[~np.isfinite(values)] = np.nan  # they have no place
        if np.isnan(values).all():
            return
        line = pg.PlotDataItem(
            sparsity,
            values,
            connect="finite",
            antialias=True,
            pen=pen(shade, width=2) if curves[0].label else None,
            symbol=list(symbols),
            symbolSize=POINT_PX,
            symbolPen=None,
            symbolBrush=shade,
        )
        self._lines.append(line)
        self.addItem(line, ignoreBounds=True)

    def _fit(self) -> None:
        """Make the axes show all finite points, and the levels."""
        sparsity = np.concatenate([curve.sparsity for curve in self.curves] or [np.zeros(0)])
        if self.extent or not len(sparsity) or sparsity.min() == sparsity.max():
            sparsity = np.array(self.extent or (0.0, 100.0))  # nothing to fit: all percents
        values = np.concatenate([curve.values for curve in self.curves] or [np.zeros(0)])
        values = np.append(values, [*self.levels.values()])
        values = values[np.isfinite(values)] if self.curves else np.array([0.0, 1.0])
        for shown, set_range in ((values, self.setYRange), (sparsity, self.setXRange)):
            if len(shown):
                low, high = float(shown.min()), float(shown.max())
                space = HEADROOM * (high - low) or HEADROOM * (abs(high) or 1.0)
                low, high = low - space, high + space
                if self.levels and shown is values:
                    share = min(LABEL_PX / max(self.view.height(), 1.0), 0.5)
                    first = next(iter(self.levels.values()))
                    high = max(high, (first - share * low) / (1 - share))
                if shown is sparsity:
                    share = min(self._place_names() / max(self.view.width(), 1.0), MAX_NAMES_SHARE)
                    high += share / (1 - share) * (high - low)
                set_range(low, high, padding=0)

    def _place_names(self) -> float:
        """Hide the names that are too close to others before them; return the width of the rest."""
        width, taken = 0.0, list[float]()
        px = self.view.height() / max(self.view.viewRect().height(), 1e-9)
        for text, value in self._names:
            is_free = all(abs(value - other) * px >= NAME_PX for other in taken)
            text.setVisible(is_free)
            if is_free:
                taken.append(value)
                width = max(width, text.boundingRect().width())
        return width

    def _nearest(self, scene: QPointF) -> At | None:
        if not self.curves:
            return None
        zero, one = (self.view.mapViewToScene(QPointF(at, at)) for at in (0, 1))
        sparsity = np.concatenate([curve.sparsity for curve in self.curves])
        values = np.concatenate([curve.values for curve in self.curves])
        across = zero.x() + sparsity * (one.x() - zero.x()) - scene.x()
        down = zero.y() + values * (one.y() - zero.y()) - scene.y()
        distances = np.nan_to_num(np.hypot(across, down), nan=np.inf)
        nearest = int(distances.argmin())
        if distances[nearest] >= REACH_PX:
            return None
        ends = np.cumsum([len(curve.points) for curve in self.curves])
        curve = int(np.searchsorted(ends, nearest, side="right"))
        return curve, nearest - int(ends[curve]) + len(self.curves[curve].points)


def _level_line(at: int) -> pg.InfiniteLine:
    """Return a hidden horizontal line; the label of the first is above it, others are below."""
    corner = (0, int(at == 0))
    line = pg.InfiniteLine(angle=0, label="", labelOpts={"position": 0.01, "anchors": [corner] * 2})
    line.hide()
    return line
