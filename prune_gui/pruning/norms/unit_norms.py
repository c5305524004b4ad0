"""The p-norm of each channel or block of a tensor, in one pass and without a copy of the tensor."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from prune_gui.language import tr
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.parallel import spread
from prune_gui.pruning.arrays import Flags, Numbers, Values
from prune_gui.pruning.kernels import norm_loops as kernels
from prune_gui.pruning.kernels import powers
from prune_gui.pruning.predicates import Blocks
from prune_gui.pruning.selection.keys import RemainingMask, raw_bits
from prune_gui.pruning.selection.scores import (
    Scores,
    TensorScores,
    has_values,
    is_on_cpu,
    wide_dtype,
)

Order = float | Literal["fro", "nuc"]
MIN_MEAN_POWER: Final = 2.0**16
"""Powers whose mean is at least this times the smallest normal number lose nothing that counts."""

_COMPILED_DTYPES = frozenset({torch.float64, torch.float32, torch.bfloat16})
"""Types that the compiled loops read; others are widened first."""

_MIN_ROW_ELEMENTS: Final = 4 * kernels.LANES
"""From this number of consecutive elements on, a channel is summed by itself."""
_MAX_LANES: Final = 1024
"""The limit of lanes where several short rows are read at once."""


class ElementLayout(NamedTuple):
    """The shape of elements in memory order; norms are taken over `outer` and `inner`."""

    batch: int
    outer: int
    channels: int
    inner: int


def power(n: Order) -> float:
    """Return an order other than "nuc" as a number."""
    return 2.0 if n == "fro" else float(n)


def norm_of_order(n: Order) -> Norm:
    """Return the norm of an order other than "nuc"."""
    if n != "fro" and (isinstance(n, bool) or not isinstance(n, numbers.Real) or math.isnan(n)):
        raise ValueError(tr("n={n!r} is not a norm; use a number, inf, -inf, 'fro' or 'nuc'.", n=n))
    p = power(n)
    return _Extreme(minimum=p < 0) if math.isinf(p) else _Powers(p)


@dataclass(frozen=True, slots=True)
class _Powers:
    """The p-th root of the sum of |x|^p; for p = 0 the number of non-zeros."""

    p: float
    initial: float = 0.0

    def accumulate(self, elements: Tensor, layout: ElementLayout) -> Numbers:
        power_kind = _COMPILED_POWERS.get(self.p)
        if power_kind is None:
            power_kind, elements = powers.VALUES, _widened(elements).abs().pow_(self.p)
        elif elements.dtype not in _COMPILED_DTYPES:
            elements = _widened(elements)
        bits = raw_bits(elements) if elements.dtype is torch.bfloat16 else elements.numpy()
        rows, inner, lanes = _row_plan(layout)
        lane_dtype = np.float64 if elements.dtype is torch.float64 else np.float32
        sums = np.zeros((rows, layout.channels if inner == layout.inner else 1))
        kernels.add_powers(
            bits.reshape(rows, -1), power_kind, inner, np.empty(lanes, lane_dtype), sums
        )
        partial: Numbers = sums.reshape(layout.batch, -1, layout.channels).sum(1)
        return partial

    def combine(self, one: Numbers, other: Numbers) -> Numbers:
        return one + other

    def finish(self, partial: Numbers) -> Tensor:
        return torch.from_numpy(partial).pow(1 / (self.p or 1))

    def is_doubtful(self, partial: Numbers, elements: int, dtype: torch.dtype) -> Flags:
        if 0 <= self.p <= 1:  # roots are neither, and sums of values are computed in float64
            return np.zeros(partial.shape, np.bool_)
        smallest = torch.finfo(wide_dtype(dtype)).tiny * MIN_MEAN_POWER
        doubtful: Flags = (partial < elements * smallest) | (partial == np.inf)
        return doubtful


@dataclass(frozen=True, slots=True)
class _Extreme:
    """The maximum absolute value, or the minimum; NaN if any element is NaN.

    It is the maximum of keys, see `kernels.key_loops`. For the minimum, each key is replaced by the
    key of infinity minus it, modulo the word size. NaN ranks highest, and 0 means no elements.
    """

    minimum: bool

    @property
    def initial(self) -> float:
        return math.inf if self.minimum else 0.0

    def accumulate(self, elements: Tensor, layout: ElementLayout) -> Numbers:
        if elements.dtype not in _COMPILED_DTYPES:
            elements = _widened(elements)
        bits = raw_bits(elements)
        as_key = bits.dtype.type
        flip = as_key(np.iinfo(bits.dtype).max if self.minimum else 0)
        infinity = raw_bits(torch.tensor([math.inf], dtype=elements.dtype))[0]
        base = infinity + as_key(1) if self.minimum else as_key(0)
        rows, inner, lanes = _row_plan(layout)
        maxima = np.zeros((rows, layout.channels if inner == layout.inner else 1), bits.dtype)
        kernels.find_maxima(
            bits.reshape(rows, -1),
            as_key(np.iinfo(bits.dtype).max >> 1),
            flip,
            base,
            inner,
            np.empty(lanes, bits.dtype),
            maxima,
        )
        keys = (maxima.reshape(layout.batch, -1, layout.channels).max(1) - base) ^ flip
        values: Numbers = torch.from_numpy(keys).view(elements.dtype).double().numpy()
        return values

    def combine(self, one: Numbers, other: Numbers) -> Numbers:
        combined: Numbers = (np.minimum if self.minimum else np.maximum)(one, other)
        return combined

    def finish(self, partial: Numbers) -> Tensor:
        return torch.from_numpy(partial)

    def is_doubtful(self, partial: Numbers, elements: int, dtype: torch.dtype) -> Flags:
        return np.zeros(partial.shape, np.bool_)


Norm = _Powers | _Extreme
"""A norm that is computed from spans of any size.

