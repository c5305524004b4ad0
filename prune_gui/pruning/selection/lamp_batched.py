"""Selection of the lowest LAMP scores of many small tensors at once, in groups of scores.

The keys of each tensor are sorted on every pass, which gives the score of each element.
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
from prune_gui.pruning.selection.batched import concatenate, prunable_counts
from prune_gui.pruning.selection.batched_sort import SortedKeys
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.lamp_groups import NON_FINITE_SCORE, Part, numbers_of, squares_of
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.ranking import Ranking

SCORE_BITS: Final = 63
"""Bits of a score: float64 without the sign, which orders as an integer."""
OPEN_BITS: Final = 44
"""Trailing score bits that the first pass ignores: its groups are less than 0.5 % wide."""
PASSES: Final = 3
"""Usual number of passes: by leading bits, over the scores near the cut, to cut each tensor."""
NO_TENSOR: Final = -1


@dataclass(frozen=True, slots=True)
class BatchedGroups:
    """Groups of the LAMP scores in small tensors, by their leading bits, ascending.

    Attributes:
        batch: the ranking of each tensor; all of one dtype.
        first: int64, the bits of the lowest score of each group.
        bits: int64, number of unknown trailing bits; a group of 0 bits is a single score.
        units: int64, number of prunable elements of each group.
        tensors: int64, index of the tensor of a single score; else `NO_TENSOR`.
    """

    batch: Sequence[Ranking]
    first: NDArray[np.int64]
    bits: NDArray[np.int64]
    units: NDArray[np.int64]
    tensors: NDArray[np.int64]

    @classmethod
    def whole(cls, batch: Sequence[Ranking]) -> BatchedGroups:
        """Return a single group of all scores, before any pass."""
        zeros = np.zeros(1, np.int64)
        return cls(batch, zeros, zeros + SCORE_BITS, zeros, zeros + NO_TENSOR)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all keys."""
        return sum(ranking.keys.size * ranking.keys.width for ranking in self.batch)

    @property
    def work(self) -> int:
        """Approximate number of bytes to read until the cuts are known."""
        return PASSES * self.nbytes

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and the upper bound of the scores of each group."""
        last = self.first + (1 << self.bits) - 1
        return self.first.view(np.float64), last.view(np.float64)

    def readers(self, index: int) -> list[Callable[[Monitor], Part]]:
        """Return the function that computes the parts of a group."""
        return [partial(self._parts, index)]

    def with_parts(self, index: int, results: Sequence[Part]) -> BatchedGroups:
        """Return these groups with one of them replaced by its parts."""
        [parts] = results
        columns = zip((self.first, self.bits, self.units, self.tensors), parts, strict=True)
        return BatchedGroups(
            self.batch, *(np.concatenate([a[:index], b, a[index + 1 :]]) for a, b in columns)
        )

    def cuts(self, taken: NDArray[np.int64], monitor: Monitor) -> list[Cut]:
        """Return the cut of each tensor; together they prune `taken` elements of each group."""
        ranked, scores, prunable = self._scores(monitor)
        units = np.zeros_like(prunable)
        if taken.any():
            last = int(np.flatnonzero(taken)[-1])
            tensor, ties = int(self.tensors[last]), int(taken[last])
            limit = int(self.first[last]) + (0 if tensor != NO_TENSOR else 1 << self.bits[last])
            batched_kernels.count_up_to(scores, ranked.bounds, prunable, limit, tensor - 1, units)
            if tensor != NO_TENSOR:
                units[tensor] += ties
        return ranked.cut(units)

    def _parts(self, index: int, monitor: Monitor) -> Part:
        """Return the non-empty parts of a group: narrower groups, or scores tensor by tensor."""
        ranked, scores, prunable = self._scores(monitor)
        if self.bits[index] > OPEN_BITS:
            max_bits = int(np.float64(NON_FINITE_SCORE).view(np.int64))
            counts = np.zeros((max_bits >> OPEN_BITS) + 1, np.int64)
            batched_kernels.count_leading_of_each(
                scores, ranked.bounds, prunable, OPEN_BITS, counts
            )
            occur = np.flatnonzero(counts)
            zeros = np.zeros_like(occur)
            return occur << OPEN_BITS, zeros + OPEN_BITS, counts[occur], zeros + NO_TENSOR
        lowest = int(self.first[index])
        last = lowest + (1 << int(self.bits[index])) - 1
        rows = np.empty((self.units[index], 3), np.int64)
        count = batched_kernels.list_between(scores, ranked.bounds, prunable, lowest, last, rows)
        first, tensors, units = rows[np.argsort(rows[:count, 0], kind="stable")].T
        return first, np.zeros_like(first), units, tensors

    def _scores(self, monitor: Monitor) -> tuple[SortedKeys, NDArray[np.int64], NDArray[np.int64]]:
        """Return sorted keys, the bits of their scores, and the prunable counts of tensors."""
        monitor.advance(self.nbytes)
        ranking, bounds = concatenate(self.batch)
        ranked = SortedKeys.of(ranking.keys, ranking.remaining_mask, bounds)
        first = self.batch[0].keys
        assert isinstance(first, ScoreKeys)
        exponents: int | NDArray[np.int64] = 0
        if first.dtype == torch.float64:
            exponents = np.repeat(_largest_exponents(ranked), np.diff(bounds))
        scores = np.zeros(len(ranked.keys))
        batched_kernels.score_each(
            ranked.ranked,
            squares_of(ranked.ranked, first.dtype, exponents),
            bounds,
            ranked.remaining,
            ranked.keys.dtype.type(first.first_non_finite),
            NON_FINITE_SCORE,
            scores,
        )
        return ranked, scores.view(np.int64), prunable_counts(self.batch, ranked.remaining)


def _largest_exponents(ranked: SortedKeys) -> NDArray[np.int64]:
    """Return the exponent of the largest remaining finite number of each float64 tensor."""
    finite = ranked.remaining - ranked.non_finite
    exponents = np.zeros_like(finite)
    largest = (ranked.bounds[:-1] + finite - 1)[finite > 0]
    exponents[finite > 0] = np.frexp(numbers_of(ranked.ranked[largest], torch.float64))[1]
    return exponents
