"""The overview of a report: the sparsity of every weight matrix, by block and role, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

from prune_gui.architecture.blocks import Row, Section, sections
from prune_gui.errors import one_line
from prune_gui.language import tr
from prune_gui.number_formats import sparsity
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.report.marks import code_class, shade_of, text
from prune_gui.report.records import Layer

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
MAX_TILES: Final = 1200
"""Limit of a report: a tile takes about 300 bytes."""
MAX_LABEL_PX: Final = 150


def overview(layers: Sequence[Layer], max_tiles: int = MAX_TILES) -> str:
    """Return a picture of the sparsity of each matrix; "" if there are no matrices."""
    by_name = {layer.name: layer for layer in layers}
    drawn, omitted, parts = 0, 0, []
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
            parts.append(_section(section, kept, by_name))
    if omitted:
        note = tr("{count:,} more matrices are left out; the CSV file has all.", count=omitted)
        parts.append(f'<p class="faint">{note}</p>')
    return "".join(parts)


def _section(section: Section, rows: Sequence[Row], layers: Mapping[str, Layer]) -> str:
    left = min(max(len(row.label) for row in rows) / CHARS_PER_PX, MAX_LABEL_PX) + 10
    columns = max(len(row.names) for row in rows)
    width = min(max(int((PAGE_WIDTH - left) / columns) - GAP, MIN_TILE_WIDTH), MAX_TILE_WIDTH)
    parts = list(_head(section, left, width))
    y = float(_head_height(section))
    for row in rows:
        if row.captions:
            y += LINE
        parts += _row(row, left, y, width, layers)
        y += TILE_HEIGHT + (2 * GAP if row.captions else GAP)
    size = f"{left + columns * (width + GAP):.0f}", f"{y:.0f}"
    kind = "fit" if width > MIN_TILE_WIDTH else ""  # a wider picture is scrolled, not shrunk
    title = f"<h3>{text(section.title)}</h3>" if section.title else ""
    return (
        f'{title}<div class="scroll"><svg class="{kind}" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" role="img">{"".join(parts)}</svg></div>'
    )


def _head_height(section: Section) -> int:
    if not section.roles:
        return 0
    return LINE * (2 if any(role.group for role in section.roles) else 1) + 4


def _head(section: Section, left: float, width: int) -> Iterator[str]:
    """Yield the titles of the columns, and above them those of the groups."""
    pitch = width + GAP
    for group, members in groupby(enumerate(section.roles), lambda item: item[1].group):
        indices = [index for index, _ in members]
        if group:
            yield _label(group, left + indices[0] * pitch, LINE - 4, len(indices) * pitch - GAP)
    for index, role in enumerate(section.roles):
        yield _label(role.label, left + index * pitch, _head_height(section) - 8, width)


def _row(row: Row, left: float, y: float, width: int, layers: Mapping[str, Layer]) -> Iterator[str]:
    if row.label:
        yield _label(row.label, 0, y + TILE_HEIGHT / 2 + 4, MAX_LABEL_PX)
    for index, name in enumerate(row.names):
        x = left + index * (width + GAP)
        if name is None:
            continue
        if row.captions:
            yield _label(row.captions[index], x, y - 4, width)
        yield _tile(layers[name], x, y, width)


def _tile(layer: Layer, x: float, y: float, width: int) -> str:
    shade = shade_of(layer.sparsity)
    share = sparsity(layer.zeros, layer.total)
    tip = escape(f"{one_line(layer.name)}: {share} ({' x '.join(map(str, layer.shape))})")
    steps = "".join(_steps(layer, x, y + TILE_HEIGHT - STEPS_HEIGHT, width))
    baseline = y + (15 if steps else 17)
    return (
        f"<g><title>{tip}</title>"
        f'<rect class="d{shade}" x="{x:.0f}" y="{y:.0f}" width="{width}" height="{TILE_HEIGHT}" '
        f'rx="2"/>{steps}<text class="t{shade}" x="{x + width / 2:.0f}" y="{baseline:.0f}" '
        f'text-anchor="middle">{escape(share)}</text></g>'
    )


def _steps(layer: Layer, x: float, y: float, width: int) -> Iterable[str]:
    """Yield the shares of the steps as a thin bar, if steps are known."""
    if not layer.zeros or (len(layer.by_code) == 1 and IN_FILE in layer.by_code):
        return
    for code, count in sorted(layer.by_code.items()):
        part = width * count / layer.total
        yield (
            f'<rect class="{code_class(code)}" x="{x:.1f}" y="{y:.0f}" width="{part:.1f}" '
            f'height="{STEPS_HEIGHT}"/>'
        )
        x += part


def _label(label: str, x: float, y: float, width: float) -> str:
    """Return a text that is at most `width` wide; the full text is its tool tip."""
    shown = text(label, max(int(width * CHARS_PER_PX), 6))
    start = f'<text class="faint" x="{x:.0f}" y="{y:.0f}">'
    return f"{start}<title>{text(label)}</title>{shown}</text>"
