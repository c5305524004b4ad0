"""Keys that a step ranks: one unsigned integer per element, and in which spans they are read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np
import torch

from prune_gui.pruning import parallel
from prune_gui.pruning.arrays import Bits, Flags, Key
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.scores import Scores, TensorScores, read_batched

RemainingMask = Callable[[int, int], Flags]
"""Returns a boolean array over the flat indices [start, stop), False where already pruned."""

_UNSIGNED: dict[int, type[Key]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

# Dtypes whose bits without the sign order as |value| does. Others are widened to float32 first.
_BIT_ORDERED_DTYPES = frozenset(
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
    """One key per element of a tensor, in row-major order: ``bits(...) & magnitude``."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def width(self) -> int:
        """Bytes per key: 1, 2, 4 or 8."""

    @property
    def magnitude(self) -> int:
        """Bit mask of the bits that make the key."""

    @property
    def first_non_finite(self) -> int | None:
        """The lowest key of a non-finite number; None if there is none."""

    @property
    def first_nan(self) -> int | None:
        """The lowest key of a NaN; None if NaN has at most one key."""

    def bits(self, start: int, stop: int) -> Bits:
        """Return the raw bits of the flat indices [start, stop)."""

    def value(self, key: int) -> float:
        """Return the number of a key."""


def ranking_dtype(dtypes: set[torch.dtype]) -> torch.dtype:
    """Return the narrowest dtype in which values of all `dtypes` are compared exactly."""
    if len(dtypes) == 1 and dtypes <= _BIT_ORDERED_DTYPES:
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
    lowest = float("nan") if dtype is torch.float8_e4m3fn else float("inf")
    return int(raw_bits(torch.tensor([lowest], dtype=dtype))[0]) & _without_sign(dtype)


@dataclass(frozen=True)
class ScoreKeys:
    """Keys that rank elements by the absolute value of their scores, compared in `dtype`."""

    scores: Scores
    dtype: torch.dtype

    @classmethod
    def of(cls, scores: Scores) -> ScoreKeys:
        """Return keys in the narrowest dtype for these scores alone."""
        return cls(scores, ranking_dtype({scores.dtype}))

    @property
    def size(self) -> int:
        return math.prod(self.scores.shape)

    @property
    def width(self) -> int:
        return self.dtype.itemsize

    @property
    def magnitude(self) -> int:
        return _without_sign(self.dtype)

    @property
    def first_non_finite(self) -> int:
        """The key of infinity, or of NaN where the dtype has no infinity."""
        return _first_non_finite(self.dtype)

    @property
    def first_nan(self) -> int | None:
        """The key after that of infinity; None where the dtype has a single NaN."""
        return None if self.dtype is torch.float8_e4m3fn else self.first_non_finite + 1

    def bits(self, start: int, stop: int) -> Bits:
        return raw_bits(self.scores.part(start, stop).to(self.dtype))

    def first_key(self, value: float) -> int:
        """Return the lowest key of at least `value`, which is not negative.

        It is `first_non_finite` if `value` exceeds all finite numbers.
        """
        nearest = torch.tensor([value], dtype=torch.float64).to(self.dtype)
        key = int(raw_bits(nearest)[0]) & self.magnitude
        return key + 1 if self.value(key) < value else key

    def value(self, key: int) -> float:
        number = torch.zeros(1, dtype=self.dtype)
        raw_bits(number)[0] = key
        return float(number)


