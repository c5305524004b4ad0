"""Shares as pictures in a report: shades, bars by step, and the overview of all matrices."""

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
MIN_TILE_WIDTH: Final = 58
MAX_TILE_WIDTH: Final = 124
PAGE_WIDTH: Final = 1100
"""Tiles are wider if few of them fit into a row of the page."""
TILE_HEIGHT: Final = 26
STEPS_HEIGHT: Final = 4
GAP: Final = 3
LINE: Final = 15
CHARS_PER_PX: Final = 1 / 6.2
"""Characters of the font per pixel, about."""
MIN_LABEL_CHARS: Final = 6
MAX_TILES: Final = 1200
"""Limit of a report: a tile takes about 300 bytes."""
MAX_LABEL_PX: Final = 150


class StepSegment(NamedTuple):
    """The part of a bar that one step pruned; `kind` is its CSS class."""

    kind: str
    x: float
    width: float


class Label(NamedTuple):
    """A text of at most `limit` characters; the full text is its tool tip."""

    text: str
    limit: int
    x: float
    y: float


class MatrixTile(NamedTuple):
    """The rectangle of a matrix, shaded by its sparsity; `steps` are a thin bar at its bottom."""

    layer: Layer
    shade: int
    x: float
    y: float
    width: int
    steps: tuple[StepSegment, ...]

    @property
    def text_position(self) -> tuple[float, float]:
        """The middle of the base line of the text."""
        return self.x + self.width / 2, self.y + (15 if self.steps else 17)


class MatrixPicture(NamedTuple):
    """The tiles of one family of blocks, in pixels; wider than the page if `is_scrolled`."""

    title: str
    width: float
    height: float
    is_scrolled: bool
    labels: tuple[Label, ...]
    tiles: tuple[MatrixTile, ...]


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


def segments(
    by_code: Mapping[int, int],
    total: int,
    width: float = BAR_WIDTH,
    min_width: float = MIN_BAR_SEGMENT,
    x: float = 0.0,
) -> Iterator[StepSegment]:
    """Yield the shares of `total` that each step pruned, side by side from `x` on."""
    for code, count in sorted(by_code.items()):
        own = max(width * count / total, min_width) if total else 0.0
        yield StepSegment(code_class(code), x, own)
        x += own


def overview(
    layers: Sequence[Layer], max_tiles: int = MAX_TILES
) -> tuple[list[MatrixPicture], int]:
    """Return pictures of the sparsity of each matrix, and how many matrices are left out."""
    by_name = {layer.name: layer for layer in layers}
    drawn, omitted, pictures = 0, 0, []
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
            pictures.append(_picture(section, kept, by_name))
    return pictures, omitted


def _picture(
    section: Section, rows: Sequence[BlockRow], layers: Mapping[str, Layer]
) -> MatrixPicture:
    left = min(max(len(row.label) for row in rows) / CHARS_PER_PX, MAX_LABEL_PX) + 10
    columns = max(len(row.names) for row in rows)
    width = min(max(int((PAGE_WIDTH - left) / columns) - GAP, MIN_TILE_WIDTH), MAX_TILE_WIDTH)
    xs = [left + column * (width + GAP) for column in range(columns + 1)]
    labels, tiles = list(_head(section, xs, width)), []
    y = float(_head_height(section))
    for row in rows:
        if row.captions:
            y += LINE
        if row.label:
            labels.append(_label(row.label, 0, y + TILE_HEIGHT / 2 + 4, MAX_LABEL_PX))
        for index, name in enumerate(row.names):
            if name is None:
                continue
            if row.captions:
                labels.append(_label(row.captions[index], xs[index], y - 4, width))
            layer, x = layers[name], xs[index]
            has_steps = layer.zeros and set(layer.by_code) != {IN_FILE}
            steps = tuple(segments(layer.by_code, layer.total, width, 0.0, x)) if has_steps else ()
            tiles.append(MatrixTile(layer, shade_of(layer.sparsity), x, y, width, steps))
        y += TILE_HEIGHT + (2 * GAP if row.captions else GAP)
    is_scrolled = width == MIN_TILE_WIDTH  # and not shrunk
    return MatrixPicture(section.title, xs[-1], y, is_scrolled, tuple(labels), tuple(tiles))


def _head_height(section: Section) -> int:
    if not section.roles:
        return 0
    return LINE * (2 if any(role.group for role in section.roles) else 1) + 4


def _head(section: Section, xs: Sequence[float], width: int) -> Iterator[Label]:
    """Yield the titles of the columns, and above them those of the groups."""
    for group, members in groupby(enumerate(section.roles), lambda item: item[1].group):
        indices = [index for index, _ in members]
        if group:
            group_width = len(indices) * (width + GAP) - GAP
            yield _label(group, xs[indices[0]], LINE - 4, group_width)
    for index, role in enumerate(section.roles):
        yield _label(role.label, xs[index], _head_height(section) - 8, width)


def _label(text: str, x: float, y: float, width: float) -> Label:
    return Label(text, max(int(width * CHARS_PER_PX), MIN_LABEL_CHARS), x, y)
