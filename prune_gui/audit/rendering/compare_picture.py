"""Two states as pixels and as text. No Qt: the pixels are computed on the engine's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.rendering.mask_picture import MIN_SHADE
from prune_gui.audit.rendering.tiles import Pixels, RasterBlock, TileRegion
from prune_gui.audit.view_data.legend_text import SEPARATOR, counted, unbroken
from prune_gui.audit.view_data.subject import Subject
from prune_gui.language import deferred, join_items, tr
from prune_gui.raster.colours import Colours, mixed
from prune_gui.raster.layouts import SliceLayout

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Obstacle, Overlap
    from prune_gui.monitor import Monitor
    from prune_gui.raster.layouts import ParameterLayout

OBSTACLES: Final[dict[Obstacle, str]] = {
    "shape": deferred("{count:,} of another shape"),
    "not_left": deferred("{count:,} not on the left"),
    "not_right": deferred("{count:,} not on the right"),
    "not_prunable": deferred("{count:,} that cannot be pruned on both sides"),
}
"""Texts for the numbers of parameters that cannot be compared, by the reason."""

CORRECTED_SHARE: Final = 0.5
"""The share of another colour in that of corrected elements, which are kept ones above all."""


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
        """Choose the colours from those of the theme."""
        corrected = mixed(colours.kept, colours.steps[1], CORRECTED_SHARE)
        return cls(colours.kept, colours.in_file, colours.steps[0], colours.steps[4], corrected)


@dataclass(frozen=True, slots=True)
class ComparePainter:
    """Paints a parameter in two states: a picture of each, and one of their difference.

    A block has the channels of the three pictures one after another; see `pictures`.

    Attributes:
        subject: the parameter of the open checkpoint.
        left: the parameter on the left; None if it cannot be compared.
        right: the parameter on the right, in the same way.
        colours: colours of the theme.
    """

    subject: Subject
    left: Subject | None
    right: Subject | None
    colours: Colours

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal pictures."""
        sides = (
            None if side is None else (*side.mask_key, side.resolution.values_key(side.name))
            for side in (self.left, self.right)
        )
        return (self.subject.name, *sides, self.colours)

    @property
    def has_corrected(self) -> bool:
        """Whether steps give kept elements other values on both sides."""
        from prune_gui.comparison.mask_overlap import corrects_differently  # torch: slow to import

        if self.left is None or self.right is None:
            return False
        return corrects_differently(self.left.resolution, self.right.resolution, self.subject.name)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle. The only kind of rare cells: those with a difference."""
        from prune_gui.comparison.mask_overlap import shares  # torch: slow to import
        from prune_gui.raster.cell_grid import CellGrid

        assert isinstance(layout, SliceLayout)  # the chooser offers no kernel grids
        left = None if self.left is None else self.left.resolution
        right = None if self.right is None else self.right.resolution
        grid = CellGrid.over(layout, part.cells, part.rows, part.columns)
        found = shares(left, right, self.subject.name, grid, monitor)
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


def pictures(pixels: Pixels) -> list[Pixels]:
    """Return the pictures in the pixels of a painter, each with 4 channels.

    Of a `ComparePainter`: left, right, difference. Other painters paint one picture.
    """
    return np.split(pixels, pixels.shape[2] // 4, axis=2)


def split(left: Pixels, right: Pixels, columns: range, at: float) -> Pixels:
    """Return the left picture up to a column, and the right one beyond it.

    Args:
        left: uint8 (cells down, cells across, 4).
        right: the same region of the other side.
        columns: the columns of the layout that the pictures cover.
        at: the column; the left edge of column 0 is -0.5.
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
    picture[:] = _rgb(kept)
    for index, (share, shade) in enumerate(overlays):
        above = sum((later for later, _ in overlays[index + 1 :]), np.zeros(shape, np.float32))
        of_rest = np.divide(share, 1 - above, out=np.zeros_like(share), where=share > 0)
        depth = np.where(share > 0, MIN_SHADE + of_rest * (1 - 2 * MIN_SHADE), np.float32(0))
        depth[of_rest >= 1] = 1
        picture += depth[..., None] * (_rgb(shade) - picture)
    pixels = np.full((*shape, 4), 255, np.uint8)
    pixels[..., :3] = np.rint(picture)
    return pixels


def _rgb(shade: str) -> NDArray[np.float32]:
    return np.array([int(shade[i : i + 2], 16) for i in (1, 3, 5)], np.float32)


def legend(overlap: Overlap, colours: Colours, *, corrected: bool = False) -> str:
    """Return the legend of two pictures as rich text.

    Args:
        overlap: the numbers of elements.
        colours: colours of the theme.
        corrected: whether steps give kept elements other values on both sides.
    """
    shades = Shades.of(colours)
    parts = (
        (shades.both, tr("pruned in both"), overlap.both),
        (shades.left, tr("only left (revived)"), overlap.left),
        (shades.right, tr("only right"), overlap.right),
        (shades.kept, tr("kept in both"), overlap.kept),
    )
    entries = [
        f'<span style="color: {colour}">■</span>&nbsp;'
        + unbroken(counted(title, count, overlap.total))
        for colour, title, count in parts
        if count
    ]
    if corrected:
        text = unbroken(tr("kept in both, corrected"))
        entries.append(f'<span style="color: {shades.corrected}">■</span>&nbsp;{text}')
    return SEPARATOR.join([*entries, unbroken(tr("IoU {iou:.3f}", iou=overlap.iou))])


def total_text(overlap: Overlap, excluded: Counter[Obstacle]) -> str:
    """Describe how much two states prune in the parameters of the table, and what is left out."""
    total = _overlap_text(overlap)
    if not excluded:
        return total
    counts = (
        tr(message, count=excluded[obstacle])
        for obstacle, message in OBSTACLES.items()
        if excluded[obstacle]
    )
    return tr("{total}. Parameters left out: {counts}", total=total, counts=join_items(counts))


def _overlap_text(overlap: Overlap) -> str:
    if not overlap.total:
        return tr("No parameter of the stack can be compared")
    if not overlap.left + overlap.right:
        return tr("In total: both prune the same {count:,} weights", count=overlap.both)
    return tr(
        "In total: {both:,} in both, {left:,} only left, {right:,} only right, IoU {iou:.3f}",
        both=overlap.both,
        left=overlap.left,
        right=overlap.right,
        iou=overlap.iou,
    )
