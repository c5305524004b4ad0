"""Comparison of the elements of two tensors of the same shape, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Final

import numpy as np
import torch

from prune_gui.pruning.arrays import Bits, Flags, Values
from prune_gui.pruning.kernels.loop import compiled
from prune_gui.pruning.selection.keys import ranking_dtype, raw_bits
from prune_gui.pruning.selection.scores import Scores
from prune_gui.statistics.pattern_scan import GROUP_LENGTHS, fewest_in_groups
from prune_gui.statistics.weight_values import of_bits

FLOATS: Final = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn}
    | {torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}
)
"""Dtypes whose zeros are counted and whose differences are measured."""
SMALL_INTEGERS: Final = frozenset(
    {torch.bool, torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32}
)


@dataclass(frozen=True, slots=True)
class Zeros:
    """The numbers of zeros (+0 and -0) of two floating point tensors, and of common ones.

    Attributes:
        fewest_a: for each of `GROUP_LENGTHS`, the minimum number of zeros in a group of that many
            consecutive elements of the first; elements after the last whole group do not count.
    """

    a: int = 0
    b: int = 0
    both: int = 0
    fewest_a: tuple[int, ...] = GROUP_LENGTHS
    fewest_b: tuple[int, ...] = GROUP_LENGTHS

    def __add__(self, other: Zeros) -> Zeros:
        return Zeros(
            self.a + other.a,
            self.b + other.b,
            self.both + other.both,
            tuple(map(min, self.fewest_a, other.fewest_a)),
            tuple(map(min, self.fewest_b, other.fewest_b)),
        )

    @property
    def gained(self) -> int:
        """The number of elements that are zero only in the second."""
        return self.b - self.both

    @property
    def lost(self) -> int:
        """The number of elements that are zero only in the first."""
        return self.a - self.both

    @property
    def iou(self) -> float:
        """Intersection over union of the zeros; 1.0 if there are none."""
        either = self.a + self.b - self.both
        return self.both / either if either else 1.0


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """The comparison of the elements of two tensors.

    Attributes:
        differing: number of elements with different bits; if the dtypes differ, after both are
            widened to a dtype that represents both exactly.
        same_number: of those, the number that are the same number: +0 and -0, or two NaNs.
        non_finite: of the others, the number that are infinite or NaN in one tensor or both.
        largest: maximum of |b - a| where both are finite, in float64; None unless both tensors are
            floating point.
    """

    differing: int = 0
    same_number: int = 0
    non_finite: int = 0
    largest: float | None = None
    zeros: Zeros | None = None

    def __add__(self, other: TensorDiff) -> TensorDiff:
        zeros = [one.zeros for one in (self, other) if one.zeros is not None]
        largest = [one.largest for one in (self, other) if one.largest is not None]
        return TensorDiff(
            self.differing + other.differing,
            self.same_number + other.same_number,
            self.non_finite + other.non_finite,
            max(largest, default=None),
            reduce(add, zeros) if zeros else None,
        )


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two tensors.

    Attributes:
        mask: boolean, False where an element counts as +0; None if there is no mask.
    """

    entries: Scores
    mask: torch.Tensor | None = None

    def bits(self, start: int, stop: int, dtype: torch.dtype) -> Bits:
        """Return the raw bits of the flat indices [start, stop), widened to `dtype`.

        An element of 16 bytes is returned as two integers.
        """
        chunk = self.entries.part(start, stop).to(dtype)
        if dtype.itemsize > 8:
            chunk = chunk.view(torch.int64)
        bits = raw_bits(chunk)
        if self.mask is None:
            return bits
        kept = self.mask.reshape(-1)[start:stop].numpy()
        masked: Bits = bits.reshape(len(kept), -1) * kept[:, None]
        return masked.reshape(-1)


def common_dtype(a: torch.dtype, b: torch.dtype) -> torch.dtype | None:
    """Return a dtype that represents the values of both exactly; None if there is none."""
    if a in FLOATS and b in FLOATS:
        return ranking_dtype({a, b})
    if a == b:
        return a
    integers = {*SMALL_INTEGERS, torch.int64}
    if a in integers and b in integers:
        return torch.int64
    exact = {*SMALL_INTEGERS, *FLOATS}
    return torch.float64 if a in exact and b in exact else None


def diff_tensors(a: Side, b: Side, dtype: torch.dtype, span: tuple[int, int]) -> TensorDiff:
    """Compare a span of two tensors in a `common_dtype`; its start is a multiple of 8."""
    bits_a, bits_b = a.bits(*span, dtype), b.bits(*span, dtype)
    elements = span[1] - span[0]
    differ = (bits_a != bits_b).reshape(elements, -1)
    differing = int(np.count_nonzero(differ.any(1) if differ.shape[1] > 1 else differ))
    if not {a.entries.dtype, b.entries.dtype} <= FLOATS:
        return TensorDiff(differing)
    zeros = _zeros(bits_a, bits_b, same=differing == 0)
    if differing == 0:
        return TensorDiff(largest=0.0, zeros=zeros)
    numbers = _numbers(bits_a, dtype), _numbers(bits_b, dtype)
    return TensorDiff(differing, *_measure(differ.reshape(-1), *numbers), zeros)


@compiled
def _measure(differ: Flags, before: Values, after: Values) -> tuple[int, int, float]:
    """Return `TensorDiff.same_number`, `non_finite` and `largest`; `differ`: where bits do."""
    same_number, non_finite, largest = 0, 0, 0.0
    for i in range(differ.size):
        x, y = np.float64(before[i]), np.float64(after[i])
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        finite = np.isfinite(x) & np.isfinite(y)
        same_number += differ[i] & same
        non_finite += differ[i] & ~same & ~finite
        largest = max(largest, abs(y - x) if finite else 0.0)
    return same_number, non_finite, largest


def _numbers(bits: Bits, dtype: torch.dtype) -> Values:
    if bits.itemsize > 2:
        numbers: Values = bits.view(f"f{bits.itemsize}")
        return numbers
    return _every_number(dtype)[bits]


@lru_cache(8)
def _every_number(dtype: torch.dtype) -> Values:
    """Return the number of every bit pattern of an 8 or 16 bit dtype."""
    width = dtype.itemsize
    return of_bits(np.arange(1 << (8 * width), dtype=f"u{width}"), dtype)


def _zeros(bits_a: Bits, bits_b: Bits, *, same: bool) -> Zeros:
    zero_a = _are_zero(bits_a)
    zero_b = zero_a if same else _are_zero(bits_b)
    fewest_a = fewest_in_groups(zero_a)
    return Zeros(
        int(np.count_nonzero(zero_a)),
        int(np.count_nonzero(zero_b)),
        int(np.count_nonzero(zero_a if same else zero_a & zero_b)),
        fewest_a,
        fewest_a if same else fewest_in_groups(zero_b),
    )


def _are_zero(bits: Bits) -> Flags:
    without_sign = bits.dtype.type((1 << (8 * bits.itemsize - 1)) - 1)
    zero: Flags = bits & without_sign == 0
    return zero
