"""Predicates of masks: of those that the user provides, and of those that a plug-in computes."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import torch

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks
from prune_gui.pruning.arrays import Codes, Flags
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.predicates.predicate import Predicate
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.pruning.selection.scores import Scores


@dataclass(frozen=True, slots=True, eq=False)
class CustomMask(Predicate):
    """Prunes where a given mask is 0."""

    mask: Scores

    def mark(self, start: int, step: int, codes: Codes) -> None:
        values = self.mask.part(start, start + codes.size)
        if values.dtype not in _COMPARABLE_DTYPES:
            values = values.to(torch.float64)
        key_kernels.mark_where((values == 0).numpy(), np.uint8(step), codes)

    def count(
        self, remaining_mask: RemainingMask | None, monitor: Monitor, *, check: bool
    ) -> int | None:
        """Return the number of remaining elements to prune; None if `check` finds no mask."""
        pruned = 0
        for start, stop in chunks(math.prod(self.mask.shape)):
            if check:
                chunk = self.mask.part(start, stop).to(torch.float64)
                if not bool(((chunk == 0) | (chunk == 1)).all()):
                    return None
            zeros = self.prunes(start, stop)
            if remaining_mask is not None:
                zeros &= remaining_mask(start, stop)
            pruned += int(zeros.sum())
            monitor.advance((stop - start) * self.mask.dtype.itemsize)
        return pruned


_COMPARABLE_DTYPES: Final = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float32}
)
"""Dtypes that are compared without conversion; torch does not compare fp8 at all."""
MAX_CACHED_BYTES: Final = 1 << 28
"""Limit in bytes of all cached masks: two billion elements. The mask in use is always kept."""


class PackedMask:
    """A mask of one bit per element, 1 where pruned: cached, and computed again after eviction."""

    def __init__(self, make: Callable[[], Flags], maker: str) -> None:
        self._make = make
        self._maker = maker
        self._digest: bytes | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        """Refuse: a mask is too large to send, and another machine does not have the plug-in."""
        raise RecipeError(
            "The masks of {maker} cannot be computed on a cluster. Prune on this machine, or "
            "use a method that is part of the program.",
            maker=self._maker,
        )

    def bits(self) -> Codes:
        """Return the packed bits, least significant bit first."""
        bits = _look_up(self)
        if bits is None:
            with self._lock:
                bits = _look_up(self)
                if bits is None:
                    bits = np.packbits(self._make(), bitorder="little")
                    self._check_unchanged(bits)
                    _keep(self, bits)
        return bits

    def _check_unchanged(self, bits: Codes) -> None:
        digest = hashlib.blake2b(bits.data, digest_size=16).digest()
        if self._digest not in (None, digest):
            raise RecipeError(
                "{maker} returned a different mask in a second call. Draw random numbers from "
                "torch's default generator, and keep no state between calls.",
                maker=self._maker,
            )
        self._digest = digest


_kept: WeakKeyDictionary[PackedMask, Codes] = WeakKeyDictionary()
"""The cached masks, the most recently used last."""
_kept_lock = threading.Lock()


def _look_up(mask: PackedMask) -> Codes | None:
    with _kept_lock:
        bits = _kept.pop(mask, None)
        if bits is not None:
            _kept[mask] = bits
        return bits


def _keep(mask: PackedMask, bits: Codes) -> None:
    with _kept_lock:
        spare = MAX_CACHED_BYTES - bits.nbytes - sum(other.nbytes for other in _kept.values())
        for oldest in list(_kept):
            if spare >= 0:
                break
            spare += _kept.pop(oldest).nbytes
        _kept[mask] = bits


@dataclass(frozen=True, slots=True, eq=False)
class PluginMask(Predicate):
    """Prunes where a packed mask is 1, of which the parameter begins at the bit `first`."""

    mask: PackedMask
    first: int = 0

    def mark(self, start: int, step: int, codes: Codes) -> None:
        begin, end = self.first + start, self.first + start + codes.size
        unpacked = np.unpackbits(self.mask.bits()[begin // 8 : -(-end // 8)], bitorder="little")
        offset = begin % 8
        pruned = unpacked[offset : offset + end - begin].view(np.bool_)
        key_kernels.mark_where(pruned, np.uint8(step), codes)
