"""The p-norm of each block of a matrix, computed in one pass over bands of block rows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prune_gui.monitor import Monitor
from prune_gui.pruning.norms.channels import MIN_SPAN_ELEMENTS, remaining_span
from prune_gui.pruning.norms.orders import ElementLayout, Order, norm_of_order, scaled_powers
from prune_gui.pruning.parallel import spread
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.pruning.selection.scores import Scores, wide_dtype


def block_norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, with pruned elements as zeros; see `channel_norms`.

    Args:
        monitor: gets the number of bytes read.

    Returns:
        Shape (blocks,); float32, or float64 if the scores are.
    """
    across = blocks.across
    if n != "nuc":
        norm_of_order(n)  # raises ValueError if there is none
    norms = torch.empty(blocks.down, across, dtype=wide_dtype(scores.dtype))
    per_band = max(1, MIN_SPAN_ELEMENTS // (blocks.height * blocks.columns))
    monitor.expect(scores.nbytes)

    bands = range(0, blocks.down if across else 0, per_band)
    compute = partial(_band_norms, scores, remaining_mask, n, blocks, per_band)
    for first, own in zip(bands, spread(compute, bands, monitor), strict=True):
        norms[first : first + per_band] = torch.from_numpy(own)
    return norms.view(-1)


def _band_norms(
    scores: Scores,
    remaining_mask: RemainingMask | None,
    n: Order,
    blocks: Blocks,
    per_band: int,
    first: int,
    monitor: Monitor,
) -> NDArray[np.floating[Any]]:
    """Return the norms of a band of at most `per_band` rows of blocks, by row and column."""
    height, width, across = blocks.height, blocks.width, blocks.across
    last = min(first + per_band, blocks.down)
    start, stop = (row * height * blocks.columns for row in (first, last))
    rows = remaining_span(scores, remaining_mask, start, stop).view(-1, blocks.columns)
    band = rows[:, : across * width].reshape(-1, height, across, width)
    if n == "nuc":
        matrices = band.transpose(1, 2).reshape(-1, height, width).to(wide_dtype(scores.dtype))
        norms = _nuclear_norms(matrices).view(-1, across)
    else:
        norms = _power_norms(band.reshape(-1), ElementLayout(*band.shape), n)
    monitor.advance(scores.nbytes * (stop - start) // (blocks.rows * blocks.columns))
    return norms.to(wide_dtype(scores.dtype)).numpy()


def _power_norms(elements: Tensor, layout: ElementLayout, n: Order) -> Tensor:
    """Return the norms of blocks of an order other than "nuc", float64 (batch, channels)."""
    norm = norm_of_order(n)
    partial = norm.accumulate(elements, layout)
    norms = norm.finish(partial)
    doubtful = norm.is_doubtful(partial, layout.outer * layout.inner, elements.dtype)
    if doubtful.any():
        maxima = norm_of_order(math.inf).accumulate(elements, layout)
        doubtful &= (maxima > 0) & np.isfinite(maxima)
        scales = np.where(doubtful, maxima, 1.0)
        p = 2.0 if n == "fro" else float(n)
        sums = torch.from_numpy(scaled_powers(elements, layout, n, scales))
        exact = torch.from_numpy(scales) * sums.pow(1 / p)
        norms = exact.where(torch.from_numpy(doubtful), norms)
    return norms


def _nuclear_norms(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each matrix; NaN if an element is non-finite.

    `matrices` has the shape (matrices, rows, columns).
    """
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
