"""Masks that a plug-in makes: too much to keep for every parameter, so some are made again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.predicates.base import ElementRank, Predicate

KEPT_AT_MOST: Final = 1 << 28
"""Bytes of all packed masks together: two billion entries. The mask in use is kept in any case."""


class PackedMask:
    """One bit per entry, 1 where pruned: kept while there is room, and made again when needed.

    Args:
        make: returns a boolean array of one dimension, the same each time.
        maker: what to call it in a message.
    """

    def __init__(self, make: Callable[[], NDArray[np.bool_]], maker: str) -> None:
        self._make = make
        self._maker = maker
        self._digest: bytes | None = None
        self._making = threading.Lock()

    def bits(self) -> NDArray[np.uint8]:
        """Return the bits, the first entry's lowest.

        Raises:
            RecipeError: they cannot be made, or are no longer what they were.
        """
        found = _look_up(self)
        if found is None:
            with self._making:
                found = _look_up(self)
                if found is None:
                    found = np.packbits(self._make(), bitorder="little")
                    self._compare(found)
                    _keep(self, found)
        return found

    def _compare(self, bits: NDArray[np.uint8]) -> None:
        digest = hashlib.blake2b(bits.data, digest_size=16).digest()
        if self._digest not in (None, digest):
            raise RecipeError(
                tr(
                    "{maker} made another mask when it was asked again. Random numbers have to "
                    "come from torch's default generator, and nothing else may change from call to "
                    "call.",
                    maker=self._maker,
                )
            )
        self._digest = digest


_kept: WeakKeyDictionary[PackedMask, NDArray[np.uint8]] = WeakKeyDictionary()
_changing = threading.Lock()
"""The masks at hand, the latest used last."""


def _look_up(mask: PackedMask) -> NDArray[np.uint8] | None:
    with _changing:
        bits = _kept.pop(mask, None)
        if bits is not None:
            _kept[mask] = bits
        return bits


def _keep(mask: PackedMask, bits: NDArray[np.uint8]) -> None:
    with _changing:
        spare = KEPT_AT_MOST - bits.nbytes - sum(other.nbytes for other in _kept.values())
        for oldest in list(_kept):
            if spare >= 0:
                break
            spare += _kept.pop(oldest).nbytes
        _kept[mask] = bits


@dataclass(frozen=True, slots=True, eq=False)
class PluginMask(Predicate):
    """Prunes where a packed mask says so.

    Attributes:
        mask: of this parameter, or of several one after the other.
        first: where in it this parameter begins.
    """

    mask: PackedMask
    first: int = 0
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        begin, end = self.first + start, self.first + start + codes.size
        part = np.unpackbits(self.mask.bits()[begin // 8 : -(-end // 8)], bitorder="little")
        offset = begin % 8
        pruned = part[offset : offset + end - begin].view(np.bool_)
        key_kernels.mark_where(pruned, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return what the mask says of the entry of that flat index."""
        return ElementRank(bool(self.prunes(flat, flat + 1)[0]))
