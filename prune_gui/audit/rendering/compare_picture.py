"""Two states as pixels and as text. No Qt: the pixels are computed on the engine's thread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.audit.rendering.colours import Colours
from prune_gui.audit.rendering.mask_picture import MIN_SHADE, Frame
from prune_gui.audit.view_data.legend_text import SEPARATOR, counted, unbroken
from prune_gui.language import deferred, join_items, tr

if TYPE_CHECKING:
    from prune_gui.audit.diff.comparison import Obstacle, Overlap
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution

Pixels = NDArray[np.uint8]

OBSTACLES: Final[dict[Obstacle, str]] = {
    "shape": deferred("{count:,} of another shape"),
    "not_left": deferred("{count:,} not on the left"),
    "not_right": deferred("{count:,} not on the right"),
    "not_prunable": deferred("{count:,} that cannot be pruned on both sides"),
}
"""Texts for the numbers of parameters that cannot be compared, by the reason."""


@dataclass(frozen=True, slots=True)
class Shades:
    """Colours of elements as "#rrggbb". They differ in lightness as well as in hue."""

    kept: str
    both: str
    left: str
    right: str

    @classmethod
    def of(cls, colours: Colours) -> Shades:
        """Choose the colours from those of the theme."""
        return cls(colours.kept, colours.in_file, colours.steps[0], colours.steps[4])


@dataclass(frozen=True, slots=True, eq=False)
class PicturePair:
    """The same region of a parameter in two states.

    Attributes:
        left: uint8 (cells down, cells across, 4): red, green, blue, opaque.
        right: like `left`.
        overlap: of the whole parameter.
    """

    left: Pixels
    right: Pixels
    overlap: Overlap


def draw_pair(
    left: Resolution,
    right: Resolution,
    name: str,
    frame: Frame,
    colours: Colours,
    monitor: Monitor,
) -> PicturePair:
    """Return both pictures of a frame.

    Raises:
        Cancelled: if the monitor is cancelled.
    """
    from prune_gui.audit.diff.comparison import overlaps, shares  # torch: slow to import

    assert isinstance(frame.layout, SliceLayout)  # the chooser offers no kernel grids
    cell_shares = shares(
        left, right, name, frame.layout, frame.rows, frame.columns, frame.cells, monitor
    )
    shades = Shades.of(colours)
    [overlap] = overlaps(left, right, [name], monitor)
    return PicturePair(
        paint(cell_shares.both, cell_shares.left, (shades.kept, shades.both, shades.left)),
        paint(cell_shares.both, cell_shares.right, (shades.kept, shades.both, shades.right)),
        overlap,
    )


def paint(
    both: NDArray[np.float32], alone: NDArray[np.float32], shades: tuple[str, str, str]
) -> Pixels:
    """Return the pixels of one side, uint8 (cells down, cells across, 4).

    Three colours are blended in each cell, weighted by their shares: kept, pruned in both states,
    and pruned in this state alone. The last is blended last, so it is always visible.

    Args:
        both: share of each cell that is pruned in both states, in [0, 1].
        alone: share of each cell that is pruned in this state alone, in [0, 1].
        shades: colours of kept elements, of those pruned in both, and of those pruned here alone.
    """
    kept, *overlays = (np.array([int(s[i : i + 2], 16) for i in (1, 3, 5)]) for s in shades)
    picture = np.empty((*both.shape, 3), np.float32)
    picture[:] = kept
    both_of_rest = np.divide(both, 1 - alone, out=np.zeros_like(both), where=both > 0)
    for share, shade in zip((both_of_rest, alone), overlays, strict=True):
        depth = np.where(share > 0, MIN_SHADE + share * (1 - 2 * MIN_SHADE), np.float32(0))
        depth[share >= 1] = 1
        picture += depth[..., None] * (shade.astype(np.float32) - picture)
    pixels = np.full((*both.shape, 4), 255, np.uint8)
    pixels[..., :3] = np.rint(picture)
    return pixels


def legend(overlap: Overlap, colours: Colours) -> str:
    """Return the legend of two pictures as rich text."""
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
