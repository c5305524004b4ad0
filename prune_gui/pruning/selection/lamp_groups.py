"""The keys of one tensor by their leading bits, and between which LAMP scores those lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.kernels import lamp as lamp_kernels
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.pruning.selection.radix_select import (
    DIGIT_BITS,
    Cut,
    Ranking,
    find_cuts,
    nth_tie,
    work,
)

LARGEST: Final = 1e280
"""Squares count as no more than this, so that sums of them are finite: those of infinity."""
MIN_EXPONENT: Final = -1000
"""Of the scale of a tensor: 2 to the power of its negative is still finite."""
ABOVE_ALL: Final = 2.0
"""What NaN and infinity score; the largest number of a tensor scores 1."""

Part = tuple[NDArray[Any], ...]
"""What one look at a group found."""


class Groups(Protocol):
    """The entries of a tensor, or of several, in groups; those of the least scores first."""

    @property
    def bits(self) -> NDArray[np.int64]:
        """How many bits of each group are open; all entries of one of 0 bits score the same."""

    @property
    def units(self) -> NDArray[np.int64]:
        """How many entries of each may go."""

    @property
    def work(self) -> int:
        """How many bytes are read until the cuts are known, about."""

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score that entries of each group can have."""

    def looks(self, place: int, monitor: Monitor) -> list[Callable[[], Part]]:
        """Return what looks more closely at a group; any threads may call these."""

    def with_parts(self, place: int, found: Sequence[Part]) -> Groups:
        """Return these groups with one of them replaced by its parts, which `looks` found."""

    def cuts(self, taken: NDArray[np.int64], monitor: Monitor) -> list[Cut]:
        """Return the cut of each tensor that prunes so many entries of each group."""


@dataclass(frozen=True, slots=True)
class TensorGroups:
    """The keys that occur in one ranking, by their leading bits, ascending.

    Attributes:
        ranking: the entries.
        first: int64, the least key that a group can hold.
        bits: int64, how many of its last bits are open; a group of 0 bits is a single key.
        counts: int64, how many entries it holds.
        sums: float64, of their squares; 0 of NaN and infinity.
        exponent: the numbers of a tensor of float64 are divided by 2 to this power before they are
            squared, as their squares may be beyond it. The scores stay the same.
    """

    ranking: Ranking
    first: NDArray[np.int64]
    bits: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    exponent: int

    @classmethod
    def whole(cls, ranking: Ranking) -> TensorGroups:
        """Return one group of all keys, of which nothing is known."""
        bits = np.array([8 * ranking.keys.width - 1])
        none = np.zeros(1, int)
        return cls(ranking, none, bits, none, np.zeros(1), _largest_exponent(ranking))

    @property
    def units(self) -> NDArray[np.int64]:
        """How many entries of each may go."""
        most = self.ranking.keys.size if self.ranking.most is None else self.ranking.most
        before = np.cumsum(self.counts) - self.counts
        units: NDArray[np.int64] = np.clip(most - before, 0, self.counts)
        return units

    @property
    def work(self) -> int:
        """How many bytes are read until the cuts are known, about."""
        return work(self.ranking.keys)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score that entries of each group can have.

        Entries of a group between the keys a and b, with the sum S of squares in it and above, and
        A above it, score at least a^2 / S and at most b^2 / (b^2 + A).
        """
        keys = self.ranking.keys
        rest = np.cumsum(self.sums[::-1])[::-1]
        above = np.append(rest, 0.0)[1:]
        least = np.divide(self._squares(self.first), rest, out=np.zeros_like(rest), where=rest > 0)
        top = self._squares(self.first + (1 << self.bits) - 1)
        largest = np.divide(top, top + above, out=np.ones_like(rest), where=top > 0)
        odd = _non_finite(keys, self.first)
        least[odd] = largest[odd] = ABOVE_ALL
        return least, np.where(self.bits > 0, largest, least)

    def looks(self, place: int, monitor: Monitor) -> list[Callable[[], Part]]:
        """Return what looks more closely at a group, a stretch of the tensor each."""

        def look(start: int, stop: int) -> Part:
            found = self._count_parts(place, start, stop)
            monitor.advance((stop - start) * self.ranking.keys.width)
            return found

        spans = parallel.chunks(self.ranking.keys.size)
        return [partial(look, *span) for span in spans]

    def with_parts(self, place: int, found: Sequence[Part]) -> TensorGroups:
        """Return these groups with one of them replaced by those of its parts that occur."""
        counts, sums = _total(found)
        keys = self.ranking.keys
        shift, occur = self._shift(place), np.flatnonzero(counts)
        first, counts = self.first[place] + (occur << shift), counts[occur]
        sums = sums[occur] if shift else counts * self._squares(first)
        sums[_non_finite(keys, first)] = 0.0
        pairs = zip(
            (self.first, self.bits, self.counts, self.sums),
            (first, np.full_like(first, shift), counts, sums),
            strict=True,
        )
        columns = (np.concatenate([a[:place], b, a[place + 1 :]]) for a, b in pairs)
        first, bits, counts, sums = columns
        return replace(self, first=first, bits=bits, counts=counts, sums=sums)

    def cuts(self, taken: NDArray[np.int64], monitor: Monitor) -> list[Cut]:
        """Return the cut that prunes so many entries of each group, which are the lowest."""
        ranking, pruned = self.ranking, int(taken.sum())
        odd = int(self.counts[_non_finite(ranking.keys, self.first)].sum())
        if pruned == 0:
            return [Cut(0, -1, 0, odd)]
        last = int(np.flatnonzero(taken)[-1])
        # All of it that may go goes, and nothing asked to split it; or it is NaN, of many keys.
        if self.bits[last] or _non_finite(ranking.keys, self.first[last : last + 1]).any():
            return find_cuts([ranking], pruned, monitor)
        key, ties = int(self.first[last]), int(taken[last])
        all_go = ties == self.counts[last]
        last_tie = ranking.keys.size - 1 if all_go else nth_tie(ranking, key, ties, monitor)
        return [Cut(key, last_tie, pruned, odd)]

    def _squares(self, some: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scaled squares of the numbers that some keys stand for."""
        assert isinstance(self.ranking.keys, ScoreKeys)
        return squares_of(some, self.ranking.keys.dtype, self.exponent)

    def _shift(self, place: int) -> int:
        """Return how many bits are open in the parts of a group."""
        return (int(self.bits[place]) - 1) // DIGIT_BITS * DIGIT_BITS

    def _count_parts(self, place: int, start: int, stop: int) -> Part:
        """Count the entries of each part of a group in [start, stop), and add up their squares.

        There are no sums of parts that are single keys: they follow from the counts.
        """
        ranking, above, shift = self.ranking, int(self.bits[place]), self._shift(place)
        counts = np.zeros(1 << (above - shift), np.int64)
        sums = np.zeros(len(counts) if shift else 0)
        bits = ranking.keys.bits(start, stop)
        key = bits.dtype.type
        lamp_kernels.add_squares(
            bits,
            bits.view(f"f{ranking.keys.width}") if shift else None,
            key(ranking.keys.magnitude),
            None if ranking.remaining_mask is None else ranking.remaining_mask(start, stop),
            key(shift),
            key(len(counts) - 1),
            key(above),
            key(int(self.first[place]) >> above),
            counts,
            sums,
            2.0**-self.exponent,
        )
        return counts, np.minimum(sums, LARGEST, out=sums)


