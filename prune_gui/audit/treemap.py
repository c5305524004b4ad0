"""A rectangle cut up among modules and parameters, each as large as it has entries.

The cutting is that of Bruls, Huizing and van Wijk, "Squarified treemaps" (2000).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """Its area."""
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Cell:
    """The place of a module or a parameter.

    Attributes:
        node: the module or parameter.
        rect: where it is.
        is_open: whether other cells fill it. Those that are not open cover the whole rectangle.
    """

    node: ModuleNode
    rect: Rect
    is_open: bool


def treemap(
    infos: Sequence[TensorInfo], rect: Rect, most: int = 4000, least: float = 20.0
) -> tuple[Cell, ...]:
    """Cut a rectangle up among parameters. Those of one module lie together.

    Large modules are opened first; what is too small to be told apart stays one cell.

    Args:
        infos: the parameters, each of at least one entry.
        rect: to be cut up.
        most: how many cells that are not open there may be.
        least: the area that the parts of a module have on average, from which on it is opened.

    Returns:
        Cells, each before those in it.
    """
    if not infos:
        return ()
    done: list[Cell] = []
    closed, order = 1, count()
    waiting = [(-rect.area, next(order), module_tree(infos), rect)]
    while waiting:
        area, _, node, place = heapq.heappop(waiting)
        parts = _parts(node)
        if not parts or -area < least * len(parts) or closed + len(parts) - 1 > most:
            done.append(Cell(node, place, is_open=False))
            continue
        closed += len(parts) - 1
        done.append(Cell(node, place, is_open=True))
        parts.sort(key=lambda part: -part.numel)
        for part, piece in zip(parts, squarify([p.numel for p in parts], place), strict=True):
            heapq.heappush(waiting, (-piece.area, next(order), part, piece))
    return tuple(done)


def _parts(node: ModuleNode) -> list[ModuleNode]:
    """Return what lies directly in a module; its own tensor, if it has one, is a part like any."""
    if not node.below:
        return []
    own = [] if node.tensor is None else [ModuleNode(node.name, node.path, node.tensor, (), -1)]
    return [*own, *node.children]


def squarify(weights: Sequence[float], rect: Rect) -> list[Rect]:
    """Cut a rectangle into pieces whose areas are as `weights`, each as nearly square as can be.

    Args:
        weights: positive, in descending order.
        rect: with an area above zero.
    """
    scale = rect.area / sum(weights)
    areas = [weight * scale for weight in weights]
    found: list[Rect] = []
    start = 0
    while start < len(areas):
        side = min(rect.width, rect.height)
        stop, strip = start + 1, areas[start]
        while stop < len(areas) and _worst(
            areas[start], areas[stop], strip + areas[stop], side
        ) <= (_worst(areas[start], areas[stop - 1], strip, side)):
            strip += areas[stop]
            stop += 1
        pieces, rect = _cut_off(areas[start:stop], strip, rect)
        found += pieces
        start = stop
    return found


def _worst(largest: float, smallest: float, strip: float, side: float) -> float:
    """Return the ratio of sides, at least 1, of the longest piece of a strip along a side."""
    return max(side * side * largest / (strip * strip), strip * strip / (side * side * smallest))


def _cut_off(areas: Sequence[float], strip: float, rect: Rect) -> tuple[list[Rect], Rect]:
    """Return the pieces of a strip along the shorter side of a rectangle, and what is left."""
    found = []
    if rect.width >= rect.height:
        thickness, at = strip / rect.height, rect.y
        for area in areas:
            found.append(Rect(rect.x, at, thickness, area / thickness))
            at += area / thickness
        left = Rect(rect.x + thickness, rect.y, max(0.0, rect.width - thickness), rect.height)
    else:
        thickness, at = strip / rect.width, rect.x
        for area in areas:
            found.append(Rect(at, rect.y, area / thickness, thickness))
            at += area / thickness
        left = Rect(rect.x, rect.y + thickness, rect.width, max(0.0, rect.height - thickness))
    return found, left
