"""The margins of a picture: profiles of rows and columns, and attention heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetricsF

from prune_gui.gui.views.bars.data import drawable, span, visible_positions
from prune_gui.gui.views.plot import pen
from prune_gui.gui.widgets.theme import SMALL, scaled
from prune_gui.language import format_number, tr
from prune_gui.raster.colours import Colours, mixed
from prune_gui.raster.parameter_layouts import HeadBands

if TYPE_CHECKING:
    from prune_gui.gui.views.plot import Plot
    from prune_gui.raster.cell_statistics import Profiles


BREADTH_PX = 52  # breadth of a profile
MAX_SHARE = 0.2  # limit of the share of the height or the width for a profile, else it is hidden
TITLE_PADDING_PX = 8
HEADROOM = 0.45  # space for a title beyond the bars, as a share of their range
MAX_BARS = 1500
"""Maximum number of bars of a profile; if there are more rows, a bar shows the mean of several."""

Numbers = NDArray[np.float64]


def bars(
    means: Numbers, sight: tuple[float, float], max_bars: int = MAX_BARS
) -> tuple[Numbers, Numbers]:
    """Return the edges (bars + 1,) and heights (bars,) of bars over the visible rows or columns."""
    visible = visible_positions(sight, len(means))
    shown, count = means[visible.start : visible.stop], min(max_bars, len(visible))
    edges = np.arange(count + 1) * len(visible) // count
    finite = ~np.isnan(shown)
    sums = np.add.reduceat(np.where(finite, shown, 0.0), edges[:-1])
    line_counts = np.add.reduceat(finite, edges[:-1], dtype=np.int64)
    borders: Numbers = (visible.start + edges - 0.5).astype(np.float64)
    heights: Numbers = sums / np.maximum(line_counts, 1)
    return borders, heights


@dataclass(frozen=True, slots=True)
class Titles:
    """What a bar of a column and of a row shows; shares have strips that range from 0 to 1."""

    columns: str
    rows: str
    shares: bool = False


class Margins:
    """A strip above a plot and one on its right, which zoom and pan with its picture."""

    def __init__(self, plot: Plot) -> None:
        self._main = plot.view
        self._profiles: Profiles | None = None
        self._above, self._beside = (
            pg.ViewBox(enableMouse=False, enableMenu=False, defaultPadding=0) for _ in range(2)
        )
        self._columns, self._rows = (pg.PlotCurveItem() for _ in range(2))
        self._titles = pg.TextItem(anchor=(0, 0)), pg.TextItem(anchor=(0, 0), angle=-90)
        grid_layout = plot.plotItem.layout
        grid_layout.removeItem(plot.plotItem.titleLabel)
        grid_layout.setHorizontalSpacing(0)
        grid_layout.addItem(self._above, 0, 1)
        grid_layout.addItem(self._beside, 2, 3)
        self._above.addItem(self._columns)
        self._beside.addItem(self._rows)
        for box, title in zip((self._above, self._beside), self._titles, strict=True):
            title.setParentItem(box)  # so that its position is in pixels
            title.setFont(scaled(plot.font(), SMALL))
            box.sigResized.connect(self._write)
        self._texts: Sequence[Sequence[str]] = ()  # of each title, the longest first
        self._metrics = QFontMetricsF(scaled(plot.font(), SMALL))
        self._beside.sigResized.connect(lambda box: self._titles[1].setPos(box.width(), 0))
        self._above.setXLink(self._main)
        self._beside.setYLink(self._main)
        self._beside.invertY(True)
        self._layout = grid_layout
        self._is_wanted = False
        self._canvas = plot.plotItem
        self._canvas.geometryChanged.connect(self._fit)
        self._fit()

    def set_visible(self, *, visible: bool) -> None:
        """Show the strips where they leave most of the height or the width to the picture."""
        self._is_wanted = visible
        self._fit()

    def _fit(self) -> None:
        size = self._canvas.size()
        above, beside = (
            self._is_wanted and MAX_SHARE * length >= BREADTH_PX
            for length in (size.height(), size.width())
        )
        self._layout.setRowFixedHeight(0, BREADTH_PX if above else 0)
        self._layout.setColumnFixedWidth(3, BREADTH_PX if beside else 0)
        self._above.setVisible(above)
        self._beside.setVisible(beside)

    def show_profiles(self, profiles: Profiles, titles: Titles) -> None:
        """Show profiles along both axes. Their scale includes zero; for shares it is [0, 1]."""
        self._profiles = profiles
        scales = [
            (0.0, 1.0) if titles.shares else reach(line)
            for line in (profiles.columns, profiles.rows)
        ]
        known = not np.isnan(profiles.columns).all()
        texts = (titles.columns, titles.rows)
        self._texts = [
            (_title_text(text, scale, shares=titles.shares), text)
            if known
            else (tr("{profile}: no finite values", profile=text),)
            for text, scale in zip(texts, scales, strict=True)
        ]
        self._write()
        (left, right), (low, high) = with_headroom(scales[1]), with_headroom(scales[0])
        self._above.setYRange(low, high, padding=0)
        self._beside.setXRange(left, right, padding=0)
        self._show(visible=True)
        self.draw()

    def _write(self) -> None:
        """Write the titles as long as the strips."""
        lengths = self._above.width(), self._beside.height()
        for item, texts, length in zip(self._titles, self._texts, lengths, strict=False):
            room = max(0.0, length - TITLE_PADDING_PX)
            fitting = [text for text in texts if self._metrics.horizontalAdvance(text) <= room]
            elided = self._metrics.elidedText(texts[-1], Qt.TextElideMode.ElideRight, room)
            item.setText(fitting[0] if fitting else elided)

    def clear(self) -> None:
        self._profiles = None
        self._show(visible=False)

    def _show(self, *, visible: bool) -> None:
        for item in (self._columns, self._rows, *self._titles):
            item.setVisible(visible)

    def draw(self) -> None:
        if self._profiles is None:
            return
        across, down = self._main.viewRange()
        self._columns.setData(*_outline(self._profiles.columns, across))
        edges, heights = _outline(self._profiles.rows, down)
        self._rows.setData(heights, edges)

    def recolour(self, colours: Colours) -> None:
        for item in (self._columns, self._rows):
            item.setPen(pg.mkPen(mixed(colours.grid, colours.foreground, 0.4), width=1))
            item.setBrush(pg.mkBrush(colours.grid))
            item.setFillLevel("enclosed")
        for title in self._titles:
            title.setColor(colours.foreground)


def reach(means: Numbers) -> tuple[float, float]:
    """Return the range of bars that start at zero; (0.0, 1.0) if all are zero."""
    known = means[~np.isnan(means)]
    low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    return (low, high) if low < high else (0.0, 1.0)


def with_headroom(scale: tuple[float, float]) -> tuple[float, float]:
    """Return the range of a strip, with space for a title beyond its bars."""
    low, high = span(*scale)
    return low, high + (high - low) * HEADROOM


def _title_text(text: str, scale: tuple[float, float], *, shares: bool) -> str:
    if shares:
        return tr("{profile}, from 0 to 100 %", profile=text)
    low, high = (format_number(end, ".3g") for end in scale)
    return tr("{profile}, from {low} to {high}", profile=text, low=low, high=high)


def _outline(means: Numbers, sight: Sequence[float]) -> tuple[Numbers, Numbers]:
    edges, heights = bars(drawable(means), (sight[0], sight[1]))
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])


MIN_BAND_PX: Final = 4  # minimum width of a band for lines between bands
HALO_OPACITY: Final = 0.6
HALO_WIDTH_PX: Final = 3.0
PADDING_PX: Final = 8


class HeadAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis with a text at each head, or at every n-th head if they are too near, and a title."""

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
        title = tr("Share pruned of each head") if shares else tr("head")
        style = {"font-size": f"{QFontInfo(small).pointSizeF():g}pt"}
        self.setLabel(title, color=self.textPen().color().name(), **style)
        self.setVisible(bands is not None)
        line_px = self._metrics.lineSpacing()
        if self.orientation == "right":
            self.setWidth(self._longest(compact=True) + line_px + PADDING_PX if bands else 0)
        else:
            self.setHeight(3 * line_px + PADDING_PX if bands else 0)
        self.resizeEvent()
        self.picture = None
        self.update()

    def resizeEvent(self, event: object = None) -> None:  # noqa: N802
        """Centre the title, and hide it if it is longer than the axis."""
        super().resizeEvent(event)
        if self.label is not None:  # as it is on closing
            length = self.height() if self.orientation == "right" else self.width()
            self.label.setVisible(self.label.boundingRect().width() <= length)

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
            self._is_compact = band_px < self._longest(compact=False) + PADDING_PX
            text_px = self._longest(compact=True) if self._is_compact else 0
        gap = 1 if self.orientation == "right" else PADDING_PX
        step = max(1, math.ceil((text_px + gap) / band_px))
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
        self._lines = pg.PlotCurveItem(connect="pairs")
        self._bands: HeadBands | None = None
        plot.addItem(self._lines, ignoreBounds=True)

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
        self._lines.setData(x, y)
        self.update()

    def update(self) -> None:
        visible = False
        if self._bands is not None:
            size, sight = self._plot.view.rect(), self._plot.viewRect()
            scale = size.width() / sight.width()
            if self._bands.are_rows:
                scale = size.height() / sight.height()
            visible = scale * self._bands.width >= MIN_BAND_PX
        self._lines.setVisible(visible)

    def recolour(self, colours: Colours) -> None:
        halo = QColor(colours.background)
        halo.setAlphaF(HALO_OPACITY)
        self._lines.setShadowPen(pg.mkPen(halo, width=HALO_WIDTH_PX))
        self._lines.setPen(pen(colours.foreground))
        for axis in self._axes.values():
            axis.setTextPen(colours.foreground)
