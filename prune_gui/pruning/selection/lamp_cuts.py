"""Selection of the k elements of lowest LAMP score in any set of tensors, without a sort or a copy.

score(w) = w^2 / (sum of v^2 over the elements v of the tensor with |v| >= |w|): Lee et al.,
"Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021.

Within a tensor the score grows with |w|. A *group* is the set of keys with the same leading bits.
Its count, its sum of squares and the sum of all squares above it bound the scores of its elements.
The groups of all tensors then bound the k-th lowest score, and only groups that overlap these
bounds are split further. In a 16-bit type the first pass resolves every single key. In a 32-bit
type it leaves about one group per tensor, and the second pass resolves each key of that group. A
third pass reads few tensors, if any. For small tensors, see
`prune_gui.pruning.selection.lamp_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.pruning.arrays import Flags, Ints, Numbers
from prune_gui.pruning.selection.batched import batches_of_small
from prune_gui.pruning.selection.keys import Ranking
from prune_gui.pruning.selection.lamp_groups import BatchedGroups, Part, ScoreGroups, TensorGroups
from prune_gui.pruning.selection.radix_select import Cut


def find_lamp_cuts(rankings: Sequence[Ranking], k: int, monitor: Monitor) -> list[Cut]:
    """Return a cut per ranking; together they prune the `k` elements of lowest LAMP score.

    Elements of equal score are pruned in the order of rankings, then of keys, then of flat indices.
    Non-finite numbers rank highest and are left out of the sums. Scores are float64; the sums of
    squares do not depend on the number of threads. `rankings` have `ScoreKeys`, of any dtypes.
    """
    groups = [_groups(batch) for batch in batches_of_small(rankings)]
    with monitor.plan(sum(own.work for own in groups)):
        _split(groups, dict.fromkeys(range(len(groups)), 0), monitor)
        for attempt in count():
            table = _GroupTable.of(groups)
            unclear = table.unclear(k, halve=attempt % 2 == 1)
            if not unclear:
                break
            _split(groups, unclear, monitor)
        ends = np.cumsum([len(own.bits) for own in groups])
        taken = zip(groups, np.split(table.take(k), ends[:-1]), strict=True)
        cuts = parallel.run(lambda pair: pair[0].cuts(pair[1], monitor), taken)
        return [cut for own in cuts for cut in own]


def _groups(batch: Sequence[Ranking]) -> ScoreGroups:
    return BatchedGroups.whole(batch) if len(batch) > 1 else TensorGroups.whole(batch[0])


@dataclass(frozen=True, slots=True)
class _GroupTable:
    """The groups of all owners (tensors or batches) in order, one array element per group.

    A group is `single` if all its elements have the same score.
    """

    owners: Ints
    indices: Ints
    single: Flags
    min_scores: Numbers
    max_scores: Numbers
    units: Ints

    @classmethod
    def of(cls, owners: Sequence[ScoreGroups]) -> _GroupTable:
        columns = []
        for i, own in enumerate(owners):
            indices = np.arange(len(own.bits))
            columns.append(
                (np.full_like(indices, i), indices, own.bits == 0, *own.bounds(), own.units)
            )
        return cls(*map(np.concatenate, zip(*columns, strict=True)))

    def unclear(self, k: int, *, halve: bool) -> dict[int, int]:
        """Return, by owner, the index of a group to split before the k lowest scores are known.

        Each owner with unclear groups has one: the nearest to an estimate of the k-th lowest score.
        With `halve`, the estimate is the median of the unclear groups, so that their number falls
        fast for any distribution of scores.
        """
        if k == 0:
            return {}
        low, high = (
            _kth_lowest(bounds, self.units, k) for bounds in (self.min_scores, self.max_scores)
        )
        overlaps = (self.units > 0) & (self.min_scores <= high) & (self.max_scores >= low)
        unclear = np.flatnonzero(overlaps & ~self.single)
        if not unclear.size:
            return {}
        if halve:
            estimate = float(np.median(self.min_scores[unclear]))
        else:
            below = int(self.units[self.max_scores < low].sum())
            estimate = self._estimate(np.flatnonzero(overlaps), k - below, low, high)
        distances = np.maximum(
            self.min_scores[unclear] - estimate, estimate - self.max_scores[unclear]
        )
        nearest = unclear[np.lexsort((np.maximum(distances, 0), self.owners[unclear]))]
        owners, first = np.unique(self.owners[nearest], return_index=True)
        return dict(zip(owners.tolist(), self.indices[nearest[first]].tolist(), strict=True))

    def _estimate(self, some: NDArray[np.intp], k: int, low: float, high: float) -> float:
        """Estimate the k-th lowest score of some groups, as if scores within each were uniform."""
        min_scores, units = self.min_scores[some], self.units[some]
        widths = np.maximum(self.max_scores[some] - min_scores, 1e-300)
        for _ in range(60):
            middle = (low + high) / 2
            if (units * np.clip((middle - min_scores) / widths, 0, 1)).sum() < k:
                low = middle
            else:
                high = middle
        return high

    def take(self, k: int) -> Ints:
        """Return the number of elements to prune of each group, of equal scores the first."""
        order = np.argsort(self.min_scores, kind="stable")
        units = self.units[order]
        taken = np.empty_like(units)
        taken[order] = np.clip(k - (np.cumsum(units) - units), 0, units)
        return taken


def _kth_lowest(scores: Numbers, units: Ints, k: int) -> float:
    """Return the k-th lowest score, where each score occurs `units` times."""
    order = np.argsort(scores, kind="stable")  # fast: the scores are a few ascending runs
    return float(scores[order[np.searchsorted(np.cumsum(units[order]), k)]])


def _split(groups: list[ScoreGroups], chosen: Mapping[int, int], monitor: Monitor) -> None:
    """Replace the chosen group of each owner in `chosen` by its parts, in one pass over them."""
    readers = {owner: groups[owner].readers(index) for owner, index in chosen.items()}
    batches = [(owner, own[0]) for owner, own in readers.items() if len(own) == 1]
    spans = [(owner, read) for owner, own in readers.items() if len(own) > 1 for read in own]
    results = chain(
        parallel.run(partial(_read, monitor=monitor), batches),
        parallel.spread(_read, spans, monitor),
    )
    for owner, parts in groupby(results, key=itemgetter(0)):
        groups[owner] = groups[owner].with_parts(chosen[owner], [part for _, part in parts])


def _read(task: tuple[int, Callable[[Monitor], Part]], monitor: Monitor) -> tuple[int, Part]:
    owner, read = task
    return owner, read(monitor)
