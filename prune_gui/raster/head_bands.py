"""The attention heads of a weight as bands of rows or columns of its layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.raster.slice_layout import ParameterLayout, SliceLayout

if TYPE_CHECKING:
    from prune_gui.architecture.heads import Heads
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class HeadBands:
    """Bands of equal width that cover a layout; one per head.

    Attributes:
        are_rows: whether a band consists of rows; else of columns.
        width: number of rows or columns of a band.
        labels: the name of each head.
    """

    are_rows: bool
    width: int
    labels: tuple[str, ...]


def head_bands(heads: Heads | None, layout: ParameterLayout) -> HeadBands | None:
    """Return the bands of heads; None if there are none or the layout does not show them as bands.

    Args:
        heads: the heads of the parameter.
        layout: the layout of the parameter.
    """
    if heads is None or layout != SliceLayout.flattened(layout.shape):
        return None
    return HeadBands(heads.dim == 0 and len(layout.shape) > 1, heads.width, heads.labels)


def head_shares(
    resolution: Resolution,
    name: str,
    layout: ParameterLayout,
    bands: HeadBands,
    monitor: Monitor,
) -> NDArray[np.float32]:
    """Return float32 (heads,), the pruned share of each head.

    Args:
        resolution: the resolution.
        name: name of the parameter.
        layout: the layout of the parameter.
        bands: the bands of the layout.
        monitor: receives the number of elements processed.
    """
    from prune_gui.raster.density import density  # torch: slow to import

    count = len(bands.labels)
    cells = (count, 1) if bands.are_rows else (1, count)
    rows, columns = range(layout.rows), range(layout.columns)
    return density(resolution, name, layout, rows, columns, cells, monitor).share.reshape(-1)
