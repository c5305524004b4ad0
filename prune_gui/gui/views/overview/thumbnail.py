"""Thumbnails of parameters: what is pruned in each of a few cells, exactly, and their pixels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.mask.data import coloured, mask_levels, step_table
from prune_gui.raster.colours import rgb
from prune_gui.raster.parameter_layouts import SliceLayout

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_grid import CellGrid
    from prune_gui.raster.colours import Colours
    from prune_gui.raster.density import Density
    from prune_gui.recipe import Resolution
    from prune_gui.session.subjects import Subject

MAX_CELLS: Final = 48
MAX_ASPECT: Final = 3.0
"""Maximum ratio of the sides of a thumbnail; a longer matrix is drawn squeezed."""


class Shading(StrEnum):
    """What the colours of the thumbnails show."""

    STEP = "step"
    DENSITY = "density"
    ENERGY = "energy"

    @property
    def needs_weights(self) -> bool:
        return self is Shading.ENERGY


@dataclass(frozen=True, eq=False, slots=True)
class Thumbnail:
    """A parameter in a few cells: the pruned share of each, of the elements or of the energy.

    Zeros in the file count as pruned. The key is equal for parameters with equal masks and zeros.
    """

    key: Hashable
    needs_weights: bool
    density: Density

    def shows(self, subject: Subject, shading: Shading) -> bool:
        """Return whether it shows a parameter as it is pruned now."""
        return self.needs_weights is shading.needs_weights and self.key == subject.marked_key

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

    Reads nothing if no step targets the parameter and it has no zeros.
    """
    from prune_gui.raster.cell_grid import CellGrid  # torch: slow to import
    from prune_gui.raster.density import density

    width, height = proportions(subject.info.shape)
    cells = round(MAX_CELLS * height), round(MAX_CELLS * width)
    grid = CellGrid.over(_layout(subject.info.shape), cells)
    resolution, name = subject.resolution, subject.name
    if shading.needs_weights and resolution.layers.get(name, ()):
        found = _pruned_energy(resolution, name, grid, monitor)
    else:
        marked = resolution if shading.needs_weights else subject.marked
        found = density(marked, name, grid, monitor)
    return Thumbnail(subject.marked_key, shading.needs_weights, found)


def pixels(
    thumbnail: Thumbnail, shading: Shading, colours: Colours, draft: int | None
) -> NDArray[np.uint8]:
    """Return the pixels of a thumbnail, uint8 (cells down, cells across, 4): RGB and 255."""
    density = thumbnail.density
    if shading is Shading.STEP:
        return coloured(mask_levels(density, draft), step_table(colours))
    return _scale(colours)[np.rint(np.nan_to_num(density.share) * 255).astype(np.uint8)]


@cache
def _scale(colours: Colours) -> NDArray[np.uint8]:
    """Return the colour of each share in 255ths, uint8 (256, 4)."""
    return np.array([(*rgb(colours.share(level / 255)), 255) for level in range(256)], np.uint8)


def _layout(shape: tuple[int, ...]) -> SliceLayout:
    return SliceLayout.wrapped(shape) or SliceLayout.flattened(shape)


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
