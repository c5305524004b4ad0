"""Which cells of a layout a picture shows, and the lines between elements. No Qt."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.raster.parameter_layouts import ParameterLayout

MAX_PIXELS = 2_000_000
MIN_SHADE = 0.22
"""Minimum share of the step's colour in a cell with one pruned element; the same for kept ones."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The region of a layout to draw, and the resolution.

    Attributes:
        layout: layout of the parameter.
        rows: rows of the layout.
        columns: columns of the layout.
        cells: maximum number of cells down and across.
    """

    layout: ParameterLayout
    rows: range
    columns: range
    cells: tuple[int, int]


def frame(
    layout: ParameterLayout,
    x: tuple[float, float],
    y: tuple[float, float],
    pixel: tuple[float, float],
) -> Frame:
    """Return a frame that covers the visible region, with about one cell per pixel.

    A cell is never smaller than a pixel. Each cell therefore covers at least one pixel, and every
    lone element is visible.

    Args:
        layout: element (row, column) covers y from row - 0.5 to row + 0.5, and x from
            column - 0.5 to column + 0.5.
        x: start and end of the visible region.
        y: start and end of the visible region.
        pixel: width and height of a screen pixel, in elements.
    """
    columns = range(*_visible_range(x, layout.columns))
    rows = range(*_visible_range(y, layout.rows))
    across = max(1, min(len(columns), int(len(columns) / pixel[0])))
    down = max(1, min(len(rows), int(len(rows) / pixel[1])))
    if across * down > MAX_PIXELS:
        shrink = (MAX_PIXELS / (across * down)) ** 0.5
        across, down = max(1, int(across * shrink)), max(1, int(down * shrink))
    return Frame(layout, rows, columns, (down, across))


def grid_lines(
    x: tuple[float, float], y: tuple[float, float], *, across: bool, down: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lines between the elements of a rectangle, as x and y of pairs of points.

    Args:
        x: start and end of the rectangle.
        y: start and end of the rectangle.
        across: whether to draw lines between columns.
        down: whether to draw lines between rows.
    """
    vertical = _borders(x) if across else np.zeros(0)
    level = _borders(y) if down else np.zeros(0)
    return (
        np.concatenate([np.repeat(vertical, 2), np.tile(x, len(level))]),
        np.concatenate([np.tile(y, len(vertical)), np.repeat(level, 2)]),
    )


def _visible_range(span: tuple[float, float], size: int) -> tuple[int, int]:
    """Return the first visible index and the one after the last; if none, the nearest index."""
    first = min(max(0, math.floor(span[0] + 0.5)), size - 1)
    return first, max(first + 1, min(size, math.ceil(span[1] + 0.5)))


def _borders(span: tuple[float, float]) -> NDArray[np.float64]:
    first, last = math.ceil(span[0] + 0.5), math.floor(span[1] + 0.5)
    return np.arange(first, last + 1, dtype=np.float64) - 0.5
