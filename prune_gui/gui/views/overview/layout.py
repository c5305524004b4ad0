"""Where the cell of each parameter is: by block and role, and in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from operator import truediv
from typing import TYPE_CHECKING, Final, NamedTuple

from prune_gui.architecture.blocks import Section, sections
from prune_gui.gui.views.layers.treemap import Rect

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo

MIN_SIDE_PX: Final = 28
PREFERRED_MIN_SIDE_PX: Final = 32  # tiles are not smaller than this only to show all rows at once
READABLE_SIDE_PX: Final = 48  # height of tiles that do not all fit
DENSE_SIDE_PX: Final = 16  # tiles without texts are not smaller than this
MAX_SIDE_PX: Final = 160
MAX_STRETCH: Final = 2.5  # maximum width of a tile, relative to its height
MAX_STRIPS: Final = 8
GAP_PX: Final = 8
DENSE_GAP_PX: Final = 5
PADDING_PX: Final = 10  # gap between the heading of a section and its rows, and around the whole


class Position(NamedTuple):
    """The position of a parameter: indices of a section, its row and its column."""

    section: int
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Parameters in sections: the blocks, and the parameters outside of blocks."""

    sections: tuple[Section, ...]

    @classmethod
    def of(
        cls, tensors: Mapping[str, TensorInfo], names: Iterable[str], *, vectors: bool = False
    ) -> Arrangement:
        """Arrange some parameters of a checkpoint; without vectors, unless there is nothing else.

        Vectors have less than two dimensions, or are no weights (see `TensorInfo.kind`).
        """
        shapes = {name: tensors[name].shape for name in names}
        weights = {name: shape for name, shape in shapes.items() if tensors[name].kind is None}
        found = sections(shapes if vectors else weights, vectors=vectors)
        arrangement = cls(tuple(found or sections(shapes, vectors=True)))
        _ = arrangement.positions  # computed here, not on the GUI thread
        return arrangement

    @cached_property
    def positions(self) -> Mapping[str, Position]:
        return {
            name: Position(i, j, k)
            for i, section in enumerate(self.sections)
            for j, row in enumerate(section.rows)
            for k, name in enumerate(row.names)
            if name is not None
        }

    def visible_first(self, visible: Sequence[str]) -> list[str]:
        shown = dict.fromkeys(name for name in visible if name in self.positions)
        return [*shown, *(name for name in self.positions if name not in shown)]

    def neighbour(self, name: str, across: int, down: int) -> str:
        """Return the next parameter in a direction, without gaps; at the border the outermost."""
        section, row, column = self.positions[name]
        rows = [(i, j) for i, part in enumerate(self.sections) for j in range(len(part.rows))]
        target = rows[min(max(rows.index((section, row)) + down, 0), len(rows) - 1)]
        found = self.sections[target[0]].rows[target[1]].names
        columns = [k for k, other in enumerate(found) if other is not None]
        nearest = min(range(len(columns)), key=lambda i: abs(columns[i] - column))
        result = found[columns[min(max(nearest + across, 0), len(columns) - 1)]]
        assert result is not None
        return result


class PlacedSection(NamedTuple):
    """A section in pixels: `strips` beside each other, with `length` rows below each other.

    Each strip begins with the labels of its rows. `space` is the width that a column can have, and
    `pitch` the width that it has.
    """

    section: Section
    strips: int
    length: int
    columns: int
    label_width: int
    space: int
    pitch: int
    top: int
    heading: int
    row_height: int

    @property
    def strip_width(self) -> int:
        return self.label_width + self.columns * self.pitch

    @property
    def bottom(self) -> int:
        return self.top + self.heading + self.length * self.row_height + PADDING_PX

    def origin(self, row: int, column: int) -> tuple[int, int]:
        strip, down = divmod(row, self.length)
        x = strip * self.strip_width + self.label_width + column * self.pitch
        return x, self.top + self.heading + down * self.row_height


class TextSizes(NamedTuple):
    """Sizes in pixels: the height of a line, and widths of row labels by section and other texts.

    `heads` are the widths by section that columns need for the whole text of their headings. Cells
    outside of blocks have captions, which are narrower if there is no space.
    """

    line: int
    labels: Sequence[int]
    heads: Sequence[int]
    number: int
    caption: int


