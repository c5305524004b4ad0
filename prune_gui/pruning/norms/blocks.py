"""The p-norm of each block of a matrix, in one pass over bands of it."""

from __future__ import annotations

import torch
from torch import Tensor

from prune_gui.monitor import Monitor
from prune_gui.pruning.norms.channels import PIECE, remaining_part
from prune_gui.pruning.norms.orders import Layout, Order, norm_of_order
from prune_gui.pruning.parallel import run
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.pruning.selection.scores import Scores, wide_dtype


def block_norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, with zeros where an entry is gone; see `channel_norms`.

    Args:
        scores: read band by band, some rows of blocks each.
        remaining_mask: where entries are still there; None if all are.
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
    norm = None if n == "nuc" else norm_of_order(n)
    norms = torch.empty(blocks.down, across, dtype=wide_dtype(scores.dtype))
    per_band = max(1, PIECE // (height * blocks.columns))
    monitor.expect(scores.nbytes)

    def look(first: int) -> None:
        last = min(first + per_band, blocks.down)
        start, stop = (row * height * blocks.columns for row in (first, last))
        part = remaining_part(scores, remaining_mask, start, stop).view(-1, blocks.columns)
        band = part[:, : across * width].reshape(-1, height, across, width)
        if norm is None:
            matrices = band.transpose(1, 2).reshape(-1, height, width).to(norms.dtype)
            norms[first:last] = _nuclear_norms(matrices).view(-1, across)
        else:
            norms[first:last] = norm.root(norm.look(band.reshape(-1), Layout(*band.shape)))
        monitor.advance(scores.nbytes * (stop - start) // (blocks.rows * blocks.columns))

    for _ in run(look, range(0, blocks.down if across else 0, per_band)):
        pass
    return norms.view(-1)


def _nuclear_norms(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each of some matrices; NaN if one is not finite."""
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
