"""Thumbnails of parameters: what is in each of a few cells, exactly, and their pixels."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.mask.data import coloured, mask_levels, step_table
from prune_gui.language import format_number
from prune_gui.number_formats import SHAPE_SEPARATOR
from prune_gui.raster.colours import between, ramp_table
from prune_gui.raster.parameter_layouts import SliceLayout

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_grid import CellGrid
    from prune_gui.raster.colours import Colours
    from prune_gui.raster.density import Density
    from prune_gui.recipe import Resolution
    from prune_gui.session.subjects import Subject

MAX_CELLS: Final = 48
MIN_RATIO, MAX_RATIO = 0.5, 1.5
"""Magnitudes, relative to that of the whole parameter, of the first and last colour."""
MAX_ASPECT: Final = 3.0
"""Maximum ratio of the sides of a thumbnail; a longer matrix is drawn squeezed."""
MAGNITUDE_STEPS: Final = 4


class Shading(StrEnum):
    """What the colours of the thumbnails show."""

    MAGNITUDE = "magnitude"
    STEP = "step"
    DENSITY = "density"
    ENERGY = "energy"
    ERROR = "error"

    @property
    def measure(self) -> Shading:
        """The first shading that shows the same numbers."""
        return Shading.STEP if self in (Shading.DENSITY, Shading.ERROR) else self


@dataclass(frozen=True, eq=False, slots=True)
class Thumbnail:
    """A parameter in a few cells: the pruned share of each, of the elements or of the energy.

    Zeros in the file count as pruned. For `MAGNITUDE` it is the root mean square (RMS) of the
    weights in the file, relative to that of the whole parameter, which is `rms`, between
    `MIN_RATIO` and `MAX_RATIO`. The key is equal for parameters with equal numbers.
    """

    key: Hashable
    measure: Shading
    density: Density
    rms: float = math.nan

    def shows(self, subject: Subject, shading: Shading) -> bool:
        return self.measure is shading.measure and self.key == _key(subject, shading)

    def zeros(self, shape: tuple[int, ...]) -> int:
        """Return how many elements are pruned or zero, if the shares are of elements."""
        from prune_gui.raster.cell_grid import CellGrid  # torch: slow to import

        down, across = self.density.share.shape
        grid = CellGrid.over(_layout(shape), (down, across))
        heights, widths = np.diff(grid.row_edges), np.diff(grid.column_edges)
        return round(float(heights @ self.density.share.astype(np.float64) @ widths))


def proportions(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return the width and height of a thumbnail relative to its longer side."""
    layout = _layout(shape)
    aspect = min(max(layout.columns / layout.rows, 1 / MAX_ASPECT), MAX_ASPECT)
    return min(aspect, 1.0), min(1 / aspect, 1.0)


def make_thumbnail(subject: Subject, shading: Shading, monitor: Monitor) -> Thumbnail:
    """Compute the thumbnail of a parameter; every element counts.

    Except for `MAGNITUDE`, reads nothing if no step targets the parameter and it has no zeros.
    """
    from prune_gui.raster.cell_grid import CellGrid  # torch: slow to import
    from prune_gui.raster.density import density

    width, height = proportions(subject.info.shape)
    cells = round(MAX_CELLS * height), round(MAX_CELLS * width)
    grid = CellGrid.over(_layout(subject.info.shape), cells)
    resolution, name, key = subject.resolution, subject.name, _key(subject, shading)
    if shading is Shading.MAGNITUDE:
        return Thumbnail(key, shading, *_magnitude(resolution, name, grid, monitor))
    if shading is Shading.ENERGY and resolution.layers.get(name, ()):
        found = _pruned_energy(resolution, name, grid, monitor)
    else:
        marked = resolution if shading is Shading.ENERGY else subject.marked
        found = density(marked, name, grid, monitor)
    return Thumbnail(key, shading.measure, found)


def _key(subject: Subject, shading: Shading) -> Hashable:
    if shading is Shading.MAGNITUDE:
        return subject.resolution.checkpoint, subject.name
    return subject.marked_key


