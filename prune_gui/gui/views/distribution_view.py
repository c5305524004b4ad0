"""The values of a parameter, and which of them each step prunes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QWidget

from prune_gui.gui.views.axes import CountAxis
from prune_gui.gui.views.cut_line import CutLine
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.stacking import FLOOR, stacked
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.views.view import View

if TYPE_CHECKING:
    from prune_gui.audit.histogram import Histogram
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

BINS = (32, 1024)
"""The fewest and the most; in between there are as many as the root of the number of weights."""
HEADROOM = 1.15
LABELS = 6
"""How many lines the names of the cuts take, at most; then they begin at the top again."""


class DistributionView(View):
    """An exact histogram, coloured by step, with the cuts; that of the draft can be dragged.

    Signals:
        cut_dragged: (absolute value) the user wants the draft to prune what is at most this.
    """

    lane = "distribution"
    cut_dragged = Signal(float)

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName("Distribution")
        self._histogram: Histogram | None = None
        self._reach: tuple[float, float] | None = None
        self._bars: list[pg.BarGraphItem] = []
        self._cuts: dict[int, CutLine] = {}
        self._plot = Plot({"left": CountAxis("left")})
        self._plot.setAccessibleName("Histogram of the weights")
        self._plot.label("bottom", "weight")
        self._plot.setMouseEnabled(x=True, y=False)
        self._log = QCheckBox("&Logarithmic counts")
        self._symmetric = QCheckBox("&Symmetric about zero")
        self._symmetric.setChecked(True)
        self._bin, self._odd = QLabel(), QLabel()
        self._bin.setAccessibleName("Bin under the cursor")
        self._odd.setAccessibleName("Weights that are no finite number")
        self._lay_out([self._log, self._symmetric], self._plot, [self._bin, self._odd])
        for box in (self._log, self._symmetric):
            box.toggled.connect(self.refresh)
        self._plot.scene().sigMouseMoved.connect(self._point_at)
        self._plot.left.connect(self._bin.clear)
        self._recolour()

    def _look(self, subject: Subject) -> None:
        same = subject.same_parameter(self._pictured)
        known, before = (self._reach, self._histogram) if same else (None, None)
        symmetric = self._symmetric.isChecked()
        bins = 2 * round(float(np.clip(math.sqrt(subject.info.numel), *BINS)) / 2)

        def work(monitor: Monitor) -> tuple[tuple[float, float], Histogram]:
            from prune_gui.audit.histogram import bin_edges, histogram, value_range

            checkpoint = subject.resolution.checkpoint
            reach = known or value_range(checkpoint, subject.name, monitor)
            edges = bin_edges(*reach, bins, symmetric=symmetric)
            return reach, histogram(subject.resolution, subject.name, edges, monitor, before)

        self._picture(subject, work, lambda made: self._show(subject, *made))

    def _show(self, subject: Subject, reach: tuple[float, float], found: Histogram) -> None:
        before, self._histogram, self._reach = self._histogram, found, reach
        log = self._log.isChecked()
        self._plot.plotItem.getAxis("left").setLogMode(log)
        self._plot.label("left", f"weights per bin{', logarithmic' if log else ''}")
        self._draw_bars(subject, found, log=log)
        self._draw_cuts(subject, found)
        low, high = float(found.edges[0]), float(found.edges[-1])
        if before is None or not np.array_equal(before.edges, found.edges):
            self._plot.view.setLimits(xMin=low, xMax=high, minXRange=(high - low) / 100)
            self._plot.setXRange(low, high, padding=0)
        self._legend.show_subject(subject, self.colours())
        self._odd.setText(odd_weights(found))

    def _draw_bars(self, subject: Subject, found: Histogram, *, log: bool) -> None:
        colours, tops = self.colours(), stacked(found.counts, log=log)
        for bar in self._bars:
            self._plot.removeItem(bar)
        self._bars = [
            pg.BarGraphItem(
                x0=found.edges[:-1],
                x1=found.edges[1:],
                y0=tops[part],
                y1=tops[part + 1],
                pen=None,
                brush=colours.of(code, subject.draft),
            )
            for part, code in enumerate(found.codes)
        ]
        for bar in self._bars:
            self._plot.addItem(bar, ignoreBounds=True)
        top = max(1.0, float(tops[-1].max())) * HEADROOM
        self._plot.setYRange(FLOOR if log else 0.0, top, padding=0)

    def _draw_cuts(self, subject: Subject, found: Histogram) -> None:
        for code in [code for code in self._cuts if code not in found.cuts]:
            self._cuts.pop(code).remove()
        limit = max(abs(float(found.edges[0])), abs(float(found.edges[-1])))
        for place, (code, value) in enumerate(found.cuts.items()):
            if code not in self._cuts:
                self._cuts[code] = CutLine(self._plot)
                self._cuts[code].dragged.connect(self.cut_dragged)
            drafted = code == subject.draft
            self._cuts[code].show_cut(
                value,
                "draft" if drafted else f"step {code}",
                place % LABELS,
                self.colours(),
                limit=limit if drafted else None,
            )

    def _point_at(self, scene: QPointF) -> None:
        found, subject = self._histogram, self.subject
        if found is None or subject is None:
            return
        at = self._plot.view.mapSceneToView(scene).x()
        place = int(np.searchsorted(found.edges, at, side="right")) - 1
        inside = self._plot.view.sceneBoundingRect().contains(scene)
        if inside and 0 <= place < found.counts.shape[1]:
            self._bin.setText(describe_bin(subject, found, place))
        else:
            self._bin.clear()

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())


def describe_bin(subject: Subject, found: Histogram, place: int) -> str:
    """Say what a bin holds: "0.012 to 0.013: 1,204 weights; kept 1,000; step 1: ... 204"."""
    counts = dict(zip(found.codes, found.counts[:, place].tolist(), strict=True))
    parts = [f"{subject.title(code)} {count:,}" for code, count in counts.items() if count]
    low, high = found.edges[place], found.edges[place + 1]
    return "; ".join([f"{low:.4g} to {high:.4g}: {sum(counts.values()):,} weights", *parts])


def odd_weights(found: Histogram) -> str:
    """Say how many weights lie in no bin; "" if all do."""
    parts = [(found.nan, "NaN"), (found.infinite, "infinite")]
    said = " and ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"⚠ {said} (in no bin)" if said else ""
