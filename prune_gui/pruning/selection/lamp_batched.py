"""Many small tensors of which the least LAMP scores are sought at once, in groups by their scores.

The keys of each are sorted, so that the score of every entry is at hand while they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.kernels import batched as batched_kernels
from prune_gui.pruning.selection.batched import batch_requests, may_go
from prune_gui.pruning.selection.batched_sort import SortedKeys
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.lamp_groups import ABOVE_ALL, Part, numbers_of, squares_of
from prune_gui.pruning.selection.radix_select import Cut, Ranking

ALL_BITS: Final = 63
"""Of a score, which as a float64 without its sign orders as an integer does."""
OPEN_BITS: Final = 44
"""Of those, how many a first look leaves open: the groups are less than half a percent wide."""
LOOKS: Final = 3
"""At all entries, mostly: by leading bits, at the scores about the cut, and to cut each tensor."""
NO_TENSOR: Final = -1


@dataclass(frozen=True, slots=True)
class JoinedGroups:
    """The LAMP scores that occur in small tensors, by their leading bits, ascending.

    Attributes:
        run: the entries of each tensor; of one type.
        first: int64, the bits of the least score that a group can hold.
        bits: int64, how many of its last bits are open; a group of 0 bits is a single score.
        units: int64, how many of its entries may go.
        tensors: int64, whose entries they are where it is a single score, or `NO_TENSOR`.
    """

    run: Sequence[Ranking]
    first: NDArray[np.int64]
    bits: NDArray[np.int64]
    units: NDArray[np.int64]
    tensors: NDArray[np.int64]

    @classmethod
    def whole(cls, run: Sequence[Ranking]) -> JoinedGroups:
        """Return one group of all scores, of which nothing is known."""
        none = np.zeros(1, np.int64)
        return cls(run, none, none + ALL_BITS, none, none + NO_TENSOR)

    @property
    def nbytes(self) -> int:
        """How much there is to read."""
        return sum(ranking.keys.size * ranking.keys.width for ranking in self.run)

    @property
    def work(self) -> int:
        """How many bytes are read until the cuts are known, about."""
        return LOOKS * self.nbytes

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score that entries of each group can have."""
        last = self.first + (1 << self.bits) - 1
        return self.first.view(np.float64), last.view(np.float64)

    def looks(self, place: int, monitor: Monitor) -> list[Callable[[], Part]]:
        """Return what looks more closely at a group."""
        return [partial(self._look, place, monitor)]

    def with_parts(self, place: int, found: Sequence[Part]) -> JoinedGroups:
        """Return these groups with one of them replaced by its parts."""
        [parts] = found
        columns = zip((self.first, self.bits, self.units, self.tensors), parts, strict=True)
        return JoinedGroups(
            self.run, *(np.concatenate([a[:place], b, a[place + 1 :]]) for a, b in columns)
        )

    def cuts(self, taken: NDArray[np.int64], monitor: Monitor) -> list[Cut]:
        """Return the cut of each tensor that prunes so many entries of each group."""
        ranked, scores, going = self._scores(monitor)
        units = np.zeros_like(going)
        if taken.any():
            last = int(np.flatnonzero(taken)[-1])
            tensor, ties = int(self.tensors[last]), int(taken[last])
            limit = int(self.first[last]) + (0 if tensor != NO_TENSOR else 1 << self.bits[last])
            batched_kernels.count_up_to(scores, ranked.bounds, going, limit, tensor - 1, units)
            if tensor != NO_TENSOR:
                units[tensor] += ties
        return ranked.cut(units)

    def _look(self, place: int, monitor: Monitor) -> Part:
        """Return the parts of a group that occur: shorter ones, or its scores tensor by tensor."""
        ranked, scores, going = self._scores(monitor)
        if self.bits[place] > OPEN_BITS:
            most = int(np.float64(ABOVE_ALL).view(np.int64))
            counts = np.zeros((most >> OPEN_BITS) + 1, np.int64)
            batched_kernels.count_leading_of_each(scores, ranked.bounds, going, OPEN_BITS, counts)
            occur = np.flatnonzero(counts)
            none = np.zeros_like(occur)
            return occur << OPEN_BITS, none + OPEN_BITS, counts[occur], none + NO_TENSOR
        least = int(self.first[place])
        last = least + (1 << int(self.bits[place])) - 1
        found = np.empty((self.units[place], 3), np.int64)
        rows = batched_kernels.list_between(scores, ranked.bounds, going, least, last, found)
        first, tensors, units = found[np.argsort(found[:rows, 0], kind="stable")].T
        return first, np.zeros_like(first), units, tensors

    def _scores(self, monitor: Monitor) -> tuple[SortedKeys, NDArray[np.int64], NDArray[np.int64]]:
        """Return sorted keys, the bits of their scores, and how many of each tensor may go."""
        monitor.advance(self.nbytes)
        ranking, bounds = batch_requests(self.run)
        ranked = SortedKeys.of(ranking.keys, ranking.remaining_mask, bounds)
        first = self.run[0].keys
        assert isinstance(first, ScoreKeys)
        exponents: int | NDArray[np.int64] = 0
        if first.dtype == torch.float64:
            exponents = np.repeat(_largest_exponents(ranked), np.diff(bounds))
        scores = np.zeros(len(ranked.keys))
        batched_kernels.score_each(
            ranked.ranked,
            squares_of(ranked.ranked, first.dtype, exponents),
            bounds,
            ranked.there,
            ranked.keys.dtype.type(first.first_non_finite),
            ABOVE_ALL,
            scores,
        )
        return ranked, scores.view(np.int64), may_go(self.run, ranked.there)


def _largest_exponents(ranked: SortedKeys) -> NDArray[np.int64]:
    """Return those of the largest finite number of float64 that each tensor has left."""
    finite = ranked.there - ranked.non_finite
    exponents = np.zeros_like(finite)
    places = (ranked.bounds[:-1] + finite - 1)[finite > 0]
    exponents[finite > 0] = np.frexp(numbers_of(ranked.ranked[places], torch.float64))[1]
    return exponents
