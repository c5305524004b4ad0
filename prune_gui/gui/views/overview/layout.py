"""Where each thumbnail of the overview is: by block and role, and in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from prune_gui.architecture.blocks import Section

MIN_SIDE_PX: Final = 28
PREFERRED_MIN_SIDE_PX: Final = 40
"""Thumbnails are not smaller than this only to show all rows at once."""
MAX_SIDE_PX: Final = 96
GAP_PX: Final = 8
PADDING_PX: Final = 10
"""Gap between the heading of a section and its rows, and around the whole."""


class Position(NamedTuple):
    """The position of a parameter: indices of a section, its row and its column."""

    section: int
    row: int
    column: int


class ThumbnailRect(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Parameters in sections: the blocks, and the parameters outside of blocks."""

    sections: tuple[Section, ...]

    @cached_property
    def positions(self) -> Mapping[str, Position]:
        return {
            name: Position(i, j, k)
            for i, section in enumerate(self.sections)
            for j, row in enumerate(section.rows)
            for k, name in enumerate(row.names)
            if name is not None
        }

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.positions)}

    @cached_property
    def loose_columns(self) -> int:
        return max((section_columns(part) for part in self.sections if not part.roles), default=0)

    def nearest_first(self, visible: tuple[str, str] | None) -> list[str]:
        """Return all names: those between the first and last visible one, then by distance."""
        names = list(self.positions)
        if visible is None or not self.ranks.keys() >= set(visible):
            return names
        first, last = (self.ranks[name] for name in visible)
        ranks = np.arange(len(names))
        distances = np.maximum(np.maximum(first - ranks, ranks - last), 0)
        return [names[rank] for rank in np.lexsort((ranks < first, distances)).tolist()]

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


@dataclass(frozen=True, eq=False)
class OverviewLayout:
    """The arrangement in pixels. Sections are below each other, with a heading above the rows.

    Columns are at least `min_pitch` apart, so that their texts fit, and `loose_pitch` outside of
    blocks, where each has a caption. A thumbnail has `side` as the longer side, and a text has
    `line`.
    """

    arrangement: Arrangement
    side: int
    line: int
    label_width: int
    min_pitch: int
    loose_pitch: int

    @classmethod
    def fitting(
        cls,
        arrangement: Arrangement,
        size: tuple[int, int],
        line: int,
        label_width: int,
        min_pitch: int,
        caption_width: int,
    ) -> OverviewLayout:
        """Return the layout with the largest thumbnails that all fit into `size`.

        If that would make them too small, they fit across only, or not at all. Captions outside of
        blocks get up to `caption_width`, as far as there is space.
        """
        room = (size[0] - label_width - PADDING_PX) // max(1, arrangement.loose_columns) - GAP_PX
        loose_pitch = max(min_pitch, min(caption_width, room))

        def layout(side: int) -> OverviewLayout:
            return cls(arrangement, side, line, label_width, min_pitch, loose_pitch)

        sizes = {side: layout(side).size for side in range(MAX_SIDE_PX, MIN_SIDE_PX - 1, -1)}
        across = [side for side, (width, _) in sizes.items() if width <= size[0]]
        for side in across:
            if side >= PREFERRED_MIN_SIDE_PX and sizes[side][1] <= size[1]:
                return layout(side)
        return layout(min([*across[:1], PREFERRED_MIN_SIDE_PX + 8]) if across else MIN_SIDE_PX)

    def pitch(self, section: Section) -> int:
        return max(self.side, self.min_pitch if section.roles else self.loose_pitch) + GAP_PX

    @cached_property
    def size(self) -> tuple[int, int]:
        sections = self.arrangement.sections
        columns = max(section_columns(section) * self.pitch(section) for section in sections)
        return self.label_width + columns + PADDING_PX, self.tops[-1] + PADDING_PX

    @cached_property
    def tops(self) -> Sequence[int]:
        heights = (
            self.heading_height(section) + len(section.rows) * self.row_height(section) + PADDING_PX
            for section in self.arrangement.sections
        )
        return tuple(accumulate(heights, initial=0))

    def heading_height(self, section: Section) -> int:
        lines = int(bool(section.title) or len(self.arrangement.sections) > 1)
        lines += bool(section.roles) + any(role.group for role in section.roles)
        return lines * self.line + PADDING_PX

    def row_height(self, section: Section) -> int:
        return self.side + self.line * (1 if section.roles else 2) + GAP_PX

    def tile(self, position: Position) -> ThumbnailRect:
        """Return the square in which the thumbnail of a parameter is centred."""
        cell = self.cell(position)
        x = cell.x + (cell.width - self.side) / 2
        return ThumbnailRect(x, cell.y + cell.height - self.side - self.line, self.side, self.side)

    def cell(self, position: Position) -> ThumbnailRect:
        section = self.arrangement.sections[position.section]
        pitch, height = self.pitch(section), self.row_height(section)
        top = self.tops[position.section] + self.heading_height(section)
        x, y = self.label_width + position.column * pitch, top + position.row * height
        return ThumbnailRect(x, y, pitch, height - GAP_PX)

    def rows_between(self, top: float, bottom: float) -> Iterator[tuple[int, range]]:
        """Yield each section that overlaps a range of y, with the overlapping rows."""
        for index, section in enumerate(self.arrangement.sections):
            if self.tops[index + 1] <= top or self.tops[index] >= bottom:
                continue
            start = self.tops[index] + self.heading_height(section)
            height = self.row_height(section)
            first = max(0, int((top - start) // height))
            last = min(len(section.rows), max(0, int((bottom - start) // height) + 1))
            yield index, range(min(first, last), last)


def section_columns(section: Section) -> int:
    """Return the number of columns of a section."""
    return max(len(row.names) for row in section.rows)
