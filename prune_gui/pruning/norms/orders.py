"""The norms of each order, computed from partial results of the compiled loops."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from prune_gui.language import tr
from prune_gui.pruning.arrays import Flags, Numbers
from prune_gui.pruning.kernels import norm_loops as kernels
from prune_gui.pruning.kernels import powers
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.pruning.selection.scores import wide_dtype

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
    """The shape of elements in memory order: (batch, outer, channels, inner).

    Each batch has channels of its own; a norm is taken over `outer` and `inner`.
    """

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