`accumulate` returns the partial result of each channel, of shape (batch, channels), `combine` joins
those of two spans, and `finish` makes norms of them, as float64. `is_doubtful` tells which may be
inexact, because powers are too small or too large.
"""


def _widened(elements: Tensor) -> Tensor:
    return elements.to(wide_dtype(elements.dtype))


def _row_plan(layout: ElementLayout) -> tuple[int, int, int]:
    """Return the number of rows of a compiled loop, the elements per channel run, and the lanes."""
    batch, outer, channels, inner = layout
    if inner >= _MIN_ROW_ELEMENTS:
        return batch * outer * channels, kernels.LANES, kernels.LANES
    across = channels * inner
    return batch, inner, across * max(1, min(outer, _MAX_LANES // across))


_COMPILED_POWERS: Final = {
    0.0: powers.NON_ZEROS,
    0.5: powers.ROOTS,
    1.0: powers.VALUES,
    2.0: powers.SQUARES,
    3.0: powers.CUBES,
}
"""Powers that are computed as fast as the elements are read from memory."""


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
    if type(t) is not Tensor or not is_on_cpu(t.device):
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
    shape = scores.shape
    outer, channels, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    units = _Units(scores, remaining_mask, list(_spans(outer, channels, inner)), channels)
    if (
        remaining_mask is None
        and outer == 1
        and channels
        and inner >= MIN_TORCH_ROW_ELEMENTS
        and n in (2, "fro")
        and scores.dtype in (torch.float32, torch.float64)
    ):
        norms = _row_norms(scores, channels, inner, monitor)
        return units.checked(norms, norms.double().square().numpy(), n)
    return units.norms(n, monitor)


class _Span(NamedTuple):
    """A range of flat indices, and the layout of its elements that belong to units."""

    start: int
    stop: int
    unit: int
    layout: ElementLayout

    @property
    def units(self) -> slice:
        return slice(self.unit, self.unit + self.layout.batch * self.layout.channels)


@dataclass(frozen=True, slots=True)
class _Units:
    """Channels or blocks, whose norms are combined from spans in order."""

    scores: Scores
    remaining_mask: RemainingMask | None
    spans: Sequence[_Span]
    count: int

    def norms(self, n: Order, monitor: Monitor) -> Tensor:
        norm = norm_of_order(n)
        partials = np.full(self.count, norm.initial)
        accumulate = partial(_accumulate, self.scores, self.remaining_mask, norm)
        for span, own in zip(self.spans, spread(accumulate, self.spans, monitor), strict=True):
            partials[span.units] = norm.combine(partials[span.units], own)
        return self.checked(norm.finish(partials), partials, n)

    def checked(self, norms: Tensor, partials: Numbers, n: Order) -> Tensor:
        """Return norms; those that may be inexact are computed again, relative to the maximum."""
        dtype = self.scores.dtype
        elements = sum(math.prod(span.layout) for span in self.spans) // max(self.count, 1)
        doubtful = norm_of_order(n).is_doubtful(partials, elements, dtype)
        if doubtful.any():
            maxima = self.norms(math.inf, Monitor()).double().numpy()
            doubtful = doubtful & (maxima > 0) & np.isfinite(maxima)
        if doubtful.any():
            scales, sums = np.where(doubtful, maxima, 1.0), np.zeros(self.count)
            add = partial(_scaled_powers, self.scores, self.remaining_mask, power(n), scales)
            for span, own in zip(self.spans, spread(add, self.spans, Monitor()), strict=True):
                sums[span.units] += own
            exact = torch.from_numpy(scales) * torch.from_numpy(sums).pow(1 / power(n))
            norms = exact.where(torch.from_numpy(doubtful), norms.double())
        return norms.to(wide_dtype(dtype))


def _read(scores: Scores, remaining_mask: RemainingMask | None, span: _Span) -> Tensor:
    part = remaining_span(scores, remaining_mask, span.start, span.stop)
    batch, outer, channels, inner = span.layout
    return part.view(batch * outer, -1)[:, : channels * inner].reshape(-1)


def _accumulate(
    scores: Scores, remaining_mask: RemainingMask | None, norm: Norm, span: _Span, monitor: Monitor
) -> Numbers:
    own = norm.accumulate(_read(scores, remaining_mask, span), span.layout)
    monitor.advance((span.stop - span.start) * scores.nbytes // math.prod(scores.shape))
    return own.reshape(-1)


def _scaled_powers(
    scores: Scores,
    remaining_mask: RemainingMask | None,
    p: float,
    scales: Numbers,
    span: _Span,
    _monitor: Monitor,
) -> Numbers:
    """Return the sums of |x / scale|^p in float64, which are always exact enough."""
    check_cancelled()
    elements = _read(scores, remaining_mask, span).view(span.layout).double().abs()
    own = torch.from_numpy(scales[span.units]).view(span.layout.batch, 1, -1, 1)
    sums: Numbers = elements.div_(own).pow_(p).sum((1, 3)).view(-1).numpy()
    return sums


def _row_norms(scores: Scores, channels: int, inner: int, monitor: Monitor) -> Tensor:
    """Return the 2-norms of long rows by torch: as fast as memory, in the type of the elements."""
    norms, rows_per_call = [], max(1, MAX_TORCH_ELEMENTS // inner)
    for first in range(0, channels, rows_per_call):
        last = min(first + rows_per_call, channels)
        rows = scores.part(first * inner, last * inner).view(-1, inner)
        norms.append(torch.linalg.vector_norm(rows, 2, dim=1))
        monitor.advance(rows.nbytes)
    return torch.cat(norms)


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
                layout = ElementLayout(1, *sides, min(inner - offset, limit))
                yield _Span(start, start + math.prod(layout), channel, layout)


def _norms_by_torch(t: Tensor, n: Order, dim: int, monitor: Monitor) -> Tensor:
    """Return norms of a tensor on any device, from which one flag is read back at most."""
    norm_of_order(n)
    p, dtype, channel = power(n), wide_dtype(t.dtype), range(t.dim())[dim]
    t = (t.to(dtype) if t.itemsize == 1 else t).unsqueeze(-1)
    others = [other for other in range(t.dim()) if other != channel]
    norms: Tensor = torch.linalg.vector_norm(t, p, others, dtype=dtype)
    monitor.advance(t.nbytes)
    if 0 <= p <= 1 or math.isinf(p) or not has_values(t) or not t.numel():
        return norms
    low = (t.numel() / len(norms) * torch.finfo(dtype).tiny * MIN_MEAN_POWER) ** (1 / p)
    if p > 0:  # NaN too, which stays NaN
        doubtful = norms.clamp(low, torch.finfo(dtype).max) != norms
    else:
        doubtful = (norms > low) | (norms == 0)
    if doubtful.any():
        maxima = torch.linalg.vector_norm(t, math.inf, others, keepdim=True, dtype=dtype)
        scales = maxima.where(maxima.isfinite() & (maxima > 0), 1.0)
        scaled = torch.linalg.vector_norm(t / scales, p, others, dtype=dtype) * scales.view(-1)
        norms = scaled.where(doubtful, norms)
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
    norms = [torch.empty(0, dtype=wide_dtype(t.dtype), device=t.device)]
    for matrix in t.unbind(dim):
        norms.append(_nuclear_norms_of(matrix[None].to(wide_dtype(t.dtype))))
        monitor.advance(matrix.nbytes)
    return torch.cat(norms)


def block_norms(
    scores: Scores, remaining_mask: RemainingMask | None, n: Order, blocks: Blocks, monitor: Monitor
) -> Tensor:
    """Return the norm of each block, row by row, with pruned elements as zeros."""
    monitor.expect(scores.nbytes)
    spans = list(_bands(blocks))
    if n != "nuc":
        units = _Units(scores, remaining_mask, spans, blocks.down * blocks.across)
        return units.norms(n, monitor)
    norms = torch.empty(blocks.down * blocks.across, dtype=wide_dtype(scores.dtype))
    compute = partial(_nuclear_norms_in, scores, remaining_mask)
    for span, own in zip(spans, spread(compute, spans, monitor), strict=True):
        norms[span.units] = torch.from_numpy(own)
    return norms


def _bands(blocks: Blocks) -> Iterator[_Span]:
    row, across = blocks.height * blocks.columns, blocks.across
    per_band = max(1, MIN_SPAN_ELEMENTS // row)
    for first in range(0, blocks.down if across else 0, per_band):
        last = min(first + per_band, blocks.down)
        layout = ElementLayout(last - first, blocks.height, across, blocks.width)
        yield _Span(first * row, last * row, first * across, layout)


def _nuclear_norms_in(
    scores: Scores, remaining_mask: RemainingMask | None, span: _Span, monitor: Monitor
) -> Values:
    _, height, _, width = span.layout
    elements = _read(scores, remaining_mask, span).view(span.layout)
    matrices = elements.transpose(1, 2).reshape(-1, height, width).to(wide_dtype(scores.dtype))
    monitor.advance((span.stop - span.start) * scores.nbytes // math.prod(scores.shape))
    norms: Values = _nuclear_norms_of(matrices).numpy()
    return norms


def _nuclear_norms_of(matrices: Tensor) -> Tensor:
    """Return the sum of the singular values of each matrix; NaN if an element is non-finite."""
    finite = matrices.isfinite().all(2).all(1)
    values: Tensor = torch.linalg.svdvals(matrices.where(finite[:, None, None], 0.0))
    return values.sum(1).where(finite, torch.nan)
