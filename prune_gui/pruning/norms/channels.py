"""The p-norm of each channel of a tensor, in one pass and without a copy of the tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from prune_gui.language import tr
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor
from prune_gui.pruning.norms.orders import Found, Layout, Order, norm_of_order
from prune_gui.pruning.parallel import run
from prune_gui.pruning.selection.keys import RemainingMask, raw_bits
from prune_gui.pruning.selection.scores import Scores, TensorScores, wide_dtype

LONG: Final = 256
"""Entries of a channel side by side from which on torch adds them up as fast as memory gives them.
"""
ROWS_OF: Final = 1 << 26
"""Entries that torch is given at once."""
PIECE: Final = 1 << 21
PIECES: Final = 8
"""Entries looked at together, at least; more, but no more than `PIECES` times as many, if there are
more than so many pieces, each of which costs time. Sums are rounded the same whatever
`parallel.CHUNK` is.
"""


def channel_norms(t: Tensor, n: Order, dim: int, *, monitor: Monitor | None = None) -> Tensor:
    """Return the norm of each channel along `dim`, over all other dimensions.

    Entries are widened to float32 piece by piece, so half-precision norms neither overflow nor
    collapse onto a few values. NaN in a channel makes its norm NaN (for n = 0 it counts as 1).

    Args:
        t: real, any dtype, any strides; `C` channels along `dim`.
        n: the order p of the norm: any number; 0 counts non-zeros; inf and -inf take the largest
            and the smallest absolute value; "fro" is the 2-norm; "nuc", the sum of the singular
            values, is defined where a channel is a matrix.
        dim: may be negative.
        monitor: told of the bytes read.

    Returns:
        Shape `(C,)`, float32; float64 if `t` is.

    Raises:
        ValueError: there is no such norm for this tensor.
        IndexError: `t` has no dimension `dim`.
        Cancelled: the monitor said so.
    """
    t, monitor = t.detach(), monitor or Monitor()
    monitor.expect(t.nbytes)
    if n == "nuc":
        return _nuclear_norms(t, dim, monitor)
    if type(t) is not Tensor or t.device.type != "cpu":
        return _norms_elsewhere(t, n, dim, monitor)
    dim = range(t.dim())[dim]
    by_stride = sorted(range(t.dim()), key=t.stride, reverse=True)
    in_order = t.permute(by_stride).contiguous()  # a copy if there are gaps in its memory
    return _norms(TensorScores.of(in_order), None, n, by_stride.index(dim), monitor)


def score_norms(
    scores: Scores,
    remaining_mask: RemainingMask | None,
    n: Order,
    dim: int,
    *,
    monitor: Monitor | None = None,
) -> Tensor:
    """Return `channel_norms` of scores, with zeros where an entry is gone.

    Args:
        scores: of two dimensions or more; read piece by piece, never whole but for "nuc".
        remaining_mask: where entries are still there; None if all are.
        n: as of `channel_norms`.
        dim: in [0, number of dimensions).
        monitor: told of the bytes read.

    Raises:
        ValueError: there is no such norm for this shape, or no memory for it.
        Cancelled: the monitor said so.
    """
    monitor = monitor or Monitor()
    if n == "nuc":
        lack = shortage(scores.nbytes) if remaining_mask is not None else None
        if lack is not None:
            raise ValueError(tr("n='nuc' after other steps takes {lack}. Use n='fro'.", lack=lack))
        whole = remaining_part(scores, remaining_mask, 0, math.prod(scores.shape))
        return channel_norms(whole.view(scores.shape), n, dim, monitor=monitor)
    monitor.expect(scores.nbytes)
    return _norms(scores, remaining_mask, n, dim, monitor)


def remaining_part(
    scores: Scores, remaining_mask: RemainingMask | None, start: int, stop: int
) -> Tensor:
    """Return the flat scores [start, stop), with zeros where an entry is gone."""
    part = scores.part(start, stop)
    if remaining_mask is None:
        return part
    left = torch.empty_like(part)
    np.multiply(raw_bits(part), remaining_mask(start, stop), out=raw_bits(left))
    return left


def _norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, dim: int, monitor: Monitor
) -> Tensor:
    """Return the norms of the channels of scores, from pieces that are joined in order."""
    norm, shape = norm_of_order(n), scores.shape
    outer, channels, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    if remaining_mask is None and outer == 1 and channels and inner >= LONG and n in (2, "fro"):
        plain = _row_norms(scores, channels, inner, monitor)
        if plain is not None:
            return plain

    def look(piece: _Span) -> tuple[slice, Found]:
        stop = piece.start + math.prod(piece.layout)
        part = remaining_part(scores, remaining_mask, piece.start, stop)
        found = norm.look(part, piece.layout)[0]
        monitor.advance((stop - piece.start) * scores.nbytes // math.prod(shape))
        return slice(piece.channel, piece.channel + len(found)), found

    norms = np.full(channels, norm.start)
    for where, found in run(look, _spans(outer, channels, inner)):
        norms[where] = norm.join(norms[where], found)
    return norm.root(norms).to(wide_dtype(scores.dtype))


def _row_norms(scores: Scores, channels: int, inner: int, monitor: Monitor) -> Tensor | None:
    """Return the 2-norms of rows, where torch is as fast as memory and as exact as is needed.

    None if it is not: it squares in the type of the entries, which float32 alone (and float64)
    stands, if no sum overflows.
    """
    if scores.dtype not in (torch.float32, torch.float64):
        return None
    norms, together = [], max(1, ROWS_OF // inner)
    for first in range(0, channels, together):
        last = min(first + together, channels)
        rows = scores.part(first * inner, last * inner).view(-1, inner)
        norms.append(torch.linalg.vector_norm(rows, 2, dim=1))
        if bool(norms[-1].isinf().any()):
            return None
        monitor.advance(rows.nbytes)
    return torch.cat(norms)


class _Span(NamedTuple):
    """Some entries of a tensor: the flat index of the first, its channel, and their layout."""

    start: int
    channel: int
    layout: Layout


def _spans(outer: int, channels: int, inner: int) -> Iterator[_Span]:
    """Cut entries of shape (outer, channels, inner), in this order, into few pieces."""
    size = outer * channels * inner
    if size == 0:
        return
    most = min(max(PIECE, -(-size // PIECES)), PIECE * PIECES)
    slabs, many = max(1, most // (channels * inner)), max(1, most // inner)
    for slab in range(0, outer, slabs):
        for channel in range(0, channels, many):
            for place in range(0, inner, most):
                start = (slab * channels + channel) * inner + place
                sides = min(outer - slab, slabs), min(channels - channel, many)
                yield _Span(start, channel, Layout(1, *sides, min(inner - place, most)))


def _norms_elsewhere(t: Tensor, n: Order, dim: int, monitor: Monitor) -> Tensor:
    """Return the norms of a tensor that only torch can read, on its device."""
    norm_of_order(n)  # raises what it should
    channels = t.movedim(dim, 0).to(wide_dtype(t.dtype)).reshape(t.shape[dim], -1)
    norms: Tensor = torch.linalg.vector_norm(channels, 2 if n == "fro" else n, dim=1)
    monitor.advance(t.nbytes)
    return norms


def _compute_norm(t: Tensor, n: Order, dim: int) -> Tensor:
    """Return `channel_norms`, under torch's name for it."""
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
