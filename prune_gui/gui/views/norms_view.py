"""The norm of every channel of a parameter, and how much of it is pruned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QWidget

from prune_gui.gui.views.axes import IndexAxis, dim_label
from prune_gui.gui.views.measured import Measured, describe_channel, measure
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.stacking import ChannelBars, channel_bars, in_order
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.views.view import SETTLE, View

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

MOST_BARS = 2000
NORMS = ((1.0, "1: sum of |w|"), (2.0, "2: Euclidean"), (math.inf, "∞: largest |w|"))
MARGIN = 0.04
"""How high the strip is that marks dead channels under the bars, as a share of the tallest."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The channels in the order in which they are shown, and the bars of those in sight."""

    measured: Measured
    order: NDArray[np.intp]
    bars: ChannelBars


class NormsView(View):
    """A bar per channel, as high as its norm, coloured by what is pruned of it."""

    lane = "norms"

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName("Norms")
        self._row: Row | None = None
        self._items: list[pg.BarGraphItem] = []
        self._plot = Plot({"bottom": IndexAxis("bottom")})
        self._plot.setAccessibleName("Norm of each channel")
        self._plot.setMouseEnabled(x=True, y=False)
        self._dim, self._n = QComboBox(), QComboBox()
        self._dim.setAccessibleName("Dimension of the channels")
        self._n.setAccessibleName("Norm")
        for n, text in NORMS:
            self._n.addItem(text, n)
        self._n.setCurrentIndex(1)
        self._sorted = QCheckBox("&Sorted by norm")
        self._channel, self._dead = QLabel(), QLabel()
        self._channel.setAccessibleName("Channel under the cursor")
        self._dead.setAccessibleName("Dead channels")
        self._lay_out([self._dim, self._n, self._sorted], self._plot, [self._channel, self._dead])
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self.refresh)
        self._dim.currentIndexChanged.connect(self.refresh)
        self._n.currentIndexChanged.connect(self.refresh)
        self._sorted.toggled.connect(self.refresh)
        self._plot.view.sigXRangeChanged.connect(self._moved)
        self._plot.scene().sigMouseMoved.connect(self._point_at)
        self._plot.left.connect(self._channel.clear)
        self._recolour()

    def _look(self, subject: Subject) -> None:
        self._offer_dims(subject)
        dim, n, ascending = self._dim.currentData(), self._n.currentData(), self._sorted.isChecked()
        shape = subject.info.shape or (1,)
        before = self._row.measured if self._row else None
        if before is not None and not before.is_about(subject, dim):
            before = None
        places = range(shape[dim]) if before is None else self._in_sight(shape[dim])

        def work(monitor: Monitor) -> Row:
            measured = measure(subject, dim, n, before, monitor)
            order = in_order(measured.norms, ascending=ascending)
            bars = channel_bars(measured.norms, measured.channels, order, places, MOST_BARS)
            return Row(measured, order, bars)

        self._picture(subject, work, self._show)

    def _offer_dims(self, subject: Subject) -> None:
        shape = subject.info.shape
        labels = [
            f"{dim_label(subject.name, shape, dim)} ({size:,})" for dim, size in enumerate(shape)
        ] or ["the only entry"]
        if labels != [self._dim.itemText(i) for i in range(self._dim.count())]:
            self._dim.blockSignals(True)
            self._dim.clear()
            for dim, label in enumerate(labels):
                self._dim.addItem(label, dim)
            self._dim.blockSignals(False)

    def _in_sight(self, channels: int) -> range:
        low, high = self._plot.view.viewRange()[0]
        first = min(max(0, math.floor(low + 0.5)), channels - 1)
        return range(first, max(first + 1, min(channels, math.ceil(high + 0.5))))

    def _show(self, row: Row) -> None:
        before, self._row = self._row, row
        subject, dim = row.measured.subject, row.measured.dim
        channels, colours = len(row.order), self.colours()
        if before is None or not before.measured.is_about(subject, dim):
            self._plot.view.setLimits(xMin=-0.5, xMax=channels - 0.5, minXRange=min(2, channels))
            self._plot.setXRange(-0.5, channels - 0.5, padding=0)
        self._draw(row)
        along = dim_label(subject.name, subject.info.shape, dim)
        if self._sorted.isChecked():
            along = f"place by norm, least first; {along}"
        if (most := int(np.diff(row.bars.edges).max())) > 1:
            along += f" (a bar is as high as the largest of {most:,})"
        self._plot.label("bottom", along)
        self._plot.plotItem.getAxis("bottom").end = channels
        self._plot.label(
            "left", f"{row.measured.n:g}-norm in the file, coloured by share of entries"
        )
        self._legend.show_subject(subject, colours)
        dead = int(np.count_nonzero(~row.measured.channels.alive))
        mark = f'<span style="color: {colours.warning}">▬</span>'
        self._dead.setText(f"{mark} {dead:,} dead (nothing but zeros is kept)" if dead else "")

    def _draw(self, row: Row) -> None:
        bars, colours = row.bars, self.colours()
        gap = 0.1 if len(bars.dead) <= 200 else 0.0
        left, right = bars.edges[:-1] - 0.5 + gap, bars.edges[1:] - 0.5 - gap
        top = row.measured.highest
        for item in self._items:
            self._plot.removeItem(item)
        self._items = [
            pg.BarGraphItem(
                x0=left,
                x1=right,
                y0=bars.tops[part],
                y1=bars.tops[part + 1],
                pen=None,
                brush=colours.of(code, row.measured.subject.draft),
            )
            for part, code in enumerate(row.measured.channels.codes)
        ]
        if bars.dead.any():
            self._items.append(
                pg.BarGraphItem(
                    x0=left[bars.dead],
                    x1=right[bars.dead],
                    y0=-MARGIN * top,
                    y1=-MARGIN * top / 4,
                    pen=None,
                    brush=colours.warning,
                )
            )
        for item in self._items:
            self._plot.addItem(item, ignoreBounds=True)
        self._plot.setYRange(-MARGIN * top, 1.05 * top, padding=0)

    def _moved(self) -> None:
        if not self._settled.isActive():
            self._settled.start()

    def _point_at(self, scene: QPointF) -> None:
        row = self._row
        place = round(self._plot.view.mapSceneToView(scene).x())
        inside = self._plot.view.sceneBoundingRect().contains(scene)
        if row is not None and inside and 0 <= place < len(row.order):
            self._channel.setText(describe_channel(row.measured, int(row.order[place])))
        else:
            self._channel.clear()

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settled.stop()
