"""From a density to the pixels of a picture. No Qt: it is done on the engine's thread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.gui.widgets.theme import Colours

if TYPE_CHECKING:
    from prune_gui.audit.raster.density import Density

MAX_PIXELS = 2_000_000
FAINTEST = 0.22
"""A cell with a lone pruned entry has this much of the step's colour, and the other way round."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Which part of a plane to draw, and how finely.

    Attributes:
        plane: where the entries of the parameter lie.
        rows: of the plane.
        columns: of the plane.
        cells: how many down and across, at most.
    """

    plane: ParameterLayout
    rows: range
    columns: range
    cells: tuple[int, int]


def frame(
    plane: ParameterLayout,
    x: tuple[float, float],
    y: tuple[float, float],
    pixel: tuple[float, float],
) -> Frame:
    """Return what to draw so that a stretch of a plane is covered, a cell for each pixel.

    A cell is never smaller than a pixel: however the picture is laid onto the screen, each cell has
    a pixel of its own, and no lone entry falls between two.

    Args:
        plane: entry (row, column) covers y from row - 0.5 to row + 0.5, x likewise.
        x: from, to.
        y: from, to.
        pixel: the width and the height of a pixel on the screen, in entries.

    """
    columns = range(*_entries(x, plane.columns))
    rows = range(*_entries(y, plane.rows))
    across = max(1, min(len(columns), int(len(columns) / pixel[0])))
    down = max(1, min(len(rows), int(len(rows) / pixel[1])))
    if across * down > MAX_PIXELS:
        shrink = (MAX_PIXELS / (across * down)) ** 0.5
        across, down = max(1, int(across * shrink)), max(1, int(down * shrink))
    return Frame(plane, rows, columns, (down, across))


def grid(
    x: tuple[float, float], y: tuple[float, float], *, across: bool, down: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lines between the entries of a rectangle, as the x and the y of pairs of points.

    Args:
        x: from, to.
        y: from, to.
        across: whether to tell columns apart.
        down: whether to tell rows apart.
    """
    upright = _borders(x) if across else np.zeros(0)
    level = _borders(y) if down else np.zeros(0)
    return (
        np.concatenate([np.repeat(upright, 2), np.tile(x, len(level))]),
        np.concatenate([np.tile(y, len(upright)), np.repeat(level, 2)]),
    )


def colour(
    found: Density, colours: Colours, draft: int | None, *, plain: bool = False
) -> NDArray[np.uint8]:
    """Return the pixels of a density: from the colour of kept entries to that of the step.

    Args:
        found: where there are no entries, the share is NaN.
        colours: of the theme.
        draft: the number that is the draft's, if there is a draft.
        plain: give all steps the colour of the first.
    """
    levels = np.linspace(0.0, 1.0, 256)
    levels[1:-1] = FAINTEST + levels[1:-1] * (1 - 2 * FAINTEST)
    kept = _rgb(colours.kept)
    table = np.full((256, 256, 4), 255, np.uint8)
    for code in np.unique(found.step):
        shade = _rgb(colours.steps[0] if plain and code else colours.of(int(code), draft))
        table[code, :, :3] = np.rint(kept + levels[:, None] * (shade - kept))
    share = np.nan_to_num(found.share)
    level = np.clip(np.rint(share * 255), share > 0, 255 - (share < 1))
    pixels: NDArray[np.uint8] = table.view(np.uint32)[found.step, level.astype(np.uint8), 0]
    pixels = pixels.view(np.uint8).reshape(*found.step.shape, 4)
    pixels[np.isnan(found.share), :3] = _rgb(colours.background)
    return pixels


def _entries(span: tuple[float, float], size: int) -> tuple[int, int]:
    """Return the first entry in sight, and the one after the last; the nearest if none is."""
    first = min(max(0, math.floor(span[0] + 0.5)), size - 1)
    return first, max(first + 1, min(size, math.ceil(span[1] + 0.5)))


def _borders(span: tuple[float, float]) -> NDArray[np.float64]:
    first, last = math.ceil(span[0] + 0.5), math.floor(span[1] + 0.5)
    return np.arange(first, last + 1, dtype=np.float64) - 0.5


def _rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float64)
