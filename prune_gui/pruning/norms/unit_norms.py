"""The p-norm of each channel or block of a tensor, in one pass and without a copy of the tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from prune_gui.language import tr
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.pruning.arrays import Flags, Numbers, Values
from prune_gui.pruning.norms.orders import ElementLayout, Order, norm_of_order, scaled_powers
from prune_gui.pruning.parallel import spread
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.selection.keys import RemainingMask, raw_bits
from prune_gui.pruning.selection.scores import Scores, TensorScores, has_values, wide_dtype

MIN_TORCH_ROW_ELEMENTS: Final = 256
"""From this row length on, only memory bandwidth limits `torch.linalg.vector_norm`."""
MAX_TORCH_ELEMENTS: Final = 1 << 26
"""Elements in one call of `torch.linalg.vector_norm`."""
MIN_SPAN_ELEMENTS: Final = 1 << 21
SPANS: Final = 8
"""A tensor is read in spans of at least `MIN_SPAN_ELEMENTS`. A larger tensor is read in `SPANS`
spans, since each costs time, but a span has at most `SPANS` times the minimum. The spans do not
depend on `parallel.CHUNK_ELEMENTS`, so that sums are always rounded in the same way.
"""


def channel_norms(t: Tensor, n: Order, dim: int, *, monitor: Monitor | None = None) -> Tensor:
    """Return the norm of each channel along `dim`, over all other dimensions.

    Elements are widened to float32 span by span, so half-precision norms neither overflow nor
    collapse onto a few values. NaN in a channel makes its norm NaN (for n = 0 it counts as 1).

    Args:
        t: real, any dtype, any strides; `C` channels along `dim`.
        n: the order p of the norm: any number; 0 counts non-zeros; inf and -inf take the largest
            and the smallest absolute value; "fro" is the 2-norm; "nuc", the sum of the singular
            values, is defined where a channel is a matrix.
        dim: may be negative.
        monitor: gets the number of bytes read.

    Returns:
        Shape `(C,)`, float32; float64 if `t` is.

    Raises:
        ValueError: the norm is not defined for this tensor.
        IndexError: `t` has no dimension `dim`.
    """
    t, monitor = t.detach(), monitor or Monitor()
    monitor.expect(t.nbytes)
    if n == "nuc":
        return _nuclear_norms(t, dim, monitor)
    if type(t) is not Tensor or t.device.type != "cpu":
        return _norms_by_torch(t, n, dim, monitor)
    dim = range(t.dim())[dim]
    by_stride = sorted(range(t.dim()), key=t.stride, reverse=True)
    row_major = t.permute(by_stride).contiguous()  # a copy if there are gaps in its memory
    return _norms(TensorScores.of(row_major), None, n, by_stride.index(dim), monitor)


def score_norms(
    scores: Scores,
    remaining_mask: RemainingMask | None,
    n: Order,
    dim: int,
    *,
    monitor: Monitor | None = None,
) -> Tensor:
    """Return `channel_norms` of scores, with pruned elements as zeros.

    They are read span by span, and as a whole only for "nuc". Raises `ValueError` if the norm is
    not defined for this shape, or memory is short.
    """
    monitor = monitor or Monitor()
    if n == "nuc":
        lack = shortage(scores.nbytes) if remaining_mask is not None else None
        if lack is not None:
            raise ValueError(
                tr("n='nuc' after other steps requires {lack}. Use n='fro'.", lack=lack)
            )
        whole = remaining_span(scores, remaining_mask, 0, math.prod(scores.shape))
        return channel_norms(whole.view(scores.shape), n, dim, monitor=monitor)
    monitor.expect(scores.nbytes)
    return _norms(scores, remaining_mask, n, dim, monitor)


def remaining_span(
    scores: Scores, remaining_mask: RemainingMask | None, start: int, stop: int
) -> Tensor:
    """Return the scores of the flat indices [start, stop), with pruned elements as zeros."""
    part = scores.part(start, stop)
    if remaining_mask is None:
        return part
    remaining = torch.empty_like(part)
    np.multiply(raw_bits(part), remaining_mask(start, stop), out=raw_bits(remaining))
    return remaining


def _norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, dim: int, monitor: Monitor
) -> Tensor:
    """Return the norms of the channels of scores, combined from spans in order."""
    norm, shape = norm_of_order(n), scores.shape
    outer, channels, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    if (
        remaining_mask is None
        and outer == 1
        and channels
        and inner >= MIN_TORCH_ROW_ELEMENTS
        and n in (2, "fro")
        and scores.dtype in (torch.float32, torch.float64)
    ):
        norms = _row_norms(scores, channels, inner, monitor)
        partials = norms.double().square().numpy()
    else:
        partials = np.full(channels, norm.initial)
        read = partial(_read_span, scores, remaining_mask, n)
        for where, own in spread(read, _spans(outer, channels, inner), monitor):
            partials[where] = norm.combine(partials[where], own)
        norms = norm.finish(partials)
    doubtful = norm.is_doubtful(partials, outer * inner, scores.dtype)
    if doubtful.any():
        norms = _rescaled(norms.double(), doubtful, scores, remaining_mask, n, dim)
    return norms.to(wide_dtype(scores.dtype))


def _rescaled(
    norms: Tensor,
    doubtful: Flags,
    scores: Scores,
    remaining_mask: RemainingMask | None,
    n: Order,
    dim: int,
) -> Tensor:
    """Return norms of which those of some channels are computed again, relative to the maximum."""
    maxima = _norms(scores, remaining_mask, math.inf, dim, Monitor()).double().numpy()
    doubtful = doubtful & (maxima > 0) & np.isfinite(maxima)
    if not doubtful.any():
        return norms
    scales, shape = np.where(doubtful, maxima, 1.0), scores.shape
    spans = _spans(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    sums = np.zeros(shape[dim])
    for where, own in spread(
        partial(_scale_span, scores, remaining_mask, n, scales), spans, Monitor()
    ):
        sums[where] += own
    p = 2.0 if n == "fro" else float(n)
    exact = torch.from_numpy(scales) * torch.from_numpy(sums).pow(1 / p)
    return exact.where(torch.from_numpy(doubtful), norms)


def _scale_span(
    scores: Scores,
    remaining_mask: RemainingMask | None,
    n: Order,
    scales: Numbers,
    span: _Span,
    _monitor: Monitor,
) -> tuple[slice, Numbers]:
    """Return which channels a span has, and their sums of `scaled_powers`."""
    check_cancelled()
    part = remaining_span(scores, remaining_mask, span.start, span.start + math.prod(span.layout))
    where = slice(span.channel, span.channel + span.layout.channels)
    return where, scaled_powers(part, span.layout, n, scales[None, where])[0]


def _read_span(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, span: _Span, monitor: Monitor
) -> tuple[slice, Numbers]:
    """Return which channels a span has, and what their norms are combined from."""
    stop = span.start + math.prod(span.layout)
    part = remaining_span(scores, remaining_mask, span.start, stop)
    own = norm_of_order(n).accumulate(part, span.layout)[0]
    monitor.advance((stop - span.start) * scores.nbytes // math.prod(scores.shape))
    return slice(span.channel, span.channel + len(own)), own


def _row_norms(scores: Scores, channels: int, inner: int, monitor: Monitor) -> Tensor:
    """Return the 2-norms of long rows by torch, which is limited by the memory bandwidth alone.

    torch squares in the type of the elements, float32 or float64.
    """
    norms, rows_per_call = [], max(1, MAX_TORCH_ELEMENTS // inner)
    for first in range(0, channels, rows_per_call):
        last = min(first + rows_per_call, channels)
        rows = scores.part(first * inner, last * inner).view(-1, inner)
        norms.append(torch.linalg.vector_norm(rows, 2, dim=1))
        monitor.advance(rows.nbytes)
    return torch.cat(norms)


class _Span(NamedTuple):
    start: int
    channel: int
    layout: ElementLayout


def _spans(outer: int, channels: int, inner: int) -> Iterator[_Span]:
    """Yield a few spans that cover elements of shape (outer, channels, inner), in order."""
    size = outer * channels * inner
    if size == 0:
        return
    limit = min(max(MIN_SPAN_ELEMENTS, -(-size // SPANS)), MIN_SPAN_ELEMENTS * SPANS)
    max_slabs, max_channels = max(1, limit // (channels * inner)), max(1, limit // inner)
    for slab in range(0, outer, max_slabs):
        for channel in range(0, channels, max_channels):
            for offset in range(0, inner, limit):
                start = (slab * channels + channel) * inner + offset
                sides = min(outer - slab, max_slabs), min(channels - channel, max_channels)
                yield _Span(start, channel, ElementLayout(1, *sides, min(inner - offset, limit)))


def _norms_by_torch(t: Tensor, n: Order, dim: int, monitor: Monitor) -> Tensor:
    """Return the norms of a tensor that only torch can read, on its device."""
    norm_of_order(n)  # raises ValueError if there is none
    channels = t.movedim(dim, 0).to(wide_dtype(t.dtype)).reshape(t.shape[dim], -1)
    p = 2.0 if n == "fro" else float(n)
    norms: Tensor = torch.linalg.vector_norm(channels, p, dim=1)
    monitor.advance(t.nbytes)
    if has_values(t):
        powers = (norms.cpu().double() ** p).numpy()  # mps has no float64
        if norm_of_order(n).is_doubtful(powers, channels.shape[1], t.dtype).any():
            maxima = torch.linalg.vector_norm(channels, math.inf, dim=1)
            scales = maxima.where(maxima.isfinite() & (maxima > 0), 1.0)
            norms = torch.linalg.vector_norm(channels / scales[:, None], p, dim=1) * scales
    return norms


def _compute_norm(t: Tensor, n: Order, dim: int) -> Tensor:
    """Return `channel_norms`; torch has this function under this name."""
    return channel_norms(t, n, dim)


def _nuclear_norms(t: Tensor, dim: int, monitor: Monitor) -> Tensor:
    if t.dim() != 3:
        raise ValueError(
            f"n='nuc' needs a tensor of 3 dimensions, so that each channel is a matrix; this one "
            f"has {t.dim()}. Use n='fro' or a number."
        )
    norms = torch.full((t.shape[dim],), math.nan, dtype=wide_dtype(t.dtype), device=t.device)
    for channel, matrix in enumerate(t.unbind(dim)):
        wide = matrix.to(norms.dtype)
        if wide.isfinite().all():
            norms[channel] = torch.linalg.svdvals(wide).sum()
        monitor.advance(matrix.nbytes)
    return norms


def block_norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, row by row, with pruned elements as zeros."""
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
) -> Values:
    """Return the norms of a band of at most `per_band` rows of blocks, by row and column."""
    height, width, across = blocks.height, blocks.width, blocks.across
    last = min(first + per_band, blocks.down)
    start, stop = (row * height * blocks.columns for row in (first, last))
    rows = remaining_span(scores, remaining_mask, start, stop).view(-1, blocks.columns)
    band = rows[:, : across * width].reshape(-1, height, across, width)
    if n == "nuc":
        matrices = band.transpose(1, 2).reshape(-1, height, width).to(wide_dtype(scores.dtype))
        norms = _nuclear_norms_of(matrices).view(-1, across)
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


def _nuclear_norms_of(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each matrix; NaN if an element is non-finite."""
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
