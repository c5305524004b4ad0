"""Digit histograms of keys, and a cache of them."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import cachetools
import numpy as np
from numpy.typing import NDArray

MAX_LEADING_BYTES: Final = 1 << 26
"""Limit of all cached histograms of leading digits: enough for some thousand million elements, or
for a hundred thousand tensors."""
MAX_FURTHER_BYTES: Final = 1 << 24
"""Limit of all cached histograms of further digits: enough for the last cut through a few hundred
million elements."""
OVERHEAD_BYTES: Final = 512
"""Approximate size of an empty histogram in the cache: objects and key."""


@dataclass(frozen=True, slots=True)
class DigitHistogram:
    """The number of keys with each value of a digit, for the values that occur.

    Attributes:
        values: the digits, ascending.
        counts: one per value, never 0.
        parts: the histogram of each span of the tensor, in order; or ().
    """

    values: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    parts: tuple[DigitHistogram, ...] = ()

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
        """The number of keys."""
        return int(self.counts.sum())

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        own = OVERHEAD_BYTES + self.values.nbytes + self.counts.nbytes
        return own + sum(part.nbytes for part in self.parts)

    def below(self, value: int) -> int:
        """Return the number of keys with a lower digit."""
        return int(self.counts[: np.searchsorted(self.values, value)].sum())

    def at(self, value: int) -> int:
        """Return the number of keys with this digit."""
        return self.below(value + 1) - self.below(value)

    def up_to(self, values: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return, for each of `values`, the number of keys with this digit or a lower one."""
        cumulative = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        counts: NDArray[np.int64] = cumulative[np.searchsorted(self.values, values, side="right")]
        return counts


EMPTY_HISTOGRAM: Final = DigitHistogram.of(np.zeros(0, np.int64))
"""The histogram of no keys."""


class LRUCache:
    """An LRU cache of histograms; thread-safe.

    Args:
        max_bytes: limit of the memory of all histograms.
    """

    def __init__(self, max_bytes: int) -> None:
        self._histograms: cachetools.LRUCache[Hashable, DigitHistogram] = cachetools.LRUCache(
            max_bytes, getsizeof=attrgetter("nbytes")
        )
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> DigitHistogram | None:
        """Return the histogram that is cached under `key`, or None."""
        with self._lock:
            return self._histograms.get(key)

    def put(self, key: Hashable, histogram: DigitHistogram) -> None:
        """Cache a histogram under `key`, unless it alone exceeds the limit."""
        with self._lock, suppress(ValueError):
            self._histograms[key] = histogram


@dataclass(frozen=True, slots=True)
class HistogramCache:
    """Cached digit histograms of whole tensors, so that a new amount need not read them again.

    They depend on the keys and the remaining elements, but not on the amount.

    Attributes:
        leading: histograms of the leading digit.
        further: histograms of further digits, of the keys that share the leading bits of a cut.
            They differ for each cut and would soon evict those of leading digits.
    """

    leading: LRUCache = field(default_factory=lambda: LRUCache(MAX_LEADING_BYTES))
    further: LRUCache = field(default_factory=lambda: LRUCache(MAX_FURTHER_BYTES))
