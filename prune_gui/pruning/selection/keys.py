"""Keys that a step ranks: one unsigned integer per element, and in which spans they are read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import torch

from prune_gui import parallel
from prune_gui.pruning.arrays import Bits, Flags, Key
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.scores import BlockScores, JoinedScores, Scores, TensorScores

RemainingMask = Callable[[int, int], Flags]
"""Returns a boolean array over the flat indices [start, stop), False where already pruned."""

_UNSIGNED: dict[int, type[Key]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

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


def ranking_dtype(dtypes: set[torch.dtype]) -> torch.dtype:
    """Return the narrowest dtype in which values of all `dtypes` are compared exactly."""
    if len(dtypes) == 1 and dtypes <= _BIT_ORDERED_DTYPES:
        return next(iter(dtypes))
    return torch.float64 if torch.float64 in dtypes else torch.float32


def raw_bits(tensor: torch.Tensor) -> Bits:
    """Return a contiguous CPU tensor's memory as unsigned integers of the same width; no copy."""
    width = tensor.element_size()
    bits: Bits = tensor.view(SIGNED[width]).numpy().view(_UNSIGNED[width])
    return bits


def _without_sign(dtype: torch.dtype) -> int:
    return (1 << (8 * dtype.itemsize - 1)) - 1


@cache
def _first_non_finite(dtype: torch.dtype) -> int:
    lowest = float("nan") if dtype is torch.float8_e4m3fn else float("inf")
    return int(raw_bits(torch.tensor([lowest], dtype=dtype))[0]) & _without_sign(dtype)


@cache
def bits_of_one(dtype: torch.dtype) -> int:
    """Return the bits of 1 as an unsigned integer."""
    return int(raw_bits(torch.ones(1, dtype=dtype))[0])


@dataclass(frozen=True)
class ScoreKeys:
    """Keys that rank elements by the absolute value of their scores, compared in `dtype`."""

    scores: Scores
    dtype: torch.dtype
    equal_nans: bool = False  # all NaNs have one key, which takes time

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
        bits = raw_bits(self.scores.part(start, stop).to(self.dtype))
        if self.equal_nans and self.first_nan is not None:
            as_key = bits.dtype.type
            bits = np.minimum(bits & as_key(self.magnitude), as_key(self.first_nan))
        return bits

    def first_key(self, value: float) -> int:
        """Return the lowest key of at least `value` >= 0; `first_non_finite` if no number is."""
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


@dataclass(frozen=True)
class _JoinedRandomKeys(RandomKeys):
    members: tuple[RandomKeys, ...] = ()

    def bits(self, start: int, stop: int) -> Bits:
        return np.concatenate([own.bits(0, own.size) for own in self.members])[start:stop]


KeySource = ScoreKeys | RandomKeys
"""One key per element of a tensor, in row-major order: ``bits(start, stop) & magnitude``.

Keys have a `width` in bytes. `first_non_finite` and `first_nan` are the lowest keys of such
numbers, or None if there are none, or if NaN has a single key.
"""


def are_compatible(one: KeySource, other: KeySource) -> bool:
    """Return whether equal keys have equal meaning in both, so that they can be joined."""
    if isinstance(one, ScoreKeys) and isinstance(other, ScoreKeys):
        return one.dtype == other.dtype
    return isinstance(one, RandomKeys) and isinstance(other, RandomKeys)


def joined(every: Sequence[KeySource]) -> KeySource:
    """Return the concatenated keys of tensors whose keys are compatible."""
    first, size = every[0], sum(keys.size for keys in every)
    if isinstance(first, ScoreKeys):
        scores = tuple(keys.scores for keys in every if isinstance(keys, ScoreKeys))
        return ScoreKeys(JoinedScores(scores, size, first.dtype), first.dtype)
    members = tuple(keys for keys in every if isinstance(keys, RandomKeys))
    return _JoinedRandomKeys(first.seed, first.label, size, members=members)


def with_equal_nans(keys: KeySource, key: int) -> KeySource:
    """Return the keys for comparisons with `key`: unchanged, unless that is NaN."""
    if keys.first_nan is None or key < keys.first_nan or not isinstance(keys, ScoreKeys):
        return keys
    return keys if keys.equal_nans else replace(keys, equal_nans=True)


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


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """The keys of a tensor on a device.

    A key is ``min(bits & magnitude, highest)``, so that all NaNs have one, or `flip` minus it, if
    `flip` is not 0.
    """

    shape: torch.Size
    bits: torch.Tensor  # flat, integers of the width of the scores
    remaining: torch.Tensor | None  # flat; elements where it is 0 are not ranked
    magnitude: int
    highest: int
    flip: int

    @classmethod
    def of(
        cls, scores: torch.Tensor, remaining: torch.Tensor | None, *, largest_first: bool
    ) -> DeviceKeys:
        """Return the keys of contiguous scores; those of `largest_first` are in [0, 1]."""
        keys = ScoreKeys.of(TensorScores.of(scores))
        return cls(
            scores.shape,
            scores.detach().view(-1).view(SIGNED[scores.itemsize]),
            None if remaining is None else remaining.view(-1),
            keys.magnitude,
            keys.first_nan or keys.magnitude,
            bits_of_one(scores.dtype) if largest_first else 0,
        )

    def parts(self, elements: int) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
        """Yield spans of at most `elements`, their keys, and which remain, boolean; None if all."""
        for span in parallel.chunks(self.bits.numel(), elements):
            part = slice(*span)
            keys = (self.bits[part] & self.magnitude).clamp_(max=self.highest)
            remaining = None if self.remaining is None else self.remaining[part].bool()
            yield part, self.flip - keys if self.flip else keys, remaining


Units = int | Callable[[int], int]
"""A number of elements to prune; or what returns it for that of the remaining elements."""


def count_of(units: Units, every: Sequence[DeviceKeys], first_counts: torch.Tensor) -> int:
    """Return the number of elements to prune; `first_counts` are those of the first digits."""
    if isinstance(units, int):
        return units
    if any(keys.remaining is not None for keys in every):
        return units(int(first_counts.sum()))
    return units(sum(keys.bits.numel() for keys in every))


BLOCK_ELEMENTS: Final = 1 << 20
"""Keys that are computed are read in blocks of this many. Smaller ones would stay in the L2 cache,
but many threads then wait for the GIL between their loops."""
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


def blocks(keys: KeySource, start: int, stop: int) -> Iterator[tuple[int, int, Bits]]:
    """Yield spans (first, last) that cover [start, stop), and their keys, on one thread.

    The next block may overwrite the keys.
    """
    if (
        isinstance(keys, ScoreKeys)
        and isinstance(keys.scores, BlockScores)
        and keys.scores.dtype == keys.dtype
        and not keys.equal_nans
    ):
        first = start
        for scores in keys.scores.blocks(start, stop, BLOCK_ELEMENTS):
            yield first, first + scores.size, scores.view(_UNSIGNED[keys.width])
            first += scores.size
        return
    step = stop - start if _are_stored(keys) else BLOCK_ELEMENTS
    for first in range(start, stop, max(step, 1)):
        last = min(first + step, stop)
        yield first, last, keys.bits(first, last)


def _are_stored(keys: KeySource) -> bool:
    if not isinstance(keys, ScoreKeys) or keys.equal_nans:
        return False
    return isinstance(keys.scores, TensorScores) and keys.scores.dtype == keys.dtype
