"""Predicates that prune whole channels along one dimension, and the result for any whole units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr, trn
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.selection.keys import RemainingMask


@dataclass(frozen=True, slots=True)
class PrunedUnits:
    """The pruned units of a parameter (channels or blocks), and the scores that rank them.

    Attributes:
        pruned: shape (units,), boolean.
        ranks: shape (units,), float scores; the lowest are pruned first, NaN last. None if the
            units were not ranked.
        remaining: shape (units,), the number of remaining elements of each unit; units without any
            are not ranked.
        source: the name of the file that has the scores; "" if they follow from the weights.
    """

    pruned: NDArray[np.bool_]
    ranks: NDArray[np.floating[Any]] | None
    remaining: NDArray[np.int64]
    source: str = ""

    @property
    def non_finite(self) -> int:
        """The number of non-finite scores."""
        return 0 if self.ranks is None else int(np.count_nonzero(~np.isfinite(self.ranks)))

    def element_rank(self, index: int, unit: str) -> ElementRank:
        """Return the score, cut and rank of the unit at `index`; `unit` is its description."""
        pruned = bool(self.pruned[index])
        if self.ranks is None:
            return ElementRank(pruned, unit)
        candidates = np.flatnonzero(self.remaining)
        order = candidates[np.argsort(self.ranks[candidates], stable=True)]
        pruned_ranks = self.ranks[self.pruned]
        return ElementRank(
            pruned,
            unit,
            score=float(self.ranks[index]),
            cut=float(pruned_ranks.max()) if pruned_ranks.size else None,
            rank=int(np.flatnonzero(order == index)[0]) if self.remaining[index] else None,
            ranked=len(candidates),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCut(Predicate):
    """Prunes whole channels along one dimension.

    Attributes:
        shape: of the parameter.
        dim: in [0, len(shape)).
        chosen: the pruned channels, computed on first use.
    """

    shape: tuple[int, ...]
    dim: int
    chosen: Lazy[PrunedUnits]

    @property
    def note(self) -> str:
        """The number of non-finite norms, in words."""
        non_finite = self.chosen().non_finite if self.chosen.is_computed else 0
        if not non_finite:
            return ""
        return trn(
            "{count:,} channel of NaN or infinite norm ranks as the largest",
            "{count:,} channels of NaN or infinite norm rank as the largest",
            non_finite,
        )

    @property
    def lazy(self) -> Lazy[PrunedUnits]:
        """The value that `note` depends on."""
        return self.chosen

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        key_kernels.mark_channels(self.chosen().pruned, self._inner, start, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank of the channel of the element at a flat index."""
        channel = flat // self._inner % self.shape[self.dim]
        return self.chosen().element_rank(channel, tr("channel {number}", number=channel))

    @property
    def _inner(self) -> int:
        return math.prod(self.shape[self.dim + 1 :])


def count_per_channel(shape: tuple[int, ...], dim: int, marked: RemainingMask) -> NDArray[np.int64]:
    """Return the number of marked elements of each channel along `dim`."""
    counts = np.zeros(shape[dim], np.int64)
    for start, stop in chunks(math.prod(shape)):
        key_kernels.count_channels(marked(start, stop), math.prod(shape[dim + 1 :]), start, counts)
    return counts