def squares_of(
    keys: NDArray[np.integer[Any]], dtype: torch.dtype, exponents: int | NDArray[np.int64] = 0
) -> NDArray[np.float64]:
    """Return the squares of the numbers of a type that some keys stand for.

    Args:
        keys: of the numbers.
        dtype: of the numbers.
        exponents: of the powers of 2 by which the numbers are divided first, one or one per key.
    """
    values = numbers_of(keys, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(values, -exponents) if dtype == torch.float64 else values
        squares: NDArray[np.float64] = np.minimum(scaled * scaled, LARGEST)
    return squares


def numbers_of(keys: NDArray[np.integer[Any]], dtype: torch.dtype) -> NDArray[np.float64]:
    """Return the numbers of a type that some keys stand for."""
    values = torch.from_numpy(keys.astype(f"i{dtype.itemsize}")).view(dtype)
    numbers: NDArray[np.float64] = values.double().numpy()
    return numbers


def _largest_exponent(ranking: Ranking) -> int:
    """Return that of the largest finite number of float64 that is left; 0 of any other type."""
    keys = ranking.keys
    assert isinstance(keys, ScoreKeys)
    if keys.dtype != torch.float64:
        return 0

    def largest(span: tuple[int, int]) -> int:
        found = keys.bits(*span) & np.uint64(keys.magnitude)
        finite = found < keys.first_non_finite
        if ranking.remaining_mask is not None:
            finite &= ranking.remaining_mask(*span)
        return int(found.max(initial=0, where=finite))

    key = max(parallel.run(largest, parallel.chunks(keys.size)), default=0)
    return max(int(np.frexp(numbers_of(np.array([key]), keys.dtype))[1][0]), MIN_EXPONENT)


def _total(found: Sequence[Part]) -> Part:
    """Add up in order, so that the sums do not depend on which thread was first."""
    counts, sums = found[0]
    for more_counts, more_sums in found[1:]:
        counts += more_counts
        sums += more_sums
    return counts, sums


def _non_finite(keys: KeySource, some: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of some keys stand for NaN or infinity."""
    assert keys.first_non_finite is not None
    return some >= keys.first_non_finite
