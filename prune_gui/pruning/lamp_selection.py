"""The k entries of least LAMP score over any set of tensors, by counting: no sort, no copy.

score(w) = w^2 / (sum of v^2 over the entries v of the tensor with |v| >= |w|): Lee et al.,
"Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021.

Within a tensor the score grows with |w|. So of a *group*, the keys that agree in their leading
bits, the count, the sum of squares, and the sum of all squares above it say between which scores
its entries lie. The groups of all tensors then say between which scores the k-th smallest lies,
and only groups that reach into that stretch need be looked at more closely: the first pass over a
16-bit type knows every single key; over a 32-bit one it leaves about one group per tensor, and the
second pass knows every key of that. A third reads a few of the tensors, if any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import lamp_kernels, parallel
from prune_gui.pruning.keys import KeySource, ScoreKeys
from prune_gui.pruning.selection import DIGIT_BITS, Cut, Ranking, find_cuts, nth_tie, work

LARGEST: Final = 1e280
"""Squares count as no more than this, so that sums of them are finite."""
ABOVE_ALL: Final = 2.0
"""What NaN and infinity score; the largest number of a tensor scores 1."""


def find_lamp_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return the cut of each ranking that together prune the `k` entries of least LAMP score.

    Of equal scores the earlier ranking's go first, then the lower key, then the lower flat index.
    A ranking loses at most its `most`. NaN and infinity go last and have no part in the sums.
    Scores are float64, and the sums of squares the same for any number of threads.

    Args:
        rankings: by `ScoreKeys`, of any types; at least `k` entries in all that may go.
        k: how many entries to prune.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    with monitor.plan(sum(work(ranking.keys) for ranking in rankings)):
        groups = [_Groups.whole(ranking.keys) for ranking in rankings]
        _split(rankings, groups, dict.fromkeys(range(len(rankings)), 0), monitor)
        for attempt in count():
            field = _Field.of(rankings, groups)
            unclear = field.unclear(k, halve=attempt % 2 == 1)
            if not unclear:
                break
            _split(rankings, groups, unclear, monitor)
        ends = np.cumsum([len(own.counts) for own in groups])
        taken = np.split(field.take(k), ends[:-1])
        return [_cut(*each, monitor) for each in zip(rankings, groups, taken, strict=True)]


@dataclass(frozen=True, slots=True)
class _Groups:
    """The keys that occur in one ranking, by their leading bits, ascending.

    Attributes:
        first: int64, the least key that a group can hold.
        bits: int64, how many of its last bits are open; a group of 0 bits is a single key.
        counts: int64, how many entries it holds.
        sums: float64, of their squares; 0 of NaN and infinity.
    """

    first: NDArray[np.int64]
    bits: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]

    @classmethod
    def whole(cls, keys: KeySource) -> _Groups:
        """Return one group of all keys, of which nothing is known."""
        return cls(np.zeros(1, int), np.array([8 * keys.width - 1]), np.zeros(1, int), np.zeros(1))

    def shift(self, place: int) -> int:
        """Return how many bits are open in the parts of a group."""
        return (int(self.bits[place]) - 1) // DIGIT_BITS * DIGIT_BITS

    def count_parts(
        self, place: int, ranking: Ranking, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count the entries of each part of a group in [start, stop), and add up their squares.

        There are no sums of parts that are single keys: they follow from the counts.
        """
        above, shift = int(self.bits[place]), self.shift(place)
        counts = np.zeros(1 << (above - shift), np.int64)
        sums = np.zeros(len(counts) if shift else 0)
        bits = ranking.keys.bits(start, stop)
        key = bits.dtype.type
        lamp_kernels.add_squares(
            bits,
            bits.view(f"f{ranking.keys.width}") if shift else None,
            key(ranking.keys.magnitude),
            None if ranking.alive is None else ranking.alive(start, stop),
            key(shift),
            key(len(counts) - 1),
            key(above),
            key(int(self.first[place]) >> above),
            counts,
            sums,
        )
        return counts, np.minimum(sums, LARGEST, out=sums)

    def with_parts(
        self, place: int, keys: KeySource, counts: NDArray[np.int64], sums: NDArray[np.float64]
    ) -> _Groups:
        """Return these groups with one of them replaced by those of its parts that occur."""
        shift, occur = self.shift(place), np.flatnonzero(counts)
        first, counts = self.first[place] + (occur << shift), counts[occur]
        sums = sums[occur] if shift else counts * _squares(keys, first)
        sums[_non_finite(keys, first)] = 0.0
        pairs = zip(
            (self.first, self.bits, self.counts, self.sums),
            (first, np.full_like(first, shift), counts, sums),
            strict=True,
        )
        return _Groups(*(np.concatenate([a[:place], b, a[place + 1 :]]) for a, b in pairs))

    def bounds(self, keys: KeySource) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score that entries of each group can have.

        Entries of a group between the keys a and b, with the sum S of squares in it and above, and
        A above it, score at least a^2 / S and at most b^2 / (b^2 + A).
        """
        rest = np.cumsum(self.sums[::-1])[::-1]
        above = np.append(rest, 0.0)[1:]
        least = np.divide(_squares(keys, self.first), rest, out=np.zeros_like(rest), where=rest > 0)
        top = _squares(keys, self.first + (1 << self.bits) - 1)
        largest = np.divide(top, top + above, out=np.ones_like(rest), where=top > 0)
        odd = _non_finite(keys, self.first)
        least[odd] = largest[odd] = ABOVE_ALL
        return least, np.where(self.bits > 0, largest, least)


@dataclass(frozen=True, slots=True)
class _Field:
    """The groups of all rankings side by side: those of the first, of the second, and so on.

    Attributes:
        owners: whose each group is.
        places: which of its owner's.
        single: whether it is a single key.
        least: the least score its entries can have.
        largest: the largest.
        units: how many of its entries may go.
    """

    owners: NDArray[np.int64]
    places: NDArray[np.int64]
    single: NDArray[np.bool_]
    least: NDArray[np.float64]
    largest: NDArray[np.float64]
    units: NDArray[np.int64]

    @classmethod
    def of(cls, rankings: Sequence[Ranking], groups: Sequence[_Groups]) -> _Field:
        columns = []
        for i, (ranking, own) in enumerate(zip(rankings, groups, strict=True)):
            most = ranking.keys.size if ranking.most is None else ranking.most
            before = np.cumsum(own.counts) - own.counts
            units = np.clip(most - before, 0, own.counts)
            places = np.arange(len(units))
            least, largest = own.bounds(ranking.keys)
            columns.append((np.full_like(units, i), places, own.bits == 0, least, largest, units))
        return cls(*map(np.concatenate, zip(*columns, strict=True)))

    def unclear(self, k: int, *, halve: bool) -> dict[int, int]:
        """Return, by owner, a group that must be split before the k smallest scores are known.

        One for each owner that has some: the nearest to where the k-th smallest score is guessed
        to be. With `halve` the guess leaves as many such groups on either side, so that their
        number soon falls however odd the scores are.
        """
        if k == 0:
            return {}
        low, high = (_smallest(bounds, self.units, k) for bounds in (self.least, self.largest))
        reaches_in = (self.units > 0) & (self.least <= high) & (self.largest >= low)
        unclear = np.flatnonzero(reaches_in & ~self.single)
        if not unclear.size:
            return {}
        if halve:
            guess = float(np.median(self.least[unclear]))
        else:
            surely = int(self.units[self.largest < low].sum())
            guess = self._guess(np.flatnonzero(reaches_in), k - surely, low, high)
        away = np.maximum(self.least[unclear] - guess, guess - self.largest[unclear])
        nearest = unclear[np.lexsort((np.maximum(away, 0), self.owners[unclear]))]
        owners, first = np.unique(self.owners[nearest], return_index=True)
        return dict(zip(owners.tolist(), self.places[nearest[first]].tolist(), strict=True))

    def _guess(self, some: NDArray[np.intp], k: int, low: float, high: float) -> float:
        """Guess the k-th smallest score of some groups, as if those of each lay evenly spread."""
        least, units = self.least[some], self.units[some]
        spread = np.maximum(self.largest[some] - least, 1e-300)
        for _ in range(60):
            middle = (low + high) / 2
            if (units * np.clip((middle - least) / spread, 0, 1)).sum() < k:
                low = middle
            else:
                high = middle
        return high

    def take(self, k: int) -> NDArray[np.int64]:
        """Return how many entries of each group go; of equal scores the earlier group first."""
        order = np.argsort(self.least, kind="stable")
        units = self.units[order]
        taken = np.empty_like(units)
        taken[order] = np.clip(k - (np.cumsum(units) - units), 0, units)
        return taken


def _smallest(scores: NDArray[np.float64], units: NDArray[np.int64], k: int) -> float:
    """Return the k-th smallest score, each occurring as often as `units` say."""
    order = np.argsort(scores, kind="stable")  # fast: the scores are a few ascending runs
    return float(scores[order[np.searchsorted(np.cumsum(units[order]), k)]])


def _split(
    rankings: Sequence[Ranking],
    groups: list[_Groups],
    chosen: Mapping[int, int],
    monitor: Monitor,
) -> None:
    """Replace the chosen group of each of some rankings by its parts, in one pass over those."""

    def add(task: tuple[int, int, int]) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
        index, *stretch = task
        found = groups[index].count_parts(chosen[index], rankings[index], *stretch)
        monitor.advance((stretch[1] - stretch[0]) * rankings[index].keys.width)
        return index, *found

    tasks = [
        (index, *stretch)
        for index in chosen
        for stretch in parallel.chunks(rankings[index].keys.size)
    ]
    for index, found in groupby(parallel.run(add, tasks), key=itemgetter(0)):
        total = _total((counts, sums) for _, counts, sums in found)
        groups[index] = groups[index].with_parts(chosen[index], rankings[index].keys, *total)


def _total(
    found: Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Add up in order, so that the sums do not depend on which thread was first."""
    counts, sums = next(found)
    for more_counts, more_sums in found:
        counts += more_counts
        sums += more_sums
    return counts, sums


