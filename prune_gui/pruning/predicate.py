"""What a step says of one parameter: which entries it prunes, for any stretch of them on demand.

A predicate is a few numbers and a way to read what it ranks, whatever the parameter's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning import kernels
from prune_gui.pruning.keys import Alive, KeySource
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.selection import Cut, mark


class Predicate(Protocol):
    """Which entries of one parameter a step prunes, whatever other steps did to them."""

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat (row-major) entries [start, stop)."""


@dataclass(frozen=True, slots=True)
class EntryCut:
    """Prunes the entries whose keys lie below a cut."""

    keys: KeySource
    cut: Cut

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        return mark(self.keys, self.cut, start, stop)


@dataclass(frozen=True, slots=True)
class ChannelCut:
    """Prunes whole channels along one dimension.

    Attributes:
        shape: of the parameter.
        dim: in [0, len(shape)).
        pruned: boolean, one per channel along `dim`.
    """

    shape: tuple[int, ...]
    dim: int
    pruned: NDArray[np.bool_]

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        out = np.empty(stop - start, np.bool_)
        kernels.mark_channels(self.pruned, math.prod(self.shape[self.dim + 1 :]), start, out)
        return out


@dataclass(frozen=True, slots=True)
class GivenMask:
    """Prunes where a mask that was made elsewhere is zero.

    Attributes:
        read: gives the mask: the parameter's shape, any type, every value 0 or 1.
    """

    read: Callable[[], torch.Tensor]

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        # No other type compares every kind of float; fp8 does not compare at all.
        part = self.read().reshape(-1)[start:stop].to(torch.float64)
        pruned: NDArray[np.bool_] = (part == 0).numpy()
        return pruned


def count_per_channel(shape: tuple[int, ...], dim: int, marked: Alive) -> NDArray[np.int64]:
    """Return how many entries of each channel along `dim` are marked."""
    counts = np.zeros(shape[dim], np.int64)
    for start, stop in chunks(math.prod(shape)):
        kernels.count_channels(marked(start, stop), math.prod(shape[dim + 1 :]), start, counts)
    return counts
