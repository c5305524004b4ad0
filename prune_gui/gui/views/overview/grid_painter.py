"""Draws the cells of parameters by block and role with any painter, in any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QImage, QPainter, QPen

from prune_gui.errors import one_line
from prune_gui.gui.views.overview.layout import (
    GAP_PX,
    MAX_STRETCH,
    PADDING_PX,
    Arrangement,
    GridLayout,
    PlacedSection,
    Position,
    TextSizes,
)
from prune_gui.gui.widgets.theme import SMALL, bold, scaled
from prune_gui.number_formats import sparsity_share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.architecture.blocks import BlockRow, Section
    from prune_gui.raster.colours import Colours


CENTRE: Final = Qt.AlignmentFlag.AlignHCenter
LEFT: Final = Qt.AlignmentFlag.AlignLeft
RIGHT: Final = Qt.AlignmentFlag.AlignRight
ELIDED: Final = Qt.TextElideMode.ElideMiddle
RIGHT_ELIDED: Final = Qt.TextElideMode.ElideRight
SMOOTH: Final = QPainter.RenderHint.SmoothPixmapTransform
WIDEST_NUMBER: Final = "100.0 %"
MARGIN_PX: Final = 8
TEXT_GAP_PX: Final = 2  # gap between a cell and its text, where the frame of the chosen one is
MAX_CAPTION_PX: Final = 110
MAX_LABEL_PX: Final = 96
MAX_MEASURED_ROWS: Final = 20
"""Limit of the rows of a section whose texts are measured, so that this takes no time."""
MAX_BADGE_SHARE: Final = 0.6  # maximum width and height of a badge, as shares of the picture
MIN_CONDENSED: Final = 0.7  # minimum width of a condensed text, relative to its own
FAINT: Final = 0.7  # opacity of unimportant texts


class Cell(NamedTuple):
    """What the cell of a parameter shows.

    Attributes:
        pixels: a picture in place of the colour, uint8 (down, across, 4).
        proportions: width and height of the picture, relative to those of the tile.
    """

    text: str = ""  # below the cell
    colour: str = ""  # "#rrggbb"; "" if it is not known yet, which is drawn hatched
    pixels: NDArray[np.uint8] | None = None
    proportions: tuple[float, float] = (1.0, 1.0)
    is_faint: bool = False  # whether the text is unimportant
    outline: str = ""  # colour of a line around the cell; "" for none
    is_locked: bool = False  # whether there is a lock in the corner
    badge: str = ""  # a short text in the other corner


class Head(NamedTuple):
    """The heading of some cells, of one section, in some rows and columns."""

    kind: Literal["title", "group", "column", "row"]
    area: QRectF
    text: str
    section: Section
    rows: range
    columns: range

    @property
    def names(self) -> tuple[str, ...]:
        rows = (self.section.rows[row] for row in self.rows)
        columns = slice(self.columns.start, self.columns.stop)
        return tuple(name for row in rows for name in row.names[columns] if name is not None)


CellOf = Callable[[str], Cell]


def error_cells(errors: Mapping[str, float], colours: Colours) -> CellOf:
    """Return a function from names to cells, coloured relative to the largest error."""
    largest = max(errors.values(), default=0.0) or 1.0

    def cell_of(name: str) -> Cell:
        error = errors.get(name)
        return (
            Cell() if error is None else Cell(sparsity_share(error), colours.share(error / largest))
        )

    return cell_of


class GridPainter:
    """Draws the cells of an arrangement; `fit` lays them out. Positions are those of the grid.

    `frame_of` returns the pen of a frame around a cell, such as that of a chosen one, or None.
    """

    layout: GridLayout

    def __init__(
        self, arrangement: Arrangement, cell_of: CellOf, colours: Colours, font: QFont
    ) -> None:
        self.arrangement = arrangement
        self.cell_of = cell_of
        self.frame_of: Callable[[str], QPen | None] = lambda _name: None
        self.colours = colours
        self._font = font
        self._edge = QPen(QColor(colours.grid), 1.0)
        self._faint = QColor(colours.foreground)
        self._faint.setAlphaF(FAINT)

    def fit(self, width: int, height: int, max_stretch: float = MAX_STRETCH) -> None:
        """Lay the cells out in a size, or beyond it if they would be too small."""
        width_of = QFontMetricsF(self._font).horizontalAdvance
        labels, heads, captions = [], [], [0.0]
        for section in self.arrangement.sections:
            some = [*section.rows[:MAX_MEASURED_ROWS], section.rows[-1]]
            widest = max(width_of(one_line(row.label)) for row in some)
            labels.append(round(min(widest, MAX_LABEL_PX)) + 1 + MARGIN_PX)
            groups = Counter(role.group for role in section.roles)
            shares = [width_of(one_line(group)) / count for group, count in groups.items()]
            columns = [width_of(one_line(role.label)) for role in section.roles]
            heads.append(ceil(max([0.0, *shares, *columns])) + 2 * TEXT_GAP_PX)
            captions += [width_of(one_line(text)) for row in some for text in row.captions]
        caption = round(min(max(captions), MAX_CAPTION_PX))
        line = round(QFontMetricsF(self._font).height()) + 1
        texts = TextSizes(line, labels, heads, round(width_of(WIDEST_NUMBER)), caption)
        self.layout = GridLayout.fitting(self.arrangement, width, height, texts, max_stretch)

    def paint(self, painter: QPainter, visible: QRectF, changed: QRectF | None = None) -> None:
        """Draw the changed part of a rectangle, which has headings at its top and left."""
        changed = visible if changed is None else changed
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._font)
        painter.fillRect(changed, QColor(self.colours.background))
        for name, position in self.within(changed):
            self._draw_cell(painter, name, position)
        self._draw_row_heads(painter, visible)
        self._draw_column_heads(painter, visible)

    def within(self, area: QRectF) -> Iterator[tuple[str, Position]]:
        """Yield the parameters whose cells are in a rectangle of the grid, if only in part."""
        for index, rows in self.layout.rows_between(area.top(), area.bottom()):
            placed = self.layout.placed[index]
            for row in rows:
                left = placed.origin(row, 0)[0]
                first = max(0, int((area.left() - left) // placed.pitch))
                last = max(0, int((area.right() - left) // placed.pitch) + 1)
                for column, name in enumerate(placed.section.rows[row].names[first:last], first):
                    if name is not None:
                        yield name, Position(index, row, column)

    def cell(self, position: Position) -> QRectF:
        return QRectF(*self.layout.cell(position))

    def row_heads(self, visible: QRectF) -> Iterator[Head]:
        for index, rows in self.layout.rows_between(visible.top(), visible.bottom()):
            placed = self.layout.placed[index]
            for row in rows:
                x, y, _, height = self.layout.tile(Position(index, row, 0))
                left = x - placed.label_width if row >= placed.length else max(0.0, visible.left())
                area = QRectF(left, y, placed.label_width - MARGIN_PX, height)
                label, columns = placed.section.rows[row].label, range(placed.columns)
                yield Head("row", area, label, placed.section, range(row, row + 1), columns)

    def all_heads(self, visible: QRectF) -> Iterator[Head]:
        """Yield the headings in a rectangle, those that lie above others first."""
        for index, _ in self.layout.rows_between(visible.top(), visible.bottom()):
            yield from self.column_heads(self.layout.placed[index], visible)
        yield from self.row_heads(visible)

    def column_heads(self, placed: PlacedSection, visible: QRectF) -> Iterator[Head]:
        section, line = placed.section, self.layout.texts.line
        rows, columns = range(len(section.rows)), range(placed.columns)
        y = max(placed.top, min(visible.top(), placed.bottom - placed.heading)) + TEXT_GAP_PX
        if section.title:
            area = QRectF(max(0.0, visible.left()), y, placed.strip_width, line)
            yield Head("title", area, section.title, section, rows, columns)
            y += line
        numbered = list(enumerate(section.roles))
        groups = [list(found) for _, found in groupby(numbered, key=lambda one: one[1].group)]
        for strip in range(placed.strips if numbered else 0):
            left, pitch = placed.origin(strip * placed.length, 0)[0], placed.pitch
            for found in groups:
                first, (group, _) = found[0]
                columns = range(first, first + len(found))
                area = QRectF(left + first * pitch, y, len(found) * pitch, line)
                if has_groups := any(role.group for role in section.roles):
                    yield Head("group", area, group, section, rows, columns)
                for column, role in found:
                    area = QRectF(left + column * pitch, y + line * has_groups, pitch, line)
                    yield Head("column", area, role.label, section, rows, range(column, column + 1))

    def _draw_cell(self, painter: QPainter, name: str, position: Position) -> None:
        cell, colours = self.cell_of(name), self.colours
        tile = QRectF(*self.layout.tile(position))
        width, height = cell.proportions
        area = QRectF(0, 0, tile.width() * width, tile.height() * height)
        area.moveCenter(tile.center())
        area.moveBottom(tile.bottom())  # directly above the text
        if cell.pixels is not None:
            image = image_of(cell.pixels)
            is_smaller = area.width() * painter.device().devicePixelRatioF() < image.width()
            painter.setRenderHint(SMOOTH, is_smaller)
            painter.drawImage(area, image)
        elif cell.colour:
            painter.fillRect(area, QColor(cell.colour))
        else:
            painter.fillRect(area, QBrush(QColor(colours.grid), Qt.BrushStyle.BDiagPattern))
        painter.setPen(self._edge)
        painter.drawRect(area.adjusted(-0.5, -0.5, 0.5, 0.5))
        if cell.outline:
            painter.setPen(QPen(QColor(cell.outline), 2.0))
            painter.drawRect(area.adjusted(-1, -1, 1, 1))
        if pen := self.frame_of(name):
            painter.setPen(pen)
            painter.drawRoundedRect(area.adjusted(-3, -3, 3, 3), 3, 3)
        gap, line = TEXT_GAP_PX, self.layout.texts.line
        inset = self.layout.gap / 2 - gap
        text = self.cell(position).adjusted(inset, 0, -inset, 0)
        text.setHeight(line)
        if self.layout.has_texts:
            text.moveTop(tile.bottom() + gap)
            painter.setPen(self._faint if cell.is_faint else QColor(colours.foreground))
            self._write(painter, text, cell.text, CENTRE)
        above = area.top() - 2
        if captions := self._row(position).captions:
            text.moveBottom(area.top() - gap)
            above = text.top()
            text.adjust(gap, 0, -gap, 0)  # names side by side do not look like one
            painter.setPen(self._faint)
            self._write(painter, text, captions[position.column], CENTRE)
        if cell.badge:
            self._draw_badge(painter, area, tile, above, cell.badge)
        if cell.is_locked:
            self._draw_lock(painter, QPointF(area.left() - 2, area.top() - 2))

    def _row(self, position: Position) -> BlockRow:
        return self.arrangement.sections[position.section].rows[position.row]

    def _draw_badge(
        self, painter: QPainter, picture: QRectF, tile: QRectF, above: float, text: str
    ) -> None:
        """Draw a badge in the corner of a picture, or beside or above it if it would hide it.

        A badge above the picture and its caption ends at `above`.
        """
        painter.setFont(scaled(self._font, SMALL))
        metrics = painter.fontMetrics()
        size = QSizeF(metrics.horizontalAdvance(text) + 6, metrics.height())
        area, room = QRectF(QPointF(), size), picture.size() * MAX_BADGE_SHARE
        corner = picture.topRight() + QPointF(2, -2)
        if size.boundedTo(room) == size:
            area.moveTopRight(corner)
        elif tile.right() - corner.x() >= size.width():
            area.moveTopLeft(corner)
        else:
            area.moveBottomRight(QPointF(corner.x(), above))
        if tile.adjusted(-2, -2, 2, 2).contains(area):
            self._draw_pill(painter, area)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
        painter.setFont(self._font)

    def _draw_lock(self, painter: QPainter, top_left: QPointF) -> None:
        self._draw_pill(painter, QRectF(top_left, QSizeF(13, 14)))
        body = QRectF(top_left + QPointF(3, 6), QSizeF(7, 5))
        painter.drawArc(QRectF(top_left + QPointF(4.5, 2.5), QSizeF(4, 7)), 0, 180 * 16)
        painter.fillRect(body, painter.pen().color())

    def _draw_pill(self, painter: QPainter, area: QRectF) -> None:
        painter.setPen(self._edge)
        painter.setBrush(QColor(self.colours.background))
        painter.drawRoundedRect(area, 3, 3)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor(self.colours.foreground))

    def _draw_row_heads(self, painter: QPainter, visible: QRectF) -> None:
        painter.setPen(self._faint)
        for head in self.row_heads(visible):
            painter.fillRect(head.area, QColor(self.colours.background))
            self._write(painter, head.area, head.text, RIGHT)

    def _draw_column_heads(self, painter: QPainter, visible: QRectF) -> None:
        foreground = QColor(self.colours.foreground)
        for index, _ in self.layout.rows_between(visible.top(), visible.bottom()):
            placed = self.layout.placed[index]
            heads = list(self.column_heads(placed, visible))
            if not heads:
                continue
            band = QRectF(visible.left(), heads[0].area.top() - TEXT_GAP_PX, visible.width(), 0)
            band.setHeight(placed.heading - PADDING_PX / 2)
            painter.fillRect(band, QColor(self.colours.background))
            for head in heads:
                if head.kind == "title":
                    painter.setFont(bold(self._font))
                painter.setPen(self._faint if head.kind == "group" else foreground)
                inset, align = (0, LEFT) if head.kind == "title" else (TEXT_GAP_PX, CENTRE)
                self._write(painter, head.area.adjusted(inset, 0, -inset, 0), head.text, align)
                painter.setFont(self._font)
                if head.kind == "group" and len(head.columns) > 1:
                    gap = QPointF(GAP_PX, 0)
                    painter.drawLine(head.area.bottomLeft() + gap, head.area.bottomRight() - gap)

    def _write(self, painter: QPainter, area: QRectF, text: str, align: Qt.AlignmentFlag) -> None:
        """Write a line, which is condensed if it is a little too wide, and elided if it is more."""
        metrics = QFontMetricsF(painter.font())
        mode = RIGHT_ELIDED if text.isalpha() else ELIDED  # a word keeps its beginning
        text = metrics.elidedText(one_line(text), mode, area.width() / MIN_CONDENSED)
        width = max(area.width(), metrics.horizontalAdvance(text))
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / width, 1.0)
        line = QRectF(0, 0, width, area.height())
        painter.drawText(line, align | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()


def image_of(pixels: NDArray[np.uint8]) -> QImage:
    """Return RGBA pixels (rows, columns, 4) as an image, valid as long as the array."""
    rows, columns, _ = pixels.shape
    return QImage(pixels.data, columns, rows, 4 * columns, QImage.Format.Format_RGBA8888)
