"""What an unstructured step ranks: one unsigned integer per entry, any stretch of it on demand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.selection.scores import Scores, flat_together

Bits = NDArray[np.unsignedinteger[Any]]
RemainingMask = Callable[[int, int], NDArray[np.bool_]]
"""From flat indices [start, stop) to a boolean array, False where already pruned."""

_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}

# Types whose bits, without the sign, order as |value| does. Others are widened to float32 first.
_ORDERED = frozenset(
    {
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    }
)


class KeySource(Protocol):
    """One key per entry of a tensor, in row-major order: ``bits(...) & magnitude``."""

    @property
    def size(self) -> int:
        """Number of entries."""

    @property
    def width(self) -> int:
        """Bytes per key: 1, 2, 4 or 8."""

    @property
    def magnitude(self) -> int:
        """Which of the bits make the key."""

    @property
    def first_non_finite(self) -> int | None:
        """The least key that stands for infinity or NaN; None if every key is a plain number."""

    @property
    def first_nan(self) -> int | None:
        """The least key that stands for NaN, if there are several."""

    def bits(self, start: int, stop: int) -> Bits:
        """Return the raw bits of the flat entries [start, stop)."""

    def value(self, key: int) -> float:
        """Return the number that a key stands for."""


def ranking_dtype(dtypes: set[torch.dtype]) -> torch.dtype:
    """Return the narrowest type in which values of all `dtypes` compare exactly."""
    if len(dtypes) == 1 and dtypes <= _ORDERED:
        return next(iter(dtypes))
    return torch.float64 if torch.float64 in dtypes else torch.float32


def raw_bits(tensor: torch.Tensor) -> Bits:
    """Return a contiguous CPU tensor's memory as unsigned integers of the same width; no copy."""
    width = tensor.element_size()
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    bits: Bits = tensor.view(signed).numpy().view(_UNSIGNED[width])
    return bits


def _without_sign(dtype: torch.dtype) -> int:
    return (1 << (8 * dtype.itemsize - 1)) - 1


@cache
def _first_non_finite(dtype: torch.dtype) -> int:
    odd = float("nan") if dtype is torch.float8_e4m3fn else float("inf")
    return int(raw_bits(torch.tensor([odd], dtype=dtype))[0]) & _without_sign(dtype)


@dataclass(frozen=True)
class ScoreKeys:
    """Ranks entries by the absolute value of their scores.

    Attributes:
        scores: of a type that can be ranked, see `ranking_dtype`.
        dtype: the type in which they are compared.
    """

    scores: Scores
    dtype: torch.dtype

    @classmethod
    def of(cls, scores: Scores) -> ScoreKeys:
        """Return keys that compare these scores among themselves alone."""
        return cls(scores, ranking_dtype({scores.dtype}))

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.scores.shape)

    @property
    def width(self) -> int:
        """Bytes per key."""
        return self.dtype.itemsize

    @property
    def magnitude(self) -> int:
        """All bits but the sign."""
        return _without_sign(self.dtype)

    @property
    def first_non_finite(self) -> int:
        """The bits of infinity, or of NaN where the type has no infinity."""
        return _first_non_finite(self.dtype)

    @property
    def first_nan(self) -> int | None:
        """The bits that follow those of infinity; None where the type has a single NaN."""
        last = self.first_non_finite
        return None if self.dtype is torch.float8_e4m3fn else last + 1

    def bits(self, start: int, stop: int) -> Bits:
        """Return the raw bits of the flat entries [start, stop)."""
        return raw_bits(self.scores.part(start, stop).to(self.dtype))

    def first_key(self, value: float) -> int:
        """Return the least key whose number is `value`, which has no sign, or more.

        It is `first_non_finite` if no finite number is.
        """
        nearest = torch.tensor([value], dtype=torch.float64).to(self.dtype)
        key = int(raw_bits(nearest)[0]) & self.magnitude
        return key + 1 if self.value(key) < value else key

    def value(self, key: int) -> float:
        """Return the absolute value that a key stands for."""
        number = torch.zeros(1, dtype=self.dtype)
        raw_bits(number)[0] = key
        return float(number)


@dataclass(frozen=True)
class RandomKeys:
    """Ranks entries at random: a key is a hash of the seed, a label and the flat index.

    Equal keys are cut at the lowest index, so the chance of an entry depends on its place by at
    most 2^-32.

    Attributes:
        seed: any integer.
        label: what tells this tensor from others under the same seed: its name.
        size: number of entries.
    """

    seed: int
    label: str
    size: int
    width: int = 4
    magnitude: int = 0xFFFFFFFF
    first_non_finite: int | None = None
    first_nan: int | None = None

    @property
    def stream(self) -> np.uint64:
        """Where in the generator's space this seed and label begin."""
        name = f"{self.seed}\0{self.label}".encode()
        return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))

    def bits(self, start: int, stop: int) -> Bits:
        """Return 32 random bits for each of the flat entries [start, stop)."""
        out = np.empty(stop - start, np.uint32)
        key_kernels.fill_random_bits(self.stream, np.uint64(start), out)
        return out

    def value(self, key: int) -> float:
        """Return the key as a draw in [0, 1)."""
        return key / (self.magnitude + 1)


def are_alike(one: KeySource, other: KeySource) -> bool:
    """Tell whether a key stands for the same in both, so that they can be laid end to end."""
    if isinstance(one, ScoreKeys) and isinstance(other, ScoreKeys):
        return one.dtype == other.dtype
    return isinstance(one, RandomKeys) and isinstance(other, RandomKeys)


def bits_together(every: Sequence[KeySource]) -> Bits:
    """Return the raw bits of all entries of some tensors that are alike, one after the other."""
    scores = [keys.scores for keys in every if isinstance(keys, ScoreKeys)]
    if len(scores) == len(every):
        [dtype] = {keys.dtype for keys in every if isinstance(keys, ScoreKeys)}
        parts = [raw_bits(part.to(dtype)) for part in flat_together(scores)]
    else:
        parts = [keys.bits(0, keys.size) for keys in every]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class _OneNaN:
    """Other keys, with one key for all NaNs, whatever else their bits say."""

    keys: KeySource
    first_nan: int

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.keys.size

    @property
    def width(self) -> int:
        """Bytes per key."""
        return self.keys.width

    @property
    def magnitude(self) -> int:
        """Which of the bits make the key."""
        return self.keys.magnitude

    @property
    def first_non_finite(self) -> int | None:
        """The least key that stands for infinity or NaN."""
        return self.keys.first_non_finite

    def bits(self, start: int, stop: int) -> Bits:
        """Return the keys of the flat entries [start, stop)."""
        bits = self.keys.bits(start, stop)
        as_key = bits.dtype.type
        keys: Bits = np.minimum(bits & as_key(self.magnitude), as_key(self.first_nan))
        return keys

    def value(self, key: int) -> float:
        """Return the number that a key stands for."""
        return self.keys.value(key)


def with_equal_nans(keys: KeySource, key: int) -> KeySource:
    """Return the keys to compare `key` with: if it stands for NaN, all NaNs are equal to it.

    No other comparison needs them to be, and to make them so takes time.
    """
    nan = keys.first_nan
    if nan is None or key < nan or isinstance(keys, _OneNaN):
        return keys
    return _OneNaN(keys, nan)
