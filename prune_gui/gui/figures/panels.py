"""The panels of the ready layouts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QImage,
    QPainter,
    QTextDocument,
)

from prune_gui.errors import one_line
from prune_gui.gui.figures.data import MAX_CELLS, Bar, FigureData
from prune_gui.gui.views.legend_text import SEPARATOR, cell_meaning, legend
from prune_gui.gui.views.mask.data import coloured, step_table
from prune_gui.gui.views.overview.grid_painter import CellOf, GridPainter, image_of
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.views.plot import axis_scales
from prune_gui.language import format_number, tr
from prune_gui.monitor import Monitor
from prune_gui.number_formats import percent, sparsity_share
from prune_gui.raster.colours import Colours, ramp_table
from prune_gui.recipe.recipe import KEPT

GAP: Final = 4.0  # points between neighbours
COLUMN_EMS: Final = 22.5
"""Minimum width of panels and lists of bars that stand side by side, in sizes of the text."""
GRID_FONT_PX: Final = 11  # size of texts for which the grid of blocks is laid out
GRID_PT: Final = 400.0  # height into which the grid is to fit
GRID_ASPECT: Final = 0.85  # the same of wide grids, relative to their width
GRID_STRETCH: Final = 1.6  # maximum width of cells, relative to their height
SHADES: Final = 100  # of the colour bar
MAX_IN_COLUMN: Final = 14  # lines of a list that is not divided
HAIR_PT: Final = 0.5
MIN_PITCH: Final = 0.75  # of bars, relative to the height of a line; closer ones are summed up
BAR: Final = 0.72  # thickness of a bar, relative to the distance of bars
LABEL_SHARE: Final = 0.4  # maximum width of the names of layers, as a share of a column
MIN_ASPECT: Final = 0.35
MAX_ASPECT: Final = 2.8
"""Limits of the height of a mask, relative to its width."""
MAX_MASK_HEIGHT: Final = 1.4  # relative to the width that it may have


class Panel:
    """A part of a figure that draws itself, with a legend below as rich text, "" for none."""

    title: str
    legend: str
    is_of_widget: ClassVar[bool] = False  # whether `draw` must be called on the GUI thread
    is_rigid: ClassVar[bool] = False  # whether it is not higher than `height`

    def legend_for(self, canvas: Canvas, width: float) -> str:
        """Return the legend of the panel with a width in points."""
        return self.legend

    @abstractmethod
    def height(self, canvas: Canvas, width: float) -> float:
        """Return the height that suits a width, in points, without the legend."""

    @abstractmethod
    def draw(self, canvas: Canvas, area: QRectF) -> None:
        """Draw into an area, which may be lower than `height`."""


@dataclass(frozen=True, eq=False)
class DataPanel(Panel):
    """A panel of a ready layout."""

    title: str
    legend: str
    data: FigureData


@dataclass(frozen=True, eq=False)
class CellsPanel(Panel):
    """Cells of parameters by block and role, with a bar of the colours of shares if `what` says.

    `cell_of` is called on any thread.
    """

    title: str
    legend: str
    arrangement: Arrangement
    cell_of: CellOf
    what: str = ""

    def _painter(self, canvas: Canvas, width: float, height: float) -> tuple[GridPainter, float]:
        """Return the painter of the cells for a size, and the points per pixel of it."""
        font = canvas.font()
        scale = font.pixelSize() / GRID_FONT_PX
        font.setPixelSize(GRID_FONT_PX)
        painter = GridPainter(self.arrangement, self.cell_of, canvas.colours, font)
        painter.fit(int(width / scale), ceil(height / scale), GRID_STRETCH)
        return painter, scale

    def height(self, canvas: Canvas, width: float) -> float:
        height = max(GRID_PT, GRID_ASPECT * width)
        for room in (height, 2 * height, 4 * height):
            painter, scale = self._painter(canvas, width, room)
            needed = scale * painter.layout.size[1]
            if needed <= room:
                break
        return needed + self._bar_height(canvas)

    def _bar_height(self, canvas: Canvas) -> float:
        return 2 * canvas.line if self.what else 0.0

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        cells = area.adjusted(0, 0, 0, -self._bar_height(canvas))
        if self.what:
            bar = QRectF(area.left(), cells.bottom() + GAP, area.width() / 2, canvas.line - GAP)
            bar = canvas.pixels(bar, ramp_table(canvas.colours.scale, SHADES)[None])
            canvas.percentages(bar)
            canvas.text(bar.translated(bar.width() + GAP, 0), self.what)
        painter, scale = self._painter(canvas, area.width(), cells.height())
        width, height = painter.layout.size
        scale = min(scale, area.width() / width, cells.height() / height)
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)
        painter.paint(canvas.painter, QRectF(0, 0, width, height))


class BarsPanel(DataPanel):
    """A horizontal bar per layer, stacked by step, with its name and its sparsity."""

    def height(self, canvas: Canvas, width: float) -> float:
        return canvas.line * (max(map(len, self._columns(canvas, width, by_block=False))) + 1)

    def _columns(self, canvas: Canvas, width: float, *, by_block: bool) -> list[list[Bar | str]]:
        lines: list[Bar | str] = []
        heading = ""
        for bar in self.data.listed(by_block=by_block):
            if bar.heading != heading:
                heading = bar.heading
                lines.append(heading)
            lines.append(bar)
        if width < 2 * COLUMN_EMS * canvas.text_pt or len(lines) <= MAX_IN_COLUMN:
            return [lines]
        halves = [(lines[:at], _continued(lines, at)) for at in range(2, len(lines))]
        return [*min(halves, key=lambda both: (_is_torn(*both), max(map(len, both))))]

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        gap = 3 * GAP
        for by_block in (False, True):  # if there is no space for all
            columns = self._columns(canvas, area.width(), by_block=by_block)
            pitch = area.height() / (max(map(len, columns)) + 1)
            scale = min(1.0, pitch / (MIN_PITCH * canvas.line))
            if scale == 1.0:
                break
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)  # smaller, if not even the sums have the space
        width = (area.width() / scale + gap) / len(columns) - gap
        bars = [line for lines in columns for line in lines if isinstance(line, Bar)]
        for number, lines in enumerate(columns):
            row = QRectF(number * (width + gap), 0, width, pitch / scale)
            self._draw_column(canvas, row, lines, bars)

    def _draw_column(
        self, canvas: Canvas, row: QRectF, lines: Sequence[Bar | str], bars: Sequence[Bar]
    ) -> None:
        """Draw some of the bars, from one line to the next, in the scale that suits all bars."""
        blocks = max(canvas.width(bar.block, bold=True) for bar in bars) + GAP
        blocks = blocks if any(bar.block for bar in bars) else 0
        names = min(max(canvas.width(bar.label) for bar in bars), LABEL_SHARE * row.width())
        values = max(canvas.width(sparsity_share(bar.sparsity)) for bar in bars) + GAP
        labels = canvas.fitted([bar.label for bar in bars], names)
        label_of = dict(zip(bars, labels, strict=True))
        scale = row.adjusted(blocks + names + GAP, 0, -values, 0)
        whole = QRectF(scale.left(), row.top(), scale.width(), row.height() * len(lines))
        for quarter in range(5):
            x = whole.left() + quarter * whole.width() / 4
            canvas.fill(QRectF(x, whole.top(), HAIR_PT, whole.height()), canvas.colours.grid)
        canvas.percentages(whole)
        block = ""
        for line in lines:
            if isinstance(line, str):
                canvas.fill(row, canvas.colours.background)
                canvas.text(row, line, bold=True)
                block = ""
            else:
                if line.block != block:
                    block = line.block
                    canvas.text(row, block, bold=True)
                canvas.text(row.adjusted(blocks, 0, 0, 0), label_of[line])
                scale.moveTop(row.top())
                self._draw_bar(canvas, scale, line)
                canvas.text(row, sparsity_share(line.sparsity), Right)
            row = row.translated(0, row.height())

    def _draw_bar(self, canvas: Canvas, box: QRectF, bar: Bar) -> None:
        inset = (1 - BAR) / 2 * box.height()
        left, total = box.left(), max(1, sum(bar.counts.values()))
        for code in (*sorted(bar.counts.keys() - {KEPT}), KEPT):
            width = box.width() * bar.counts.get(code, 0) / total
            part = QRectF(left, box.top() + inset, width, box.height() - 2 * inset)
            canvas.fill(part, canvas.colours.of(code, self.data.subject.draft))
            left += width


def _continued(lines: Sequence[Bar | str], at: int) -> list[Bar | str]:
    """Return the lines from one on, below a heading if they have one."""
    first, *rest = lines[at:]
    if isinstance(first, Bar):
        return [first.heading, first, *rest] if first.heading else [first, *rest]
    return [first, *rest] if first else rest


def _is_torn(above: Sequence[Bar | str], below: Sequence[Bar | str]) -> bool:
    """Return whether a block would be in both columns, or a heading without a bar below it."""
    last, first = above[-1], next(line for line in below if isinstance(line, Bar))
    return isinstance(last, str) or (
        bool(last.block) and (last.heading, last.block) == (first.heading, first.block)
    )


class MaskPanel(DataPanel):
    """The mask of a parameter in the file and after the steps, side by side."""

    is_rigid = True

    def height(self, canvas: Canvas, width: float) -> float:
        return self._aspect * self._side(canvas, width) + 2 * canvas.line

    def legend_for(self, canvas: Canvas, width: float) -> str:
        chosen, cell = self.data.chosen, self._cell(canvas, width)
        assert chosen is not None
        is_dense = cell != (1, 1)
        text = legend(chosen, canvas.colours, zeros=chosen.zeros, is_dense=is_dense)
        return SEPARATOR.join([text, cell_meaning(cell)] if is_dense else [text])

    @property
    def _aspect(self) -> float:
        layout = self.data.masks[0].layout
        return min(max(layout.rows / layout.columns, MIN_ASPECT), MAX_ASPECT)

    def _side(self, canvas: Canvas, width: float) -> float:
        return (width - canvas.line - 3 * GAP) / 2 * min(1.0, MAX_MASK_HEIGHT / self._aspect)

    def _cell(self, canvas: Canvas, width: float) -> tuple[int, int]:
        """Return the rows and columns per cell: one if the resolution has a pixel for each."""
        layout, across = self.data.masks[0].layout, self._side(canvas, width) * canvas.pixels_per_pt
        down = self._aspect * across
        rows, columns = (max(1, min(int(room), MAX_CELLS)) for room in (down, across))
        return ceil(layout.rows / rows), ceil(layout.columns / columns)

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        line, cell = canvas.line, self._cell(canvas, area.width())
        side = min(self._side(canvas, area.width()), (area.height() - 2 * line) / self._aspect)
        height = self._aspect * side
        down, across = self.data.axes
        (_, end_row), (_, end_column) = axis_scales(self.data.masks[0].layout)
        canvas.axis(QRectF(area.left(), area.top() + line, line, height), down, end_row)
        table = step_table(canvas.colours)
        left = area.left() + line + GAP
        for mask, state in zip(self.data.masks, (tr("Before"), tr("After")), strict=True):
            text = f"{state}: {sparsity_share(mask.sparsity)}"
            canvas.text(QRectF(left, area.top(), side, line), text)
            box = QRectF(left, area.top() + line, side, height)
            box = canvas.pixels(box, coloured(mask.levels(cell, canvas.monitor), table))
            canvas.axis(QRectF(left, box.bottom(), box.width(), line), across, end_column)
            left += side + 2 * GAP


LEADING: Final = 1.3  # height of a line, relative to the size of its text
ENLARGEMENT: Final = 4
"""Pixels per cell and side in vector files, because some programs blur enlarged pictures."""
MAX_ENLARGED: Final = 2048  # pixels along a side up to which pictures are enlarged
MIN_SNAPPED: Final = 3  # device pixels per cell from which all cells get the same number of them
ELIDED: Final = Qt.TextElideMode.ElideMiddle
Left: Final = Qt.AlignmentFlag.AlignLeft
Right: Final = Qt.AlignmentFlag.AlignRight
Centre: Final = Qt.AlignmentFlag.AlignHCenter


@dataclass(eq=False)
class Canvas:
    """A painter with the colours of a theme. Small texts are 1 pt smaller than others."""

    painter: QPainter
    colours: Colours
    text_pt: int
    family: str
    pixels_per_pt: float = 1.0  # resolution of the file, whatever is painted on
    monitor: Monitor = field(default_factory=Monitor)

    @property
    def line(self) -> float:
        """The height of a line of small text."""
        return LEADING * (self.text_pt - 1)

    def font(self, *, small: bool = True, bold: bool = False) -> QFont:
        """Return a font whose pixels are points, as those of the painter."""
        font = QFont(self.family)
        font.setPixelSize(self.text_pt - small)
        font.setBold(bold)
        font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
        return font

    def width(self, text: str, *, bold: bool = False) -> float:
        return QFontMetricsF(self.font(bold=bold)).horizontalAdvance(text)

    def fitted(self, names: Sequence[str], width: float) -> list[str]:
        """Return names without the part that does not fit; different names differ, if possible."""
        metrics = QFontMetricsF(self.font())
        for mode in (ELIDED, Qt.TextElideMode.ElideLeft, Qt.TextElideMode.ElideRight):
            found = [metrics.elidedText(one_line(name), mode, width) for name in names]
            if len(set(found)) == len(set(names)):
                break
        return found

    def text(
        self, box: QRectF, text: str, align: Qt.AlignmentFlag = Left, *, bold: bool = False
    ) -> None:
        """Write one line of small text, vertically centred; what does not fit is elided."""
        font = self.font(bold=bold)
        fitting = QFontMetricsF(font).elidedText(one_line(text), ELIDED, box.width() + 0.1)
        self.painter.setFont(font)
        self.painter.setPen(QColor(self.colours.foreground))
        flags = align | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextDontClip
        self.painter.drawText(box, int(flags), fitting)

    def axis(self, box: QRectF, name: str, end: int) -> None:
        """Write the first and the last index, and the name of an axis, which goes down if high."""
        numbers = ["0", format_number(end - 1)] if end > 1 else ["", ""]
        line = QRectF(0, 0, box.width(), box.height())
        self.painter.save()
        self.painter.translate(box.topLeft())
        if box.height() > box.width():
            self.painter.translate(0, box.height())
            self.painter.rotate(-90)
            line, numbers = line.transposed(), numbers[::-1]
        for number, align in zip(numbers, (Left, Right), strict=True):
            self.text(line, number, align)
        before, after = (self.width(number) + GAP / 2 for number in numbers)
        self.text(line.adjusted(before, 0, -after, 0), name, Centre)
        self.painter.restore()

    def rich(self, html: str, width: float, *, small: bool = True) -> QTextDocument:
        """Return rich text that wraps at a width, but not before "%"; the caller deletes it."""
        document = QTextDocument(QGuiApplication.instance())
        document.setDefaultFont(self.font(small=small))
        document.setDocumentMargin(0)
        html = html.replace(" %", "&nbsp;%")
        document.setHtml(f'<div style="color: {self.colours.foreground}">{html}</div>')
        document.setTextWidth(width)
        return document

    def write(self, document: QTextDocument, at: QPointF) -> None:
        self.painter.translate(at)
        document.drawContents(self.painter)
        self.painter.translate(-at)

    def fill(self, box: QRectF, colour: str) -> None:
        self.painter.fillRect(box, QColor(colour))

    def percentages(self, box: QRectF) -> None:
        """Write those at the ends of a scale below it, and in the middle if there is room."""
        below = QRectF(box.left(), box.bottom(), box.width(), self.line)
        self.text(below, percent(0.0), Left)
        self.text(below, percent(1.0), Right)
        if box.width() >= 2 * self.width(percent(1.0)) + self.width(percent(0.5)) + 4 * GAP:
            self.text(below, percent(0.5), Centre)

    def pixels(self, box: QRectF, pixels: NDArray[np.uint8]) -> QRectF:
        """Draw uint8 (down, across, 4) without blurring, and return the rectangle it fills.

        Cells of at least `MIN_SNAPPED` device pixels all get the same whole number of them.
        """
        down, across = pixels.shape[:2]
        contiguous = np.ascontiguousarray(pixels)
        image = image_of(contiguous)
        if not isinstance(self.painter.device(), QImage):
            factor = min(ENLARGEMENT, max(1, MAX_ENLARGED // max(across, down)))
            self.painter.drawImage(box, image.scaled(QSize(across, down) * factor))
            return box
        to_device = self.painter.combinedTransform()
        on_device = to_device.mapRect(box)
        wide, high = int(on_device.width() / across), int(on_device.height() / down)
        if min(wide, high) >= MIN_SNAPPED:
            corner = on_device.topLeft().toPoint()
            snapped = QRectF(corner.x(), corner.y(), across * wide, down * high)
            box = to_device.inverted()[0].mapRect(snapped)
        smooth = QPainter.RenderHint.SmoothPixmapTransform
        self.painter.setRenderHint(smooth, min(wide, high) < 1)
        self.painter.drawImage(box, image)
        self.painter.setRenderHint(smooth, False)
        return box
