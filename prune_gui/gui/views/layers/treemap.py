"""A treemap of modules and parameters; the area of each is proportional to its elements.

The algorithm is that of Bruls, Huizing and van Wijk, "Squarified treemaps" (2000).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from prune_gui.architecture.blocks import short_names
from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree
from prune_gui.errors import one_line

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution


class Rect(NamedTuple):
    """A rectangle in pixels; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        return self.width * self.height

    def contains(self, x: float, y: float) -> bool:
        return 0 <= x - self.x < self.width and 0 <= y - self.y < self.height

    @property
    def turned(self) -> Rect:
        return Rect(self.y, self.x, self.height, self.width)


@dataclass(frozen=True, slots=True)
class TreemapCell:
    """The rectangle of a module or a parameter. Cells that are not open tile the treemap."""

    node: ModuleNode
    rect: Rect
    is_open: bool


@dataclass(frozen=True, eq=False, slots=True)
class TreemapData:
    """A treemap of a size in pixels: open modules, outer ones first, and the other cells.

    `counted` are the names of its parameters; `names` are short names of the cells, which differ.
    """

    size: tuple[float, float]
    counted: frozenset[str]
    modules: tuple[TreemapCell, ...]
    cells: tuple[TreemapCell, ...]
    names: Sequence[str]
    shares: Sequence[float]


def make_treemap(
    infos: Sequence[TensorInfo],
    resolution: Resolution,
    size: tuple[float, float],
    before: TreemapData | None = None,
) -> TreemapData:
    """Return the treemap of a width and height in pixels, and the share pruned of each cell.

    It has the parameters that totals count, see `Resolution.counted`.
    """
    counted = resolution.counted
    if before is not None and (before.size, before.counted) == (size, counted):
        modules, cells, names = before.modules, before.cells, before.names
    else:
        shown = [info for info in infos if info.name in counted]
        all_cells = treemap(shown, Rect(0.0, 0.0, *size))
        modules = tuple(cell for cell in all_cells if cell.is_open)
        cells = tuple(cell for cell in all_cells if not cell.is_open)
        short = short_names([cell.node.path for cell in cells])
        names = [one_line(".".join(filter(None, name))) for name in short]
    shares = [_share(cell, resolution) for cell in cells]
    return TreemapData(size, counted, modules, cells, names, shares)


def _share(cell: TreemapCell, resolution: Resolution) -> float:
    counts = [resolution.counts[tensor.name] for tensor in cell.node.tensors]
    return sum(pruned for pruned, _ in counts) / sum(total for _, total in counts)


def treemap(
    infos: Sequence[TensorInfo], rect: Rect, max_cells: int = 4000, min_area: float = 20.0
) -> tuple[TreemapCell, ...]:
    """Divide a rectangle among parameters. Those of one module are adjacent.

    Large modules are opened first; a module whose parts would have a mean area below `min_area`
    stays one cell, and there are at most `max_cells` cells that are not open.
    """
    if not infos:
        return ()
    done: list[TreemapCell] = []
    closed, order = 1, count()
    waiting = [(-rect.area, next(order), module_tree(infos), rect)]
    while waiting:
        area, _, node, node_rect = heapq.heappop(waiting)
        parts = _parts(node)
        if not parts or -area < min_area * len(parts) or closed + len(parts) - 1 > max_cells:
            done.append(TreemapCell(node, node_rect, is_open=False))
            continue
        closed += len(parts) - 1
        done.append(TreemapCell(node, node_rect, is_open=True))
        parts.sort(key=lambda part: -part.numel)
        rects = squarify([part.numel for part in parts], node_rect)
        for part, part_rect in zip(parts, rects, strict=True):
            heapq.heappush(waiting, (-part_rect.area, next(order), part, part_rect))
    return tuple(done)


def _parts(node: ModuleNode) -> list[ModuleNode]:
    if not node.below:
        return []
    own = [] if node.tensor is None else [ModuleNode(node.name, node.path, node.tensor, (), -1, {})]
    return [*own, *node.children]


def squarify(weights: Sequence[float], rect: Rect) -> list[Rect]:
    """Divide a rectangle into nearly square ones with areas in proportion to descending weights."""
    scale = rect.area / sum(weights)
    areas = [weight * scale for weight in weights]
    rects: list[Rect] = []
    start = 0
    while start < len(areas):
        side = min(rect.width, rect.height)
        stop, strip, largest = start + 1, areas[start], areas[start]
        while stop < len(areas):
            with_next = _worst(largest, areas[stop], strip + areas[stop], side)
            if with_next > _worst(largest, areas[stop - 1], strip, side):
                break
            strip += areas[stop]
            stop += 1
        strip_rects, rect = _cut_off(areas[start:stop], strip, rect)
        rects += strip_rects
        start = stop
    return rects


def _worst(largest: float, smallest: float, strip: float, side: float) -> float:
    return max(side * side * largest / (strip * strip), strip * strip / (side * side * smallest))


def _cut_off(areas: Sequence[float], strip: float, rect: Rect) -> tuple[list[Rect], Rect]:
    if rect.width < rect.height:
        turned, remaining = _cut_off(areas, strip, rect.turned)
        return [one.turned for one in turned], remaining.turned
    thickness, at, rects = strip / rect.height, rect.y, []
    for area in areas:
        rects.append(Rect(rect.x, at, thickness, area / thickness))
        at += area / thickness
    width = max(0.0, rect.width - thickness)
    return rects, Rect(rect.x + thickness, rect.y, width, rect.height)
