"""Lines between the attention heads in a picture, and the name and sparsity of each beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor, QFont, QFontMetricsF

from prune_gui.gui.views.plot import pen
from prune_gui.gui.widgets.theme import SMALL, scaled
from prune_gui.language import tr
from prune_gui.raster.colours import Colours
from prune_gui.raster.parameter_layouts import HeadBands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prune_gui.gui.views.plot import Plot

MIN_BAND_PX: Final = 4  # minimum width of a band for lines between bands
HALO_OPACITY: Final = 0.6
HALO_WIDTH_PX: Final = 3.0
PADDING_PX: Final = 8


class HeadAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis with a text at each head, or at every n-th head if they are too near."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation, pen=None, showValues=True, maxTickLength=0)
        self.setStyle(autoExpandTextSpace=False, hideOverlappingLabels=False)
        self._bands: HeadBands | None = None
        self._shares: Sequence[str] = ()
        self._is_compact = False
        self._metrics = QFontMetricsF(QFont())
        self.hide()

    def show_bands(self, bands: HeadBands | None, shares: Sequence[str], font: QFont) -> None:
        small = scaled(font, SMALL)
        self._bands, self._shares, self._metrics = bands, shares, QFontMetricsF(small)
        self.setStyle(tickFont=small)
        self.setVisible(bands is not None)
        if self.orientation == "right":
            self.setWidth(self._longest(compact=True) + PADDING_PX if bands else 0)
        else:
            self.setHeight(2 * self._metrics.lineSpacing() + PADDING_PX if bands else 0)
        self.picture = None
        self.update()

    def tickValues(  # noqa: N802
        self, low: float, high: float, size: float
    ) -> list[tuple[float, list[float]]]:
        """Return the centre of the visible part of each head that has a text."""
        low, high = sorted((low, high))
        if self._bands is None or low == high:
            return []
        width, count = self._bands.width, len(self._bands.labels)
        band_px = size * width / (high - low)
        line_px = self._metrics.lineSpacing()
        if self.orientation == "right":
            self._is_compact = band_px < 2 * line_px
            text_px = line_px
        else:
            self._is_compact = band_px < self._longest(compact=False)
            text_px = self._longest(compact=True) if self._is_compact else 0
        step = max(1, math.ceil((text_px + 1) / band_px))
        starts = np.arange(0, count, step) * width - 0.5
        ends = np.clip(starts + width, low, high)
        starts = np.clip(starts, low, high)
        seen = ends > starts
        return [(float(step * width), ((starts + ends) / 2)[seen].tolist())]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        if self._bands is None:
            return []
        return [self._text(int((value + 0.5) // self._bands.width)) for value in values]

    def _text(self, head: int, *, compact: bool | None = None) -> str:
        assert self._bands is not None
        is_compact = self._is_compact if compact is None else compact
        label = self._bands.labels[head]
        share = self._shares[head] if self._shares else ""
        if is_compact and self.orientation == "right":
            return tr("{head}: {share}", head=label, share=share) if share else label
        name = label if is_compact else tr("head {head}", head=label)
        return f"{name}\n{share}"

    def _longest(self, *, compact: bool) -> float:
        assert self._bands is not None
        texts = (self._text(head, compact=compact) for head in range(len(self._bands.labels)))
        lines = (line for text in texts for line in text.split("\n"))
        return max(map(self._metrics.horizontalAdvance, lines))


class HeadOverlay:
    """Lines between the heads in the picture of a plot, and their texts along its axes."""

    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        self._axes = {side: plot.plotItem.getAxis(side) for side in ("top", "right")}
        for side in self._axes:
            plot.plotItem.showAxis(side, False)
        self._halo, self._lines = (pg.PlotCurveItem(connect="pairs") for _ in range(2))
        self._bands: HeadBands | None = None
        for item in (self._halo, self._lines):
            plot.addItem(item, ignoreBounds=True)

    def show_bands(
        self, bands: HeadBands | None, sides: tuple[int, int], shares: Sequence[str] = ()
    ) -> None:
        self._bands = bands
        for side, axis in self._axes.items():
            here = bands if bands is not None and bands.are_rows == (side == "right") else None
            axis.show_bands(here, shares, self._plot.font())
        x = y = np.zeros(0)
        if bands is not None:
            borders = np.arange(1, len(bands.labels)) * bands.width - 0.5
            x, y = np.repeat(borders, 2), np.tile([-0.5, sides[0] - 0.5], len(borders))
            if bands.are_rows:
                x, y = np.tile([-0.5, sides[1] - 0.5], len(borders)), x
        for item in (self._halo, self._lines):
            item.setData(x, y)
        self.update()

    def update(self) -> None:
        visible = False
        if self._bands is not None:
            size, sight = self._plot.view.rect(), self._plot.viewRect()
            scale = size.width() / sight.width()
            if self._bands.are_rows:
                scale = size.height() / sight.height()
            visible = scale * self._bands.width >= MIN_BAND_PX
        for item in (self._halo, self._lines):
            item.setVisible(visible)

    def recolour(self, colours: Colours) -> None:
        halo = QColor(colours.background)
        halo.setAlphaF(HALO_OPACITY)
        self._halo.setPen(pg.mkPen(halo, width=HALO_WIDTH_PX))
        self._lines.setPen(pen(colours.foreground))
        for axis in self._axes.values():
            axis.setTextPen(colours.foreground)
