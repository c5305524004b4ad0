"""How often each value of a digit occurs among keys, and remembering it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

LEADING_AT_MOST: Final = 1 << 26
"""Bytes of all counts of leading digits that are remembered: of some thousand million entries, or
of a hundred thousand tensors."""
FURTHER_AT_MOST: Final = 1 << 24
"""Likewise of further digits: of the last cut through a few hundred million entries."""
AT_LEAST: Final = 512
"""Bytes that counts take however few they are, about: objects, and what they are found by."""


@dataclass(frozen=True, slots=True)
class DigitHistogram:
    """How often each value of a digit occurs, for those that do occur.

    Attributes:
        values: ascending.
        counts: as many, none of them 0.
        parts: the same for each stretch of the tensor, in order; or ().
    """

    values: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    parts: tuple[DigitHistogram, ...] = ()

    @classmethod
    def of(cls, table: NDArray[np.integer[Any]]) -> DigitHistogram:
        """Take in a table that has a place for every value of the digit."""
        values = np.flatnonzero(table != 0)  # ten times as fast as without the comparison
        return cls(values.astype(np.uint16), table[values])

    @classmethod
    def sum(cls, parts: Sequence[DigitHistogram], *, keep: bool) -> DigitHistogram:
        """Add up the counts of stretches, and keep them if told to."""
        end = max((int(part.values[-1]) + 1 for part in parts if part.values.size), default=0)
        table = np.zeros(end, np.int64)
        for part in parts:
            table[part.values] += part.counts
        whole = cls.of(table)
        return cls(whole.values, whole.counts, tuple(parts) if keep else ())

    @property
    def total(self) -> int:
        """How many there are of all values."""
        return int(self.counts.sum())

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        own = AT_LEAST + self.values.nbytes + self.counts.nbytes
        return own + sum(part.nbytes for part in self.parts)

    def below(self, value: int) -> int:
        """How many there are of lower values."""
        return int(self.counts[: np.searchsorted(self.values, value)].sum())

    def at(self, value: int) -> int:
        """How many there are of a value."""
        return self.below(value + 1) - self.below(value)

    def up_to(self, values: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return, for each of some values, how often it or a lower one occurs."""
        reached = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        found: NDArray[np.int64] = reached[np.searchsorted(self.values, values, side="right")]
        return found


NOTHING: Final = DigitHistogram.of(np.zeros(0, np.int64))
"""The counts of no entries."""


class LRUCache:
    """Counts, for as long as there is room; those asked for longest ago are forgotten first.

    Safe to use from several threads.

    Args:
        room: bytes that they may take.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._known: OrderedDict[Hashable, DigitHistogram] = OrderedDict()
        self._bytes = 0
        self._changing = threading.Lock()

    def get(self, of: Hashable) -> DigitHistogram | None:
        """Return the counts of something, if they are known."""
        with self._changing:
            if of in self._known:
                self._known.move_to_end(of)
            return self._known.get(of)

    def put(self, of: Hashable, counts: DigitHistogram) -> None:
        """Remember counts."""
        with self._changing:
            if of in self._known:
                return
            self._known[of] = counts
            self._bytes += counts.nbytes
            while self._bytes > self._room:
                self._bytes -= self._known.popitem(last=False)[1].nbytes


@dataclass(frozen=True, slots=True)
class HistogramCache:
    """The counts of digits of whole tensors, so that a new amount needs them no more.

    They follow from the keys, and from which entries are still there; not from what a step wants.

    Attributes:
        leading: of the digit that every key has.
        further: of digits of the keys that begin as a cut does. Every cut has others, which would
            soon take the room of all the former.
    """

    leading: LRUCache = field(default_factory=lambda: LRUCache(LEADING_AT_MOST))
    further: LRUCache = field(default_factory=lambda: LRUCache(FURTHER_AT_MOST))
