"""Pixels of a density. No Qt: they are computed on the engine's thread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.audit.rendering.colours import Colours

if TYPE_CHECKING:
    from prune_gui.audit.raster.density import Density

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


def colour(
    density: Density, colours: Colours, draft: int | None, *, plain: bool = False
) -> NDArray[np.uint8]:
    """Return the pixels of a density, blended from the colour of kept elements to that of the step.

    Args:
        density: its share is NaN where there are no elements.
        colours: colours of the theme.
        draft: step number of the draft; None without a draft.
        plain: whether all steps have the colour of the first.
    """
    levels = np.linspace(0.0, 1.0, 256)
    levels[1:-1] = MIN_SHADE + levels[1:-1] * (1 - 2 * MIN_SHADE)
    kept = _rgb(colours.kept)
    table = np.full((256, 256, 4), 255, np.uint8)
    for code in np.unique(density.step):
        shade = _rgb(colours.steps[0] if plain and code else colours.of(int(code), draft))
        table[code, :, :3] = np.rint(kept + levels[:, None] * (shade - kept))
    share = np.nan_to_num(density.share)
    level = np.clip(np.rint(share * 255), share > 0, 255 - (share < 1))
    pixels: NDArray[np.uint8] = table.view(np.uint32)[density.step, level.astype(np.uint8), 0]
    pixels = pixels.view(np.uint8).reshape(*density.step.shape, 4)
    pixels[np.isnan(density.share), :3] = _rgb(colours.background)
    return pixels


def _visible_range(span: tuple[float, float], size: int) -> tuple[int, int]:
    """Return the first visible index and the one after the last; if none, the nearest index."""
    first = min(max(0, math.floor(span[0] + 0.5)), size - 1)
    return first, max(first + 1, min(size, math.ceil(span[1] + 0.5)))


def _borders(span: tuple[float, float]) -> NDArray[np.float64]:
    first, last = math.ceil(span[0] + 0.5), math.floor(span[1] + 0.5)
    return np.arange(first, last + 1, dtype=np.float64) - 0.5


def _rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float64)