def _cut(ranking: Ranking, groups: _Groups, taken: NDArray[np.int64], monitor: Monitor) -> Cut:
    """Return the cut that prunes so many entries of each group, which are the lowest."""
    pruned = int(taken.sum())
    odd = int(groups.counts[_non_finite(ranking.keys, groups.first)].sum())
    if pruned == 0:
        return Cut(0, -1, 0, odd)
    last = int(np.flatnonzero(taken)[-1])
    # All of it that may go goes, and nothing asked to split it; or it is NaN, which has many keys.
    if groups.bits[last] or _non_finite(ranking.keys, groups.first[last : last + 1]).any():
        [cut] = find_cuts([ranking], pruned, monitor)
        return cut
    key, ties = int(groups.first[last]), int(taken[last])
    all_go = ties == groups.counts[last]
    last_tie = ranking.keys.size - 1 if all_go else nth_tie(ranking, key, ties, monitor)
    return Cut(key, last_tie, pruned, odd)


def _squares(keys: KeySource, some: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the squares of the numbers that some keys stand for."""
    assert isinstance(keys, ScoreKeys)
    values = torch.from_numpy(some.astype(f"i{keys.width}")).view(keys.dtype)
    squares: NDArray[np.float64] = values.double().square().clamp(max=LARGEST).numpy()
    return squares


def _non_finite(keys: KeySource, some: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of some keys stand for NaN or infinity."""
    assert keys.first_non_finite is not None
    return some >= keys.first_non_finite
