"""The p-norm of each block of a matrix, in one pass over bands of it."""

from __future__ import annotations

import torch
from torch import Tensor

from prune_gui.monitor import Monitor
from prune_gui.pruning.keys import Alive
from prune_gui.pruning.norms import PIECE, Order, channel_norms
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.sources import Scores, wide_dtype


def block_norms(
    scores: Scores, alive: Alive | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, with zeros where an entry is gone; see `channel_norms`.

    Args:
        scores: read band by band: so many rows of blocks that they fit a processor's cache.
        alive: where entries are still there; None if all are.
        n: the order of the norm; "nuc" too, as a block is a matrix.
        blocks: of the parameter.
        monitor: told of the bytes read.

    Returns:
        One dimension, a block each; float32, or float64 if the scores are.

    Raises:
        ValueError: there is no such norm.
        Cancelled: the monitor said so.
    """
    height, width, across = blocks.height, blocks.width, blocks.across
    norms = torch.empty(blocks.down, across, dtype=wide_dtype(scores.dtype))
    monitor.expect(scores.nbytes)
    per_band = max(1, PIECE // (height * blocks.columns))
    for first in range(0, blocks.down if across else 0, per_band):
        last = min(first + per_band, blocks.down)
        start, stop = (row * height * blocks.columns for row in (first, last))
        part = scores.part(start, stop)
        if alive is not None:
            gone = torch.from_numpy(~alive(start, stop))
            part = part.to(norms.dtype).masked_fill(gone, 0.0)
        band = part.view(-1, height, blocks.columns)[:, :, : across * width]
        each = band.reshape(-1, height, across, width).transpose(1, 2).reshape(-1, height, width)
        found = _nuclear_norms(each.to(norms.dtype)) if n == "nuc" else channel_norms(each, n, 0)
        norms[first:last] = found.view(-1, across)
        monitor.advance(scores.nbytes * (stop - start) // (blocks.rows * blocks.columns))
    return norms.view(-1)


def _nuclear_norms(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each of some matrices; NaN if one is not finite."""
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