@dataclass(frozen=True)
class RandomKeys:
    """Keys that rank elements at random: hashes of the seed, the name of the tensor and the index.

    Of equal keys the lowest index is pruned first, so the probability that an element is pruned
    depends on its index by at most 2^-32.
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
        name = f"{self.seed}\0{self.label}".encode()
        return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))

    def bits(self, start: int, stop: int) -> Bits:
        out = np.empty(stop - start, np.uint32)
        key_kernels.fill_random_bits(self.stream, np.uint64(start), out)
        return out

    def value(self, key: int) -> float:
        return key / (self.magnitude + 1)


def are_compatible(one: KeySource, other: KeySource) -> bool:
    """Return whether equal keys have equal meaning in both, so that they can be concatenated."""
    if isinstance(one, ScoreKeys) and isinstance(other, ScoreKeys):
        return one.dtype == other.dtype
    return isinstance(one, RandomKeys) and isinstance(other, RandomKeys)


def concatenated_bits(every: Sequence[KeySource]) -> Bits:
    """Return the concatenated raw bits of tensors whose keys are compatible."""
    scores = [keys.scores for keys in every if isinstance(keys, ScoreKeys)]
    if len(scores) == len(every):
        [dtype] = {keys.dtype for keys in every if isinstance(keys, ScoreKeys)}
        parts = [raw_bits(part.to(dtype)) for part in read_batched(scores)]
    else:
        parts = [keys.bits(0, keys.size) for keys in every]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class KeysLike:
    """Keys of the same type as other keys."""

    model: KeySource

    @property
    def width(self) -> int:
        return self.model.width

    @property
    def magnitude(self) -> int:
        return self.model.magnitude

    @property
    def first_non_finite(self) -> int | None:
        return self.model.first_non_finite

    def value(self, key: int) -> float:
        return self.model.value(key)


@dataclass(frozen=True)
class _SingleNaNKeys(KeysLike):
    """The same keys, with a single key for all NaNs."""

    first_nan: int

    @property
    def size(self) -> int:
        return self.model.size

    def bits(self, start: int, stop: int) -> Bits:
        bits = self.model.bits(start, stop)
        as_key = bits.dtype.type
        keys: Bits = np.minimum(bits & as_key(self.magnitude), as_key(self.first_nan))
        return keys


def with_equal_nans(keys: KeySource, key: int) -> KeySource:
    """Return the keys for comparisons with `key`: if that is NaN, all NaNs get the same key.

    Other keys are returned unchanged, since the replacement takes time.
    """
    first_nan = keys.first_nan
    if first_nan is None or key < first_nan or isinstance(keys, _SingleNaNKeys):
        return keys
    return _SingleNaNKeys(keys, first_nan)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The elements of a tensor that a step may prune, at most `max_pruned`."""

    keys: KeySource
    remaining_mask: RemainingMask | None = None
    max_pruned: int | None = None
    histogram_cache: HistogramCache | None = None

    @property
    def limit(self) -> int:
        return self.keys.size if self.max_pruned is None else self.max_pruned

    @property
    def nbytes(self) -> int:
        return self.keys.size * self.keys.width

    def mask(self, start: int, stop: int) -> Flags | None:
        return None if self.remaining_mask is None else self.remaining_mask(start, stop)


BLOCK_ELEMENTS: Final = 1 << 18
"""Keys that are computed are read in blocks of this many, which fit in the L2 cache."""
MAX_CHUNKS_PER_SPAN, MIN_SPANS = 4, 8
"""Spans that are read without a copy may have up to `MAX_CHUNKS_PER_SPAN` chunks, as long as there
are at least `MIN_SPANS` spans. Fewer spans are faster: between two spans a thread needs the GIL,
and waits for it while the GUI thread is busy.
"""


def chunk_spans(keys: KeySource) -> list[tuple[int, int]]:
    """Return the (start, stop) of each span; the result depends on the keys alone."""
    chunks = MAX_CHUNKS_PER_SPAN if _are_stored(keys) else 1
    limit = chunks * parallel.CHUNK_ELEMENTS
    span_elements = min(max(-(-keys.size // MIN_SPANS), parallel.CHUNK_ELEMENTS), limit)
    return list(parallel.chunks(keys.size, span_elements))


def blocks(keys: KeySource, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans in which to read the keys in [start, stop) on one thread."""
    step = stop - start if _are_stored(keys) else BLOCK_ELEMENTS
    for first in range(start, stop, max(step, 1)):
        yield first, min(first + step, stop)


def _are_stored(keys: KeySource) -> bool:
    return (
        isinstance(keys, ScoreKeys)
        and isinstance(keys.scores, TensorScores)
        and keys.scores.dtype == keys.dtype
    )
