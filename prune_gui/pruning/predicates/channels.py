"""Whole channels along one dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning import kernels
from prune_gui.pruning.keys import Alive
from prune_gui.pruning.once import Once
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.predicates.base import Standing


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which channels of a parameter go, and what they were ranked by.

    Attributes:
        pruned: boolean, one per channel.
        ranks: float, likewise: the least go first, NaN last; None if nothing was ranked.
        there: how many entries of each channel no earlier step pruned; channels of none are out.
    """

    pruned: NDArray[np.bool_]
    ranks: NDArray[np.floating[Any]] | None
    there: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCut:
    """Prunes whole channels along one dimension.

    Attributes:
        shape: of the parameter.
        dim: in [0, len(shape)).
        chosen: found when they are first needed.
    """

    shape: tuple[int, ...]
    dim: int
    chosen: Once[Chosen]

    @property
    def note(self) -> str:
        """How many norms are no plain numbers."""
        ranks = self.chosen().ranks if self.chosen.is_known else None
        odd = 0 if ranks is None else int(np.count_nonzero(~np.isfinite(ranks)))
        return f"{odd:,} channels of NaN or infinite norm rank as the largest" if odd else ""

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        out = np.empty(stop - start, np.bool_)
        kernels.mark_channels(self.chosen().pruned, self._inner, start, out)
        return out

    def standing(self, flat: int) -> Standing:
        """Return how the channel of the entry of that flat index stood."""
        channel = flat // self._inner % self.shape[self.dim]
        chosen = self.chosen()
        pruned, unit = bool(chosen.pruned[channel]), f"channel {channel}"
        if chosen.ranks is None:
            return Standing(pruned, unit)
        there = np.flatnonzero(chosen.there)
        order = there[np.argsort(chosen.ranks[there], stable=True)]
        going = chosen.ranks[chosen.pruned]
        return Standing(
            pruned,
            unit,
            score=float(chosen.ranks[channel]),
            cut=float(going.max()) if going.size else None,
            rank=int(np.flatnonzero(order == channel)[0]) if chosen.there[channel] else None,
            ranked=len(there),
        )

    @property
    def _inner(self) -> int:
        return math.prod(self.shape[self.dim + 1 :])


def count_per_channel(shape: tuple[int, ...], dim: int, marked: Alive) -> NDArray[np.int64]:
    """Return how many entries of each channel along `dim` are marked."""
    counts = np.zeros(shape[dim], np.int64)
    for start, stop in chunks(math.prod(shape)):
        kernels.count_channels(marked(start, stop), math.prod(shape[dim + 1 :]), start, counts)
    return counts
