"""The cells of a mask as numbers, and tables of the colours of these numbers. No Qt.

Colours are looked up when a picture is shown, so other colours need no new picture.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prune_gui import raster, statistics
from prune_gui.gui.views.maps.text import Texts, texts
from prune_gui.gui.views.maps.tiles import MIN_SHADE, Pixels, RasterBlock, TileRegion
from prune_gui.raster.colours import Colours, pruned_ramps, rgb
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
MIN_CONTRAST: Final = 0.05  # minimum length of a contrast range
OUTLIERS: Final = 0.01
"""Share of the visible cells at each end that a local contrast range leaves out."""

Levels = NDArray[np.uint16]
Table = NDArray[np.uint8]  # uint8 (65536, 4): red, green, blue and opacity of each level


class Contrast(NamedTuple):
    """The pruned shares of cells between which their colours change."""

    low: float = 0.0
    high: float = 1.0


FULL: Final = Contrast()


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
    indices = 2 + (np.arange(256, dtype=np.uint16) - 1) % STEP_COLOURS
    if draft is not None:
        indices[draft] = STEP_COLOURS + 2
    indices[KEPT], indices[IN_FILE], indices[ZERO] = 1, STEP_COLOURS + 3, STEP_COLOURS + 4
    return indices


@lru_cache(maxsize=4)
def step_table(colours: Colours, contrast: Contrast = FULL) -> Table:
    """Return read-only colours from that of kept elements to that of the step.

    They change between the shares of a contrast. The ends are reserved for cells without any
    pruned and without any kept element.
    """
    shares = np.arange(ALL + 1) / ALL
    weights = np.clip((shares - contrast.low) / (contrast.high - contrast.low), 0, 1)
    weights = MIN_SHADE + weights * (1 - 2 * MIN_SHADE)
    weights[0], weights[ALL] = 0, 1
    table = np.zeros((1 << (16 - SHARE_BITS), ALL + 1, 4), np.uint8)  # missing: transparent
    ramps = pruned_ramps(colours, weights)
    table[1 : 1 + len(ramps)] = ramps
    table[0, GAP] = (*rgb(colours.background), 255)
    table.flags.writeable = False
    return table.reshape(-1, 4)


def local_contrast(levels: Pixels) -> Contrast | None:
    """Return the range of the pruned shares of partly pruned cells; None if there are none."""
    histogram = np.bincount((levels & ALL)[levels > ALL], minlength=ALL + 1)
    histogram[[0, ALL]] = 0
    total = histogram.sum()
    if not total:
        return None
    quantiles = np.array([OUTLIERS, 1 - OUTLIERS]) * total
    first, last = np.searchsorted(np.cumsum(histogram), quantiles)
    low, high = first / ALL, last / ALL
    missing = max(0.0, MIN_CONTRAST - (high - low)) / 2
    return Contrast(max(0.0, float(low - missing)), min(1.0, float(high + missing)))


def coloured(levels: Pixels, table: Table) -> NDArray[np.uint8]:
    """Return the pixels of levels: uint8 (cells down, cells across, 4)."""
    packed = np.ascontiguousarray(table).view(np.uint32)[:, 0]
    return packed.take(levels, mode="clip").view(np.uint8).reshape(*levels.shape, 4)


@dataclass(frozen=True, slots=True)
class MaskPainter:
    """Paints which elements are pruned, as levels."""

    subject: Subject
    is_part: bool = False  # a mask reads values only of parameters that were read for it before

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
