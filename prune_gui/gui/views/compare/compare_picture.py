"""Two moments as pixels and in words. No Qt: the pixels are made on the engine's thread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.gui.views.legend import SPACE, counted, unbroken
from prune_gui.gui.views.maps.mask_picture import FAINTEST, Frame
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import items, later, tr

if TYPE_CHECKING:
    from prune_gui.audit.diff.comparison import Obstacle, Overlap
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution

Pixels = NDArray[np.uint8]

OBSTACLES: Final[dict[Obstacle, str]] = {
    "shape": later("{count:,} of another shape"),
    "not_left": later("{count:,} not on the left"),
    "not_right": later("{count:,} not on the right"),
    "not_prunable": later("{count:,} that cannot be pruned on both sides"),
}
"""How to count the parameters that cannot be compared."""


@dataclass(frozen=True, slots=True)
class Shades:
    """Colours of entries, that differ in lightness as well as in hue. Written as "#rrggbb"."""

    kept: str
    both: str
    left: str
    right: str

    @classmethod
    def of(cls, colours: Colours) -> Shades:
        """Choose from the colours of the theme."""
        return cls(colours.kept, colours.in_file, colours.steps[0], colours.steps[4])


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The same part of a parameter in two moments.

    Attributes:
        left: (cells down, cells across, 4), red, green, blue, opaque.
        right: likewise.
        overlap: of the whole parameter.
    """

    left: Pixels
    right: Pixels
    overlap: Overlap


def draw_pair(
    left: Resolution,
    right: Resolution,
    name: str,
    chosen: Frame,
    colours: Colours,
    monitor: Monitor,
) -> Pair:
    """Return the pictures of a frame.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.diff.comparison import overlaps, shares

    assert isinstance(chosen.plane, SliceLayout)  # nothing else is offered
    found = shares(
        left, right, name, chosen.plane, chosen.rows, chosen.columns, chosen.cells, monitor
    )
    shades = Shades.of(colours)
    [overlap] = overlaps(left, right, [name], monitor)
    return Pair(
        paint(found.both, found.left, (shades.kept, shades.both, shades.left)),
        paint(found.both, found.right, (shades.kept, shades.both, shades.right)),
        overlap,
    )


def paint(
    both: NDArray[np.float32], alone: NDArray[np.float32], shades: tuple[str, str, str]
) -> Pixels:
    """Return the pixels of one side.

    The colours of a cell are laid over each other as deep as their share: kept, pruned in both, and
    pruned here alone, which so is never hidden.

    Args:
        both: the share of each cell that is pruned in both moments.
        alone: the share that is pruned in this one alone.
        shades: the colours, of kept entries first.
    """
    kept, *over = (np.array([int(s[i : i + 2], 16) for i in (1, 3, 5)]) for s in shades)
    picture = np.empty((*both.shape, 3), np.float32)
    picture[:] = kept
    rest = np.divide(both, 1 - alone, out=np.zeros_like(both), where=both > 0)
    for share, shade in zip((rest, alone), over, strict=True):
        depth = np.where(share > 0, FAINTEST + share * (1 - 2 * FAINTEST), np.float32(0))
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
        (shades.left, tr("only left, so revived"), overlap.left),
        (shades.right, tr("only right"), overlap.right),
        (shades.kept, tr("kept in both"), overlap.kept),
    )
    texts = [
        f'<span style="color: {colour}">■</span>&nbsp;'
        + unbroken(counted(title, count, overlap.total))
        for colour, title, count in parts
        if count
    ]
    return SPACE.join([*texts, unbroken(tr("IoU {iou:.3f}", iou=overlap.iou))])


def in_total(overlap: Overlap, left_out: Counter[Obstacle]) -> str:
    """Say how much two moments prune of the parameters in the table, and which are not in it."""
    total = _in_total(overlap)
    if not left_out:
        return total
    counts = (tr(said, count=left_out[why]) for why, said in OBSTACLES.items() if left_out[why])
    return tr("{total}. Parameters left out: {counts}", total=total, counts=items(counts))


def _in_total(overlap: Overlap) -> str:
    if not overlap.total:
        return tr("No parameter of the stack is there to compare with")
    if not overlap.left + overlap.right:
        return tr("In total: both prune the same {count:,} entries", count=overlap.both)
    return tr(
        "In total: {both:,} in both, {left:,} only left, {right:,} only right, IoU {iou:.3f}",
        both=overlap.both,
        left=overlap.left,
        right=overlap.right,
        iou=overlap.iou,
    )
