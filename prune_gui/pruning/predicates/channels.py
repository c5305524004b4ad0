"""Whole channels along one dimension, and what holds of any units that go as a whole."""

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
class PrunedChannels:
    """Which units of a parameter go, channels or blocks, and what they were ranked by.

    Attributes:
        pruned: boolean, one per unit.
        ranks: float, likewise: the least go first, NaN last; None if nothing was ranked.
        there: how many entries of each unit no earlier step pruned; units of none are out.
    """

    pruned: NDArray[np.bool_]
    ranks: NDArray[np.floating[Any]] | None
    there: NDArray[np.int64]

    @property
    def odd(self) -> int:
        """How many ranks are no plain numbers."""
        return 0 if self.ranks is None else int(np.count_nonzero(~np.isfinite(self.ranks)))

    def element_rank(self, place: int, unit: str) -> ElementRank:
        """Return how the unit of that number stood; `unit` is its name."""
        pruned = bool(self.pruned[place])
        if self.ranks is None:
            return ElementRank(pruned, unit)
        there = np.flatnonzero(self.there)
        order = there[np.argsort(self.ranks[there], stable=True)]
        going = self.ranks[self.pruned]
        return ElementRank(
            pruned,
            unit,
            score=float(self.ranks[place]),
            cut=float(going.max()) if going.size else None,
            rank=int(np.flatnonzero(order == place)[0]) if self.there[place] else None,
            ranked=len(there),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCut(Predicate):
    """Prunes whole channels along one dimension.

    Attributes:
        shape: of the parameter.
        dim: in [0, len(shape)).
        chosen: found when they are first needed.
    """

    shape: tuple[int, ...]
    dim: int
    chosen: Lazy[PrunedChannels]

    @property
    def note(self) -> str:
        """How many norms are no plain numbers."""
        odd = self.chosen().odd if self.chosen.is_known else 0
        if not odd:
            return ""
        return trn(
            "{count:,} channel of NaN or infinite norm ranks as the largest",
            "{count:,} channels of NaN or infinite norm rank as the largest",
            odd,
        )

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        key_kernels.mark_channels(self.chosen().pruned, self._inner, start, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return how the channel of the entry of that flat index stood."""
        channel = flat // self._inner % self.shape[self.dim]
        return self.chosen().element_rank(channel, tr("channel {number}", number=channel))

    @property
    def _inner(self) -> int:
        return math.prod(self.shape[self.dim + 1 :])


def count_per_channel(shape: tuple[int, ...], dim: int, marked: RemainingMask) -> NDArray[np.int64]:
    """Return how many entries of each channel along `dim` are marked."""
    counts = np.zeros(shape[dim], np.int64)
    for start, stop in chunks(math.prod(shape)):
        key_kernels.count_channels(marked(start, stop), math.prod(shape[dim + 1 :]), start, counts)
    return counts