def pixels(
    thumbnail: Thumbnail, shading: Shading, colours: Colours, draft: int | None
) -> NDArray[np.uint8]:
    """Return the pixels of a thumbnail, uint8 (cells down, cells across, 4): RGB and 255."""
    density = thumbnail.density
    if shading is Shading.STEP:
        return coloured(mask_levels(density, draft), step_table(colours))
    stops = colours.unsigned if shading is Shading.MAGNITUDE else colours.scale
    return ramp_table(stops, 256)[np.rint(np.nan_to_num(density.share) * 255).astype(np.uint8)]


def magnitude_marks(colours: Colours) -> list[tuple[str, str]]:
    """Return colours of magnitudes, and what they are relative to that of the whole parameter."""
    marks = []
    for step in range(MAGNITUDE_STEPS + 1):
        share = step / MAGNITUDE_STEPS
        ratio = MIN_RATIO + share * (MAX_RATIO - MIN_RATIO)
        text = f"{format_number(ratio, 'g')} {SHAPE_SEPARATOR}"
        marks.append((between(colours.unsigned, share), text))
    return marks


def _layout(shape: tuple[int, ...]) -> SliceLayout:
    return SliceLayout.wrapped(shape) or SliceLayout.flattened(shape)


def _magnitude(
    resolution: Resolution, name: str, grid: CellGrid[SliceLayout], monitor: Monitor
) -> tuple[Density, float]:
    """Return the RMS of each cell relative to the RMS of all, see `Thumbnail`, and the latter.

    NumPy alone computes it, so that the first picture need not wait for a compiled loop.
    """
    # torch: slow to import
    from prune_gui.parallel import CHUNK_ELEMENTS
    from prune_gui.raster.density import Density
    from prune_gui.statistics import weight_values

    read, width = weight_values.reader(resolution.checkpoint, name), grid.layout.columns
    at_once, squares = max(1, CHUNK_ELEMENTS // width), np.zeros(grid.shape)
    edges, rows = grid.row_edges, grid.layout.rows
    monitor.expect(grid.size)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, rows, at_once):
            stop = min(start + at_once, rows)
            values = read(start * width, stop * width).reshape(-1, width)
            first, last = np.searchsorted(edges, (start, stop - 1), "right") - 1
            for row in range(first, last + 1):
                part = values[max(0, edges[row] - start) : edges[row + 1] - start]
                sums = np.einsum("ij,ij->j", part, part).astype(np.float64)
                squares[row] += np.add.reduceat(sums, grid.column_edges[:-1])
            monitor.advance(values.size)
        mean = squares / np.outer(np.diff(grid.row_edges), np.diff(grid.column_edges))
        rms = math.sqrt(squares[np.isfinite(squares)].sum() / max(1, grid.size))
        ratio = np.sqrt(mean) / rms if rms else np.zeros(grid.shape)
    share = (np.nan_to_num(ratio, nan=MAX_RATIO) - MIN_RATIO) / (MAX_RATIO - MIN_RATIO)
    none = np.zeros(grid.shape, np.uint8)
    return Density(np.clip(share, 0, 1).astype(np.float32), none), rms


def _pruned_energy(
    resolution: Resolution, name: str, grid: CellGrid[SliceLayout], monitor: Monitor
) -> Density:
    """Return the share of the energy of each cell that is pruned; 0 where it is 0 or infinite."""
    # torch: slow to import
    from prune_gui.raster.cell_statistics import cell_statistics
    from prune_gui.raster.density import Density
    from prune_gui.statistics.element_values import kept_squares, squares

    energy, kept = (
        cell_statistics(measure(resolution, name), grid, monitor).mean
        for measure in (squares, kept_squares)
    )
    share = np.zeros(energy.shape, np.float32)
    is_finite = (energy > 0) & np.isfinite(energy)
    pruned = np.subtract(energy, kept, out=np.zeros_like(energy), where=is_finite)
    np.divide(pruned, energy, out=share, where=is_finite, casting="same_kind")
    step = np.zeros(share.shape, np.uint8)
    share.flags.writeable = step.flags.writeable = False
    return Density(share, step)
