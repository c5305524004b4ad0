"""The p-norm of each block of a matrix, computed in one pass over bands of block rows."""

from __future__ import annotations

import torch
from torch import Tensor

from prune_gui.monitor import Monitor
from prune_gui.pruning.norms.channels import MIN_SPAN_ELEMENTS, remaining_span
from prune_gui.pruning.norms.orders import ElementLayout, Order, norm_of_order
from prune_gui.pruning.parallel import run
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.pruning.selection.scores import Scores, wide_dtype


def block_norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, with pruned elements as zeros; see `channel_norms`.

    Args:
        scores: read in bands of several rows of blocks.
        remaining_mask: True at the remaining elements; None if all are.
        n: the order of the norm; "nuc" is defined for every block, which is a matrix.
        blocks: the blocks of the parameter.
        monitor: gets the number of bytes read.

    Returns:
        Shape (blocks,); float32, or float64 if the scores are.

    Raises:
        ValueError: the norm is not defined.
        Cancelled: the monitor is cancelled.
    """
    height, width, across = blocks.height, blocks.width, blocks.across
    norm = None if n == "nuc" else norm_of_order(n)
    norms = torch.empty(blocks.down, across, dtype=wide_dtype(scores.dtype))
    per_band = max(1, MIN_SPAN_ELEMENTS // (height * blocks.columns))
    monitor.expect(scores.nbytes)

    def compute_band(first: int) -> None:
        last = min(first + per_band, blocks.down)
        start, stop = (row * height * blocks.columns for row in (first, last))
        rows = remaining_span(scores, remaining_mask, start, stop).view(-1, blocks.columns)
        band = rows[:, : across * width].reshape(-1, height, across, width)
        if norm is None:
            matrices = band.transpose(1, 2).reshape(-1, height, width).to(norms.dtype)
            norms[first:last] = _nuclear_norms(matrices).view(-1, across)
        else:
            norms[first:last] = norm.finish(
                norm.accumulate(band.reshape(-1), ElementLayout(*band.shape))
            )
        monitor.advance(scores.nbytes * (stop - start) // (blocks.rows * blocks.columns))

    for _ in run(compute_band, range(0, blocks.down if across else 0, per_band)):
        pass
    return norms.view(-1)


def _nuclear_norms(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each matrix; NaN if an element is non-finite.

    `matrices` has the shape (matrices, rows, columns).
    """
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