@dataclass(frozen=True, eq=False)
class GridLayout:
    """The arrangement in pixels. Sections are below each other, with a heading above the rows.

    A section with more than `strip_rows` rows is divided into strips beside each other. Tiles have
    the height `side`, and are wider if there is space, up to `max_stretch` times the height. Many
    small tiles have no texts.
    """

    arrangement: Arrangement
    width: int
    texts: TextSizes
    side: int
    strip_rows: int
    has_texts: bool = True
    max_stretch: float = MAX_STRETCH

    @classmethod
    def fitting(
        cls,
        arrangement: Arrangement,
        width: int,
        height: int,
        texts: TextSizes,
        max_stretch: float = MAX_STRETCH,
    ) -> GridLayout:
        """Return the layout with the largest tiles that all fit into a width and height.

        If that would make them too small, they have no texts, or fit across only, or not at all.
        Headings that are whole come before large tiles; so do those that are cut less than others.
        """
        rows = max(len(section.rows) for section in arrangement.sections)
        choices: list[tuple[tuple[float, ...], GridLayout]] = []
        for has_texts, strips in product((True, False), range(1, min(MAX_STRIPS, rows) + 1)):
            strip_rows = math.ceil(rows / strips)
            layout = cls(arrangement, width, texts, 0, strip_rows, has_texts, max_stretch)
            spaces = [placed.space for placed in layout.placed]
            across = min(spaces) - layout.gap
            shares = map(truediv, spaces, (head or 1 for head in texts.heads))
            whole = round(min(1.0, *shares), 1)  # the shown share of the heading that is cut most
            down = (height - layout.size[1]) // sum(placed.length for placed in layout.placed)
            min_side = PREFERRED_MIN_SIDE_PX if has_texts else DENSE_SIDE_PX
            if down >= min_side and across >= (texts.number if has_texts else min_side):
                side = min(across, down, MAX_SIDE_PX)
                rank = 1 + has_texts, whole, side * min(across, round(1.5 * side))
            elif has_texts and (strips == 1 or across >= READABLE_SIDE_PX):
                rank, side = (0, whole, strips), max(MIN_SIDE_PX, min(across, READABLE_SIDE_PX))
            else:
                continue
            choices.append((rank, replace(layout, side=side)))
        return max(choices, key=lambda choice: choice[0])[1]

    @property
    def gap(self) -> int:
        return GAP_PX if self.has_texts else DENSE_GAP_PX

    @cached_property
    def placed(self) -> Sequence[PlacedSection]:
        result: list[PlacedSection] = []
        for index, section in enumerate(self.arrangement.sections):
            top = result[-1].bottom if result else 0
            result.append(self._placed(section, self.texts.labels[index], top))
        return result

    def _placed(self, section: Section, label_width: int, top: int) -> PlacedSection:
        line, roles = self.texts.line, section.roles
        strips = math.ceil(len(section.rows) / self.strip_rows)
        length = math.ceil(len(section.rows) / strips)
        columns = max(len(row.names) for row in section.rows)
        space = (self.width - PADDING_PX - strips * label_width) // (strips * columns)
        min_pitch = self.gap + (max(MIN_SIDE_PX, self.texts.number) if self.has_texts else 0)
        caption = 0 if roles else self.texts.caption + GAP_PX
        widest = max(caption, round(self.max_stretch * self.side) + self.gap)
        pitch = max(min_pitch, min(space, widest))
        lines = bool(section.title) + bool(roles) + any(role.group for role in roles)
        row_height = self.side + line * (self.has_texts + (not roles)) + self.gap
        heading = lines * line + PADDING_PX
        return PlacedSection(
            section, strips, length, columns, label_width, space, pitch, top, heading, row_height
        )

    @cached_property
    def size(self) -> tuple[int, int]:
        width = max(placed.strips * placed.strip_width for placed in self.placed)
        return width + PADDING_PX, self.placed[-1].bottom

    def tile(self, position: Position) -> Rect:
        """Return the rectangle in which the picture of a parameter is, above its text."""
        cell = self.cell(position)
        above = cell.height - self.side - self.texts.line * self.has_texts
        width = min(cell.width - self.gap, round(self.max_stretch * self.side))
        return Rect(cell.x + (cell.width - width) / 2, cell.y + above, width, self.side)

    def cell(self, position: Position) -> Rect:
        placed = self.placed[position.section]
        x, y = placed.origin(position.row, position.column)
        return Rect(x, y, placed.pitch, placed.row_height - self.gap)

    def rows_between(self, top: float, bottom: float) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield each section that overlaps a range of y, with the overlapping rows."""
        for index, placed in enumerate(self.placed):
            if placed.bottom <= top or placed.top >= bottom:
                continue
            start = placed.top + placed.heading
            first = max(0, int((top - start) // placed.row_height))
            last = min(placed.length, max(0, int((bottom - start) // placed.row_height) + 1))
            count = len(placed.section.rows)
            starts = range(0, count, placed.length)
            strips = (range(start + first, min(start + last, count)) for start in starts)
            yield index, list(chain.from_iterable(strips))
