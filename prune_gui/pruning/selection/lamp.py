"""The k entries of least LAMP score over any set of tensors, by counting: no sort, no copy.

score(w) = w^2 / (sum of v^2 over the entries v of the tensor with |v| >= |w|): Lee et al.,
"Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021.

Within a tensor the score grows with |w|. So of a *group*, the keys that agree in their leading
bits, the count, the sum of squares, and the sum of all squares above it say between which scores
its entries lie. The groups of all tensors then say between which scores the k-th smallest lies,
and only groups that reach into that stretch need be looked at more closely: the first pass over a
16-bit type knows every single key; over a 32-bit one it leaves about one group per tensor, and the
second pass knows every key of that. A third reads a few of the tensors, if any. Small tensors are
taken together, see `prune_gui.pruning.selection.lamp_batched`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.selection.batched import batches_of_small
from prune_gui.pruning.selection.lamp_batched import JoinedGroups
from prune_gui.pruning.selection.lamp_groups import Groups, TensorGroups
from prune_gui.pruning.selection.radix_select import Cut, Ranking


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
    groups = [_groups(run) for run in batches_of_small(rankings)]
    with monitor.plan(sum(own.work for own in groups)):
        _split(groups, dict.fromkeys(range(len(groups)), 0), monitor)
        for attempt in count():
            field = _Field.of(groups)
            unclear = field.unclear(k, halve=attempt % 2 == 1)
            if not unclear:
                break
            _split(groups, unclear, monitor)
        ends = np.cumsum([len(own.bits) for own in groups])
        taken = zip(groups, np.split(field.take(k), ends[:-1]), strict=True)
        cuts = parallel.run(lambda one: one[0].cuts(one[1], monitor), taken)
        return [cut for every in cuts for cut in every]


def _groups(run: Sequence[Ranking]) -> Groups:
    return JoinedGroups.whole(run) if len(run) > 1 else TensorGroups.whole(run[0])


@dataclass(frozen=True, slots=True)
class _Field:
    """All groups side by side: those of the first tensor, of the second, and so on.

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
    def of(cls, every: Sequence[Groups]) -> _Field:
        columns = []
        for i, own in enumerate(every):
            places = np.arange(len(own.bits))
            columns.append(
                (np.full_like(places, i), places, own.bits == 0, *own.bounds(), own.units)
            )
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


def _split(groups: list[Groups], chosen: Mapping[int, int], monitor: Monitor) -> None:
    """Replace the chosen group of each of some tensors by its parts, in one pass over those."""
    tasks = [
        (index, look) for index in chosen for look in groups[index].looks(chosen[index], monitor)
    ]
    found = parallel.run(lambda task: (task[0], task[1]()), tasks)
    for index, parts in groupby(found, key=itemgetter(0)):
        groups[index] = groups[index].with_parts(chosen[index], [part for _, part in parts])
