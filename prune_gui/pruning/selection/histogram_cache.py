"""Digit histograms of keys, and a cache of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import cachetools
import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Ints, Numbers

MAX_LEADING_BYTES: Final = 1 << 26
"""Limit of all cached histograms of leading digits: enough for some thousand million elements, or
for a hundred thousand tensors."""
MAX_FURTHER_BYTES: Final = 1 << 24
"""Limit of all cached histograms of further digits: enough for the last cut through a few hundred
million elements."""
MAX_GROUPED_BYTES: Final = 1 << 28
"""Limit of all cached grouped digits: enough for about 90 million elements."""
MAX_NORMS_BYTES: Final = 1 << 26
"""Limit of all cached norms: eight million channels."""
OVERHEAD_BYTES: Final = 512
"""Approximate size of an empty histogram in the cache: objects and key."""
_GROUPS: Final = 1 << 16
"""Number of groups of elements with the same 16 leading bits."""


@dataclass(frozen=True, slots=True)
class DigitHistogram:
    """The number of keys with each value of a digit, for the values that occur, ascending."""

    values: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    parts: tuple[DigitHistogram, ...] = ()  # of the spans of the tensor, in order

    @classmethod
    def of(cls, table: NDArray[np.integer[Any]]) -> DigitHistogram:
        """Return the histogram of a table that is indexed by digit value."""
        values = np.flatnonzero(table != 0)  # the comparison makes this ten times faster
        return cls(values.astype(np.uint16), table[values])

    @classmethod
    def sum(cls, parts: Sequence[DigitHistogram], *, keep: bool) -> DigitHistogram:
        """Return the sum of the histograms of spans; with `keep` they become its `parts`."""
        end = max((int(part.values[-1]) + 1 for part in parts if part.values.size), default=0)
        table = np.zeros(end, np.int64)
        for part in parts:
            table[part.values] += part.counts
        whole = cls.of(table)
        return cls(whole.values, whole.counts, tuple(parts) if keep else ())

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def nbytes(self) -> int:
        own = OVERHEAD_BYTES + self.values.nbytes + self.counts.nbytes
        return own + sum(part.nbytes for part in self.parts)

    def below(self, value: int) -> int:
        return int(self.counts[: np.searchsorted(self.values, value)].sum())

    def at(self, value: int) -> int:
        return self.below(value + 1) - self.below(value)

    def up_to(self, values: NDArray[np.integer[Any]]) -> Ints:
        """Return, for each of `values`, the number of keys with this digit or a lower one."""
        cumulative = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        counts: Ints = cumulative[np.searchsorted(self.values, values, side="right")]
        return counts


@dataclass(frozen=True, slots=True)
class GroupedSpan:
    """The low 16 bits of the 32-bit elements of a span, grouped by their high 16 bits."""

    digits: NDArray[np.uint16]
    ends: NDArray[np.uint32]  # (65536,), the end of each group in `digits`

    def group(self, high: int) -> NDArray[np.uint16]:
        return self.digits[self._start(high) : self.ends[high]]

    def count_between(self, low: int, high: int) -> int:
        """Return the number of elements whose bits are in [low, high)."""
        return self._count_below(high) - self._count_below(low)

    def _count_below(self, bits: int) -> int:
        high, low = divmod(bits, _GROUPS)
        if high == _GROUPS:
            return len(self.digits)
        return self._start(high) + int(np.count_nonzero(self.group(high) < low))

    def _start(self, high: int) -> int:
        return int(self.ends[high - 1]) if high else 0


@dataclass(frozen=True, slots=True)
class GroupedDigits:
    """The remaining elements of a tensor of 32-bit keys, grouped by span and leading bits."""

    spans: tuple[GroupedSpan | None, ...]  # None if a span is not grouped yet
    signs: tuple[int, ...]  # leading bits that are no part of a key: 0, and that of the sign

    @classmethod
    def nothing(cls, spans: int, magnitude: int) -> GroupedDigits:
        sign = ~magnitude // _GROUPS % _GROUPS
        return cls((None,) * spans, (0, sign) if sign else (0,))

    @property
    def nbytes(self) -> int:
        known = [span for span in self.spans if span is not None]
        arrays = sum(span.digits.nbytes + span.ends.nbytes for span in known)
        return OVERHEAD_BYTES * (1 + len(self.spans)) + arrays

    def histogram(self, span: GroupedSpan, prefix: int) -> DigitHistogram:
        """Return the histogram of the last digit of the keys of a span with some leading bits."""
        groups = [span.group(sign | prefix) for sign in self.signs]
        return DigitHistogram.of(np.bincount(np.concatenate(groups)))


EMPTY_HISTOGRAM: Final = DigitHistogram.of(np.zeros(0, np.int64))
"""The histogram of no keys."""


Cached = TypeVar("Cached")


class LRUCache(Generic[Cached]):
    """An LRU cache of values with a size, `nbytes`; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._values: cachetools.LRUCache[Hashable, Cached] = cachetools.LRUCache(
            max_bytes, getsizeof=attrgetter("nbytes")
        )
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Cached | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: Hashable, value: Cached) -> None:
        """Cache a value under `key`, unless it alone exceeds the limit."""
        with self._lock, suppress(ValueError):
            self._values[key] = value


@dataclass(frozen=True, slots=True)
class HistogramCache:
    """Cached histograms and norms of whole tensors, so that a new amount need not read them again.

    Histograms of `further` digits, of the keys that share the leading bits of a cut, differ for
    each cut and would soon evict those of `leading` digits. The last digits of 32-bit keys are
    `grouped` if the amount was changed: their histogram then takes no pass over the keys. `norms`
    are float64 norms of channels, or factors of rows and columns.
    """

    leading: LRUCache[DigitHistogram] = field(default_factory=lambda: LRUCache(MAX_LEADING_BYTES))
    further: LRUCache[DigitHistogram] = field(default_factory=lambda: LRUCache(MAX_FURTHER_BYTES))
    grouped: LRUCache[GroupedDigits] = field(default_factory=lambda: LRUCache(MAX_GROUPED_BYTES))
    norms: LRUCache[Numbers] = field(default_factory=lambda: LRUCache(MAX_NORMS_BYTES))

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_cache, ()


def _no_cache() -> None:
    """Stand for a cache in another process."""
