"""The p-norm of each channel of a tensor, in one pass and without a copy of the tensor."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from prune_gui.monitor import Monitor
from prune_gui.pruning.keys import Alive
from prune_gui.pruning.sources import Scores, wide_dtype

Order = float | Literal["fro", "nuc"]

PIECE = 1 << 20
"""Entries looked at together: as float32 they fit a processor's cache."""


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
    return _norms(t.shape[dim], n, [(0, t)], dim, monitor).to(t.device)


def score_norms(
    scores: Scores, alive: Alive | None, n: Order, dim: int, *, monitor: Monitor | None = None
) -> Tensor:
    """Return `channel_norms` of scores, with zeros where an entry is gone.

    Args:
        scores: of two dimensions or more; read slab by slab, never whole but for "nuc".
        alive: where entries are still there; None if all are.
        n: as of `channel_norms`.
        dim: in [0, number of dimensions).
        monitor: told of the bytes read.

    Raises:
        ValueError: there is no such norm for this shape.
        Cancelled: the monitor said so.
    """
    monitor = monitor or Monitor()
    shape, size = scores.shape, math.prod(scores.shape)

    def slab(start: int, stop: int) -> Tensor:
        part = scores.part(start, stop)
        if alive is not None:
            gone = torch.from_numpy(~alive(start, stop))
            part = part.to(wide_dtype(part.dtype)).masked_fill(gone, 0.0)
        return part.view(-1, *shape[1:])

    if n == "nuc":
        return channel_norms(slab(0, size), n, dim, monitor=monitor)
    monitor.expect(scores.nbytes)
    per_row = math.prod(shape[1:])
    stride = max(1, PIECE // max(per_row, 1)) * per_row
    slabs = (
        (start // per_row if dim == 0 else 0, slab(start, min(start + stride, size)))
        for start in range(0, size, max(stride, 1))
    )
    return _norms(shape[dim], n, slabs, dim, monitor)


def _norms(
    channels: int, n: Order, slabs: Iterable[tuple[int, Tensor]], dim: int, monitor: Monitor
) -> Tensor:
    """Return the norms of channels, given slabs of the tensor and the first channel of each."""
    norm = _norm_of_order(n)
    found = torch.full((channels,), norm.start, dtype=torch.float64)
    dtype = torch.float32
    for first, t in slabs:
        dtype = wide_dtype(t.dtype)
        _add_slab(norm, found[first : first + t.shape[dim]], t, dim, monitor)
    return norm.root(found).to(dtype)


def _add_slab(norm: _Norm, found: Tensor, t: Tensor, dim: int, monitor: Monitor) -> None:
    scratch = torch.empty(min(PIECE, t.numel()), dtype=wide_dtype(t.dtype), device=t.device)
    for channel, piece in _pieces(t, dim):
        if norm.overwrites or piece.dtype != scratch.dtype:
            wide = scratch[: piece.numel()].view(piece.shape).copy_(piece)
        else:
            wide = piece
        part = norm.reduce(wide).cpu()
        so_far = found[channel : channel + len(part)]
        so_far.copy_(norm.combine(so_far, part))
        monitor.advance(piece.nbytes)


def _compute_norm(t: Tensor, n: Order, dim: int) -> Tensor:
    """Return `channel_norms`, under torch's name for it."""
    return channel_norms(t, n, dim)


@dataclass(frozen=True, slots=True)
class _Norm:
    """A norm taken apart, so that it can be computed from pieces of any size.

    Attributes:
        reduce: from a piece (outer, channels, inner) to one number per channel.
        overwrites: whether `reduce` does so with its piece, to save memory.
        combine: joins the numbers of two pieces of the same channels.
        root: from the numbers of whole channels to their norms.
        start: the number of no entries at all.
    """

    reduce: Callable[[Tensor], Tensor]
    overwrites: bool = True
    combine: Callable[[Tensor, Tensor], Tensor] = torch.add
    root: Callable[[Tensor], Tensor] = torch.positive
    start: float = 0.0


def _norm_of_order(n: Order) -> _Norm:
    if n == "fro":
        n = 2.0
    if isinstance(n, bool) or not isinstance(n, numbers.Real) or math.isnan(n):
        raise ValueError(f"n={n!r} is not a norm; use a number, inf, -inf, 'fro' or 'nuc'.")
    p, others = float(n), (0, 2)
    if p == math.inf:
        return _Norm(lambda x: x.abs_().amax(others), combine=torch.maximum)
    if p == -math.inf:
        return _Norm(lambda x: x.abs_().amin(others), combine=torch.minimum, start=math.inf)
    if p == 0:
        return _Norm(lambda x: x.ne_(0).sum(others))
    if p == 1:
        return _Norm(lambda x: x.abs_().sum(others))
    if p == 2:
        return _Norm(_sum_of_squares, overwrites=False, root=torch.sqrt)
    return _Norm(lambda x: x.abs_().pow_(p).sum(others), root=lambda x: x.pow(1 / p))


def _sum_of_squares(x: Tensor) -> Tensor:
    if x.shape[2] < 64:
        return x.square().sum((0, 2))
    # Where a channel's entries lie side by side this is the fastest pass there is.
    norms: Tensor = torch.linalg.vector_norm(x, 2, dim=2)
    return norms.double().square().sum(0)


def _pieces(t: Tensor, dim: int) -> Iterator[tuple[int, Tensor]]:
    """Cut `t` into pieces of shape (outer, channels, inner) in the order of its memory.

    Yields:
        The first channel of the piece, and a view of at most `PIECE` entries; a copy is made only
        of a tensor whose memory has gaps.
    """
    if t.numel() == 0:
        return
    by_stride = sorted(range(t.dim()), key=t.stride, reverse=True)
    place = by_stride.index(dim % t.dim())
    in_order = t.permute(by_stride)
    channels, inner = in_order.shape[place], math.prod(in_order.shape[place + 1 :])
    per_piece = max(1, PIECE // inner)
    for slab in torch.split(
        in_order.reshape(-1, channels, inner), max(1, PIECE // (channels * inner))
    ):
        for first in range(0, channels, per_piece):
            for piece in torch.split(slab[:, first : first + per_piece], PIECE, dim=2):
                yield first, piece


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
