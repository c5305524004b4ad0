"""Shares as pictures in a report: shades, bars by step, and the tables of all matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from prune_gui.architecture.blocks import BlockRow, Section, sections
from prune_gui.raster.colours import LIGHT, Colours, readable_on
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.report.records import Layer

SHADES: Final = 20
"""Number of shades of sparsity, without that of zero."""
CODES: Final = (*range(1, len(LIGHT.steps) + 1), IN_FILE)
BAR_WIDTH: Final = 48
MIN_BAR_SEGMENT: Final = 0.5
MAX_TILES: Final = 1200
"""Limit of a report: a tile takes about 200 bytes."""


class StepSegment(NamedTuple):
    """The part of a bar that one step pruned; `kind` is its CSS class."""

    kind: str
    x: float
    width: float


class MatrixTable(NamedTuple):
    """The rows to show of a family of blocks, and all layers by name."""

    section: Section
    rows: Sequence[BlockRow]
    layers: Mapping[str, Layer]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups of columns, and how many columns each has; none without a title."""
        by_title = groupby(role.group for role in self.section.roles)
        groups = [(title, len(list(roles))) for title, roles in by_title]
        return groups if any(title for title, _ in groups) else []


def theme_colours(colours: Colours) -> dict[str, str]:
    """Return the colours of one theme by the name of their CSS variable."""
    is_light = colours == LIGHT
    variables = {
        "page": colours.background,
        "panel": "#f6f8fa" if is_light else "#20252b",
        "text": colours.foreground,
        "faint": "#5f6872" if is_light else "#98a2ad",
        "line": colours.grid,
        "hair": "#eceff2" if is_light else "#272c32",
        "kept": colours.kept,
        "warning": colours.warning,
    }
    variables |= {f"c{code}": colours.of(code) for code in CODES}
    for shade in range(SHADES + 1):
        fill = colours.share(shade / SHADES)
        variables |= {f"d{shade}": fill, f"t{shade}": readable_on(fill)}
    return variables


def shade_of(share: float) -> int:
    """Return the shade of a share in [0, 1]; 0 and `SHADES` mean exactly none and all."""
    if share in (0, 1):
        return round(share * SHADES)
    return min(max(round(share * SHADES), 1), SHADES - 1)


def code_class(code: int) -> str:
    """Return the CSS class of what a step pruned."""
    return f"c{code if code == IN_FILE else (code - 1) % len(LIGHT.steps) + 1}"


def segments(by_code: Mapping[int, int], total: int) -> Iterator[StepSegment]:
    """Yield the shares of `total` that each step pruned, side by side."""
    x = 0.0
    for code, count in sorted(by_code.items()):
        own = max(BAR_WIDTH * count / total, MIN_BAR_SEGMENT) if total else 0.0
        yield StepSegment(code_class(code), x, own)
        x += own


def overview(layers: Sequence[Layer], max_tiles: int = MAX_TILES) -> tuple[list[MatrixTable], int]:
    """Return tables of the sparsity of each matrix, and how many matrices are left out."""
    by_name = {layer.name: layer for layer in layers}
    drawn, omitted, tables = 0, 0, []
    for section in sections({layer.name: layer.shape for layer in layers}):
        kept = []
        for row in section.rows:
            count = len(row.names) - row.names.count(None)
            if drawn + count > max_tiles:
                omitted += count
                continue
            drawn += count
            kept.append(row)
        if kept:
            tables.append(MatrixTable(section, kept, by_name))
    return tables, omitted
