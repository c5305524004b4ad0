"""Two states as pixels. No Qt: they are computed on the engine's thread."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui import comparison, raster
from prune_gui.gui.views.maps.tiles import MIN_SHADE, Pixels, RasterBlock, TileRegion
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import Colours, mixed, rgb
from prune_gui.raster.parameter_layouts import ParameterLayout, SliceLayout
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution

CORRECTED_SHARE: Final = 0.5
"""The share of another colour in that of corrected elements, which are kept ones above all."""


PICTURES: Final = 3
"""The left side, the right side and the difference."""


@dataclass(frozen=True, slots=True)
class Shades:
    """Colours of elements as "#rrggbb". They differ in lightness as well as in hue."""

    kept: str
    both: str
    left: str
    right: str
    corrected: str

    @classmethod
    def of(cls, colours: Colours) -> Shades:
        corrected = mixed(colours.kept, colours.steps[1], CORRECTED_SHARE)
        return cls(colours.kept, colours.in_file, colours.steps[0], colours.steps[4], corrected)


@dataclass(frozen=True, slots=True)
class ComparePainter:
    """Paints a parameter in two states, and their difference: `PICTURES` of 4 channels."""

    subject: Subject
    left: Subject | None
    right: Subject | None
    colours: Colours

    @property
    def key(self) -> Hashable:
        sides = (
            None if side is None else (*side.mask_key, side.resolution.values_key(side.name))
            for side in (self.left, self.right)
        )
        return (self.subject.name, *sides, self.colours)

    @property
    def resolutions(self) -> tuple[Resolution | None, Resolution | None]:
        """Both sides. Zeros count as pruned."""
        left = None if self.left is None else self.left.resolution
        right = None if self.right is None else self.right.resolution
        is_one_file = left is None or right is None or left.checkpoint is right.checkpoint
        if is_one_file and not self.subject.zeros:
            return left, right
        name = self.subject.name
        return left and left.marking_zeros(name), right and right.marking_zeros(name)

    @property
    def has_corrected(self) -> bool:
        """Whether steps give kept elements other values on both sides."""
        if self.left is None or self.right is None:
            return False
        left, right = self.left.resolution, self.right.resolution
        return comparison.mask_overlap.corrects_differently(left, right, self.subject.name)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle. The only kind of rare cells: those with a difference."""
        assert isinstance(layout, SliceLayout)  # the chooser offers no kernel grids
        left, right = self.resolutions
        grid = raster.cell_grid.CellGrid.over(layout, part.cells, part.rows, part.columns)
        found = comparison.mask_overlap.shares(left, right, self.subject.name, grid, monitor)
        shades = Shades.of(self.colours)
        both = (found.both, shades.both)
        only_left, only_right = (found.left, shades.left), (found.right, shades.right)
        corrected = (found.corrected, shades.corrected)
        of_left, of_right = (
            (corrected,) if side is not None and side.is_corrected(self.subject.name) else ()
            for side in (left, right)
        )
        painted = (
            paint(shades.kept, *of_left, both, only_left),
            paint(shades.kept, *of_right, both, only_right),
            paint(shades.kept, corrected, both, only_left, only_right),
        )
        differs = (found.left > 0) | (found.right > 0) | (found.corrected > 0)
        return RasterBlock(np.concatenate(painted, axis=2), (differs,))


def split(left: Pixels, right: Pixels, columns: range, at: float) -> Pixels:
    """Return the left picture, RGBA, up to the column `at`, and the right one beyond it.

    The left edge of column 0 is -0.5; `columns` are those of the layout that the pictures cover.
    """
    across = left.shape[1]
    share = (at + 0.5 - columns.start) / len(columns)
    first = min(across, max(0, round(share * across)))
    return np.concatenate([left[:, :first], right[:, first:]], axis=1)


def paint(kept: str, *overlays: tuple[NDArray[np.float32], str]) -> NDArray[np.uint8]:
    """Return pixels, uint8 (cells down, cells across, 4): red, green, blue, opaque.

    The colours are blended in each cell, weighted by their shares. Each is blended over those
    before it, so the last one is always visible.

    Args:
        overlays: share of each cell, in [0, 1], and its colour. The shares of a cell add up to at
            most 1.
    """
    shape = overlays[0][0].shape
    picture = np.empty((*shape, 3), np.float32)
    picture[:] = rgb(kept)
    for index, (share, shade) in enumerate(overlays):
        above = sum((later for later, _ in overlays[index + 1 :]), np.zeros(shape, np.float32))
        of_rest = np.divide(share, 1 - above, out=np.zeros_like(share), where=share > 0)
        depth = np.where(share > 0, MIN_SHADE + of_rest * (1 - 2 * MIN_SHADE), np.float32(0))
        depth[of_rest >= 1] = 1
        picture += depth[..., None] * (np.array(rgb(shade), np.float32) - picture)
    pixels = np.full((*shape, 4), 255, np.uint8)
    pixels[..., :3] = np.rint(picture)
    return pixels
