"""What each norm needs to know of a channel, and how the compiled loops find it."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prune_gui.language import tr
from prune_gui.pruning.kernels import norms as kernels
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.pruning.selection.scores import wide_dtype

Order = float | Literal["fro", "nuc"]
Found = NDArray[np.float64]

_AS_THEY_ARE = frozenset({torch.float64, torch.float32, torch.bfloat16})
"""Types that the compiled loops read; others are widened before."""

_LONG: Final = 4 * kernels.LANES
"""From so many entries side by side on, a channel is added up by itself."""
_WIDE: Final = 1024
"""Up to so many lanes, short rows are read several at a time."""


class Layout(NamedTuple):
    """Entries in the order of memory: (batch, outer, channels, inner).

    Each batch has channels of its own; `outer` and `inner` are what a norm is taken over.
    """

    batch: int
    outer: int
    channels: int
    inner: int


class Norm(Protocol):
    """A norm taken apart, so that it can be found from pieces of any size."""

    @property
    def start(self) -> float:
        """What there is to find in no entries."""

    def look(self, entries: Tensor, layout: Layout) -> Found:
        """Return what is found of each channel.

        Args:
            entries: one dimension, contiguous, on the CPU, of any real type.
            layout: of the entries; none of its sides is 0.

        Returns:
            Shape (batch, channels).
        """

    def join(self, one: Found, other: Found) -> Found:
        """Return what is found of the same channels in two pieces as one."""

    def root(self, found: Found) -> Tensor:
        """Return the norms of whole channels, as float64."""


def norm_of_order(n: Order) -> Norm:
    """Return the norm of an order other than "nuc".

    Raises:
        ValueError: there is none.
    """
    if n == "fro":
        n = 2.0
    if isinstance(n, bool) or not isinstance(n, numbers.Real) or math.isnan(n):
        raise ValueError(tr("n={n!r} is not a norm; use a number, inf, -inf, 'fro' or 'nuc'.", n=n))
    p = float(n)
    if math.isinf(p):
        return _Extreme(least=p < 0)
    return _Powers(p)


@dataclass(frozen=True, slots=True)
class _Powers:
    """The sum of |x|^p; for p = 0 the number of non-zeros, of which there is no root."""

    p: float
    start: float = 0.0

    def look(self, entries: Tensor, layout: Layout) -> Found:
        what = _COMPILED.get(self.p)
        if what is None:
            what, entries = kernels.VALUES, _widened(entries).abs().pow_(self.p)
        elif entries.dtype not in _AS_THEY_ARE:
            entries = _widened(entries)
        bits = raw_bits(entries) if entries.dtype is torch.bfloat16 else entries.numpy()
        rows, inner, lanes = _arranged(layout)
        wide = np.float64 if entries.dtype is torch.float64 else np.float32
        sums = np.zeros((rows, layout.channels if inner == layout.inner else 1))
        kernels.add_powers(bits.reshape(rows, -1), what, inner, np.empty(lanes, wide), sums)
        found: Found = sums.reshape(layout.batch, -1, layout.channels).sum(1)
        return found

    def join(self, one: Found, other: Found) -> Found:
        return one + other

    def root(self, found: Found) -> Tensor:
        return torch.from_numpy(found).pow(1 / (self.p or 1))


@dataclass(frozen=True, slots=True)
class _Extreme:
    """The largest absolute value, or the least; NaN if there is one.

    It is the greatest of the keys of `kernels`, or of infinity's key less theirs, wrapping around:
    both ways NaN comes last, and 0 stands for no entries.
    """

    least: bool

    @property
    def start(self) -> float:
        return math.inf if self.least else 0.0

    def look(self, entries: Tensor, layout: Layout) -> Found:
        if entries.dtype not in _AS_THEY_ARE:
            entries = _widened(entries)
        bits = raw_bits(entries)
        as_key = bits.dtype.type
        flip = as_key(np.iinfo(bits.dtype).max if self.least else 0)
        infinity = raw_bits(torch.tensor([math.inf], dtype=entries.dtype))[0]
        base = infinity + as_key(1) if self.least else as_key(0)
        rows, inner, lanes = _arranged(layout)
        found = np.zeros((rows, layout.channels if inner == layout.inner else 1), bits.dtype)
        kernels.find_greatest(
            bits.reshape(rows, -1),
            as_key(np.iinfo(bits.dtype).max >> 1),
            flip,
            base,
            inner,
            np.empty(lanes, bits.dtype),
            found,
        )
        keys = (found.reshape(layout.batch, -1, layout.channels).max(1) - base) ^ flip
        values: Found = torch.from_numpy(keys).view(entries.dtype).double().numpy()
        return values

    def join(self, one: Found, other: Found) -> Found:
        joined: Found = (np.minimum if self.least else np.maximum)(one, other)
        return joined

    def root(self, found: Found) -> Tensor:
        return torch.from_numpy(found)


def _widened(entries: Tensor) -> Tensor:
    return entries.to(wide_dtype(entries.dtype))


def _arranged(layout: Layout) -> tuple[int, int, int]:
    """Return the rows for a compiled loop to go through, neighbours per channel, and lanes.

    Where a channel has many entries side by side, a row is a stretch of a single channel.
    """
    batch, outer, channels, inner = layout
    if inner >= _LONG:
        return batch * outer * channels, kernels.LANES, kernels.LANES
    across = channels * inner
    return batch, inner, across * max(1, min(outer, _WIDE // across))


_COMPILED: Final = {
    0.0: kernels.NON_ZEROS,
    0.5: kernels.ROOTS,
    1.0: kernels.VALUES,
    2.0: kernels.SQUARES,
    3.0: kernels.CUBES,
}
"""The powers that take no longer than to read the entries."""
