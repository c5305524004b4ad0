"""The cells of a mask as numbers, and tables of the colours of these numbers. No Qt.

Colours are looked up when a picture is shown, so other colours need no new picture.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui import raster, statistics
from prune_gui.gui.views.maps.text import Texts, texts
from prune_gui.gui.views.maps.tiles import MIN_SHADE, Pixels, RasterBlock, TileRegion
from prune_gui.raster.colours import TABLE_SIZE, Colours, Ramp, rgb
from prune_gui.raster.parameter_layouts import flat_span
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.density import Density
    from prune_gui.raster.parameter_layouts import ParameterLayout


SHARE_BITS: Final = 12
"""Bits of the pruned share in a level. The higher bits are the index of the cell's colour."""
ALL: Final = (1 << SHARE_BITS) - 1  # the share of a cell whose elements are all pruned
GAP: Final = 1
"""Level of a cell without elements. Level 0 is of a tile that is missing."""
STEP_COLOURS: Final = 8  # number of colours of steps, after which they repeat
MIN_DENSITY_STEP: Final = 0.12
"""Distance of the colours of partly pruned cells from both ends of the ramp, as a share of it.

The ends are reserved for cells without any pruned and without any kept element.
"""
MIN_CONTRAST: Final = 0.05  # minimum length of a contrast range
OUTLIERS: Final = 0.01
"""Share of the visible cells at each end that a local contrast range leaves out."""

Levels = NDArray[np.uint16]
Table = NDArray[np.uint8]  # uint8 (65536, 4): red, green, blue and opacity of each level


@dataclass(frozen=True, slots=True)
class Contrast:
    """The kept shares between which the colours of a density change."""

    low: float = 0.0
    high: float = 1.0


def mask_levels(density: Density, draft: int | None) -> Levels:
    """Return the level of each cell: the colour of its step, and the share that is pruned.

    A cell with a pruned element never has share 0, and one with a kept element never `ALL`.
    """
    share = np.nan_to_num(density.share)
    levels = np.clip(np.rint(share * ALL), share > 0, ALL - (share < 1)).astype(np.uint16)
    levels |= _colour_indices(draft)[density.step] << SHARE_BITS
    levels[np.isnan(density.share)] = GAP
    return levels


def _colour_indices(draft: int | None) -> Levels:
    """Return the index of the colour of each code, from 1; see `Resolution.pruned_by`."""
    indices = 2 + (np.arange(256, dtype=np.uint16) - 1) % STEP_COLOURS
    if draft is not None:
        indices[draft] = STEP_COLOURS + 2
    indices[KEPT], indices[IN_FILE], indices[ZERO] = 1, STEP_COLOURS + 3, STEP_COLOURS + 4
    return indices


def step_table(colours: Colours, *, plain: bool) -> Table:
    """Return colours blended from that of kept elements to that of the step, or the first one."""
    weights = np.linspace(0.0, 1.0, ALL + 1)
    weights[1:-1] = MIN_SHADE + weights[1:-1] * (1 - 2 * MIN_SHADE)
    kept = np.array(rgb(colours.kept), np.float64)
    shades = [colours.kept, *colours.steps, colours.draft, colours.in_file, colours.zero]
    if plain:
        shades = [colours.kept, *len(shades[1:-1]) * [colours.steps[0]], colours.kept]
    table = _empty_table(colours)
    for index, shade in enumerate(shades, start=1):
        end = rgb(shade)
        table[index, :, :3] = np.rint(kept + weights[:, None] * (end - kept))
    return table.reshape(-1, 4)


@lru_cache(maxsize=4)
def density_table(colours: Colours, contrast: Contrast) -> Table:
    """Return read-only colours of a ramp over the share kept, whose lightness is monotonic."""
    kept = 1 - np.arange(ALL + 1) / ALL
    share = np.clip((contrast.high - kept) / (contrast.high - contrast.low), 0, 1)
    share = MIN_DENSITY_STEP + share * (1 - 2 * MIN_DENSITY_STEP)
    share[0], share[ALL] = 0, 1
    table = _empty_table(colours)
    ramp = Ramp(colours.dense, signed=False).table()
    table[1:] = ramp[np.rint(share * (TABLE_SIZE - 1)).astype(np.intp)]
    table.flags.writeable = False
    return table.reshape(-1, 4)


def local_contrast(levels: Pixels) -> Contrast | None:
    """Return the range of the shares kept of partly pruned cells; None if there are none."""
    histogram = np.bincount((levels & ALL)[levels > ALL], minlength=ALL + 1)
    histogram[[0, ALL]] = 0
    total = histogram.sum()
    if not total:
        return None
    quantiles = np.array([OUTLIERS, 1 - OUTLIERS]) * total
    first, last = np.searchsorted(np.cumsum(histogram), quantiles)
    low, high = 1 - last / ALL, 1 - first / ALL
    missing = max(0.0, MIN_CONTRAST - (high - low)) / 2
    return Contrast(max(0.0, float(low - missing)), min(1.0, float(high + missing)))


def coloured(levels: Pixels, table: Table) -> NDArray[np.uint8]:
    """Return the pixels of levels: uint8 (cells down, cells across, 4)."""
    packed = np.ascontiguousarray(table).view(np.uint32)[:, 0]
    return packed.take(levels, mode="clip").view(np.uint8).reshape(*levels.shape, 4)


def _empty_table(colours: Colours) -> Table:
    """Return a table by colour index and share. Missing tiles are transparent, gaps are blank."""
    table = np.zeros((1 << (16 - SHARE_BITS), ALL + 1, 4), np.uint8)
    table[1:, :, 3] = 255
    table[0, GAP] = (*rgb(colours.background), 255)
    return table


@dataclass(frozen=True, slots=True)
class MaskPainter:
    """Paints which elements are pruned, as levels."""

    subject: Subject

    @property
    def is_part(self) -> bool:
        """False: a mask reads values only of parameters that were read for it before."""
        return False

    @property
    def key(self) -> Hashable:
        return (*self.subject.marked_key, self.subject.draft)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle. Rare cells: with a pruned element or a zero, with a kept one."""
        subject = self.subject
        grid = raster.cell_grid.CellGrid.over(layout, part.cells, part.rows, part.columns)
        cells = raster.density.density(subject.marked, subject.name, grid, monitor)
        levels = mask_levels(cells, subject.draft)
        return RasterBlock(levels, (cells.share > 0, cells.share < 1))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        subject, span = self.subject, flat_span(layout, rows, columns)
        measure = statistics.element_values.weights(subject.resolution, subject.name, span)
        return texts(measure, layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        return self.subject.marked_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the share of each row and column that is pruned, or zero in the file."""
        pruned_shares = raster.cell_statistics.pruned_shares
        return pruned_shares(self.subject.marked, self.subject.name, layout, monitor)
