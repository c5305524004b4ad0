"""The panels of the ready layouts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from PySide6.QtCore import QPointF, QRectF

from prune_gui.gui.figures.data import Bar, MaskCells, shortened
from prune_gui.gui.figures.drawing import Canvas, Centre, Left, Right
from prune_gui.gui.views.mask.data import coloured, step_table
from prune_gui.gui.views.overview.grid_painter import Cell, GridPainter
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.language import tr
from prune_gui.number_formats import percent, sparsity_share
from prune_gui.raster.colours import ramp_table
from prune_gui.recipe.recipe import KEPT

GAP: Final = 4.0  # points between neighbours
COLUMN_EMS: Final = 22.5
"""Minimum width of panels and lists of bars that stand side by side, in sizes of the text."""
GRID_FONT_PX: Final = 11  # size of texts for which the grid of blocks is laid out
GRID_PT: Final = 400.0  # height into which the grid is to fit
GRID_ASPECT: Final = 0.75  # the same of wide grids, relative to their width
SHADES: Final = 100  # of the colour bar
MAX_IN_COLUMN: Final = 14  # lines of a list that is not divided
LABEL_EMS: Final = 5  # width of the labels of an axis
MIN_PITCH: Final = 0.75  # of bars, relative to the height of a line; closer ones are summed up
BAR: Final = 0.72  # thickness of a bar, relative to the distance of bars
LABEL_SHARE: Final = 0.4  # maximum width of the names of layers, as a share of a column
MIN_ASPECT: Final = 0.35
MAX_ASPECT: Final = 1.4
"""Limits of the height of a mask, relative to its width."""


class Panel:
    """A part of a figure that draws itself, with a legend below as rich text, "" for none."""

    title: str
    legend: str

    @abstractmethod
    def height(self, canvas: Canvas, width: float) -> float:
        """Return the height that suits a width, in points, without the legend."""

    @abstractmethod
    def draw(self, canvas: Canvas, area: QRectF) -> None:
        """Draw into an area, which may be lower than `height`."""


@dataclass(frozen=True, eq=False)
class GridPanel(Panel):
    """The sparsity of each parameter by block and role, with a bar of the colours."""

    title: str
    legend: str
    arrangement: Arrangement
    bars: Mapping[str, Bar]

    def _painter(self, canvas: Canvas, width: float, height: float) -> tuple[GridPainter, float]:
        """Return the painter of the cells for a size, and the points per pixel of it."""
        font = canvas.font()
        scale = font.pixelSize() / GRID_FONT_PX
        font.setPixelSize(GRID_FONT_PX)

        def cell_of(name: str) -> Cell:
            share = self.bars[name].sparsity
            return Cell(sparsity_share(share), canvas.colours.share(share), is_faint=not share)

        painter = GridPainter(self.arrangement, cell_of, canvas.colours, font)
        painter.fit(int(width / scale), ceil(height / scale))
        return painter, scale

    def height(self, canvas: Canvas, width: float) -> float:
        height = max(GRID_PT, GRID_ASPECT * width)
        for room in (height, 2 * height, 4 * height):
            painter, scale = self._painter(canvas, width, room)
            needed = scale * painter.size[1]
            if needed <= room:
                break
        return needed + 2 * canvas.line

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        cells, bar = area.adjusted(0, 0, 0, -2 * canvas.line), area.adjusted(0, 0, 0, -canvas.line)
        bar = QRectF(area.left(), cells.bottom() + GAP, area.width() / 2, canvas.line - GAP)
        table = ramp_table(canvas.colours.scale, SHADES)
        canvas.pixels(bar, table[None])
        for share in (0.0, 0.5, 1.0):
            x = bar.left() + share * bar.width()
            width = LABEL_EMS * canvas.text_pt
            label = QRectF(x - share * width, bar.bottom(), width, canvas.line)
            canvas.text(label, percent(share), (Left, Centre, Right)[int(2 * share)])
        what = QRectF(bar.right() + GAP, bar.top(), area.right() - bar.right() - GAP, bar.height())
        canvas.text(what, tr("sparsity"))
        painter, scale = self._painter(canvas, area.width(), cells.height())
        width, height = painter.size
        scale = min(scale, area.width() / width, cells.height() / height)
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)
        painter.paint(canvas.painter, QRectF(0, 0, width, height))


@dataclass(frozen=True, eq=False)
class BarsPanel(Panel):
    """A horizontal bar per layer, stacked by step, with its name and its sparsity."""

    title: str
    legend: str
    bars: Sequence[Bar]
    summed: Sequence[Bar]  # by block, for the case that there is no space for all
    draft: int | None

    def height(self, canvas: Canvas, width: float) -> float:
        return canvas.line * (max(map(len, self._columns(canvas, self.bars, width))) + 1)

    def _columns(self, canvas: Canvas, bars: Sequence[Bar], width: float) -> list[list[Bar | str]]:
        """Return the lines of each column: headings and bars."""
        lines: list[Bar | str] = []
        heading = ""
        for bar in bars:
            if bar.heading != heading:
                heading = bar.heading
                lines.append(heading)
            lines.append(bar)
        length = len(lines)
        if width >= 2 * COLUMN_EMS * canvas.text_pt and length > MAX_IN_COLUMN:
            length = ceil(length / 2)
        return [lines[start : start + length] for start in range(0, len(lines), length)]

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        gap = 3 * GAP
        for bars in (self.bars, self.summed):
            columns = self._columns(canvas, bars, area.width())
            pitch = area.height() / (max(map(len, columns)) + 1)
            scale = min(1.0, pitch / (MIN_PITCH * canvas.line))
            if scale == 1.0:
                break
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)  # smaller, if not even the sums have the space
        width = (area.width() / scale + gap) / len(columns) - gap
        for number, lines in enumerate(columns):
            row = QRectF(number * (width + gap), 0, width, pitch / scale)
            self._draw_column(canvas, row, lines)

    def _draw_column(self, canvas: Canvas, row: QRectF, lines: Sequence[Bar | str]) -> None:
        """Draw lines from a row on."""
        bars = [line for line in lines if isinstance(line, Bar)]
        blocks = max(canvas.width(bar.block, bold=True) for bar in bars) + GAP
        blocks = blocks if any(bar.block for bar in bars) else 0
        names = min(max(canvas.width(bar.label) for bar in bars), LABEL_SHARE * row.width())
        values = max(canvas.width(sparsity_share(bar.sparsity)) for bar in bars) + GAP
        labels = shortened([bar.label for bar in bars], lambda text: canvas.width(text) <= names)
        label_of = dict(zip(bars, labels, strict=True))
        scale = row.adjusted(blocks + names + GAP, 0, -values, 0)
        bottom = row.top() + row.height() * len(lines)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            x = scale.left() + share * scale.width()
            canvas.draw_line(QPointF(x, row.top()), QPointF(x, bottom), canvas.colours.grid)
            if share in (0.0, 0.5, 1.0):
                width = LABEL_EMS * canvas.text_pt
                label = QRectF(x - width / 2, bottom, width, row.height())
                canvas.text(label, percent(share), Centre)
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
                self._draw_bar(
                    canvas, QRectF(scale.left(), row.top(), scale.width(), row.height()), line
                )
                canvas.text(row, sparsity_share(line.sparsity), Right)
            row = row.translated(0, row.height())

    def _draw_bar(self, canvas: Canvas, box: QRectF, bar: Bar) -> None:
        inset = (1 - BAR) / 2 * box.height()
        left, total = box.left(), max(1, sum(bar.counts.values()))
        for code in (*sorted(bar.counts.keys() - {KEPT}), KEPT):
            width = box.width() * bar.counts.get(code, 0) / total
            part = QRectF(left, box.top() + inset, width, box.height() - 2 * inset)
            canvas.fill(part, canvas.colours.of(code, self.draft))
            left += width


@dataclass(frozen=True, eq=False)
class MaskPanel(Panel):
    """The mask of a parameter in the file and after the steps, side by side."""

    title: str
    legend: str
    masks: tuple[MaskCells, MaskCells]
    axes: tuple[str, str]  # labels of the rows and of the columns

    def height(self, canvas: Canvas, width: float) -> float:
        rows, columns = self.masks[0].size
        aspect = min(max(rows / columns, MIN_ASPECT), MAX_ASPECT)
        return aspect * self._side(canvas, width) + 2 * canvas.line

    def _side(self, canvas: Canvas, width: float) -> float:
        return (width - canvas.line - 3 * GAP) / 2

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        line, side = canvas.line, self._side(canvas, area.width())
        height = area.height() - 2 * line
        canvas.upright(QRectF(area.left(), area.top(), line, area.height()), self.axes[0])
        table = step_table(canvas.colours)
        left = area.left() + line + GAP
        for mask, state in zip(self.masks, (tr("Before"), tr("After")), strict=True):
            text = f"{state}: {sparsity_share(mask.sparsity)}"
            canvas.text(QRectF(left, area.top(), side, line), text)
            box = QRectF(left, area.top() + line, side, height)
            box = canvas.pixels(box, coloured(mask.levels, table))
            canvas.text(QRectF(left, box.bottom(), box.width(), line), self.axes[1], Centre)
            left += side + 2 * GAP
