"""Selection of the lowest scores of tensors on a GPU, where they stay: nothing is read back.

The result is that of `radix_select` on the CPU, bit by bit: keys are the bits of a number without
its sign, of equal keys those of earlier tensors and of lower flat index are pruned first. On CUDA,
`triton_select` does it. Elsewhere, and where Triton is missing, operators of torch do, that
every device has. The digits of the k-th lowest key are found as in `radix_select`; they, and the
number of equal keys to prune, are tensors on the device. Only a number to prune that depends on how
many elements remain needs their count, which is the sum of the first counts of digits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, Protocol

import torch
from torch import Tensor

from prune_gui.pruning.selection.keys import DeviceKeys, Units, count_of

MAX_DIGIT_BITS: Final = 16
PART_ELEMENTS: Final = 1 << 22
"""Elements whose digits are computed at once, in 40 bytes each."""

log = logging.getLogger(__name__)


Select = Callable[[deque[DeviceKeys], Units, torch.dtype], Iterator[Tensor]]


def kept_on_device(
    every: deque[DeviceKeys], units: Units, dtype: torch.dtype = torch.bool
) -> Iterator[Tensor]:
    """Yield a mask per tensor, without the `units` lowest of all remaining elements.

    All keys are of one width and on one device. Those of a tensor are dropped after its mask.
    """
    yield from select_of(every[0].bits.device.type)(every, units, dtype)


@cache
def select_of(device: str) -> Select:
    """Return how to select on devices of a type."""
    if device == "cuda":
        try:
            from prune_gui.pruning.selection.triton_select import select

            keys = DeviceKeys.of(torch.ones(2, device=device), None, largest_first=False)
            list(select(deque([keys]), 1, torch.bool))
        except Exception as error:  # noqa: BLE001 - of any compiler that Triton calls
            log.warning("Triton cannot be used, so pruning on %s is slower: %s", device, error)
        else:
            return select
    return select_portably


class Processes(Protocol):
    """Processes that hold consecutive parts of the same tensors, and select at the same time."""

    def total(self, counts: Tensor) -> Tensor:
        """Return the sum of the counts of all processes."""

    def before(self, counts: Tensor) -> Tensor:
        """Return, for each tensor, the sum of the counts of its earlier elements everywhere."""


def select_portably(
    every: deque[DeviceKeys],
    units: Units,
    dtype: torch.dtype = torch.bool,
    processes: Processes | None = None,
) -> Iterator[Tensor]:
    """Select as `kept_on_device` by operators of torch; of all processes together, if any."""
    device = every[0].bits.device
    prefix = torch.zeros((), dtype=torch.int64, device=device)
    wanted = prefix
    above = every[0].magnitude.bit_length()
    while above:
        shift = max(above - MAX_DIGIT_BITS, 0)
        counts = _count_digits(every, prefix, above, shift)
        if processes is not None:
            counts = processes.total(counts)
        if above == every[0].magnitude.bit_length():
            wanted = torch.full_like(prefix, count_of(units, every, counts))
        is_below = counts.cumsum(0) < wanted
        wanted = wanted - counts.where(is_below, 0).sum()
        prefix = (prefix << (above - shift)) + is_below.sum()
        above = shift
    if processes is not None:
        before = processes.before(torch.stack([_count_equal(keys, prefix) for keys in every]))
        wanted_of = deque(wanted - before)
    while every:
        keys = every.popleft()
        if processes is not None:
            wanted = wanted_of.popleft()
        kept = torch.empty_like(keys.bits, dtype=torch.bool)
        for part, own, remaining in keys.parts(PART_ELEMENTS):
            equal = _equal(own, prefix, remaining)
            ordinal = equal.cumsum(0)
            torch.logical_or(own > prefix, equal & (ordinal > wanted), out=kept[part])
            if remaining is not None:
                kept[part] &= remaining
            wanted = wanted - ordinal[-1]
        shape = keys.shape
        del keys
        yield kept.view(shape).to(dtype)


def _equal(keys: Tensor, key: Tensor, remaining: Tensor | None) -> Tensor:
    return keys == key if remaining is None else (keys == key) & remaining


def _count_equal(keys: DeviceKeys, key: Tensor) -> Tensor:
    parts = keys.parts(PART_ELEMENTS)
    counts = [_equal(own, key, remaining).count_nonzero() for _, own, remaining in parts]
    return torch.stack(counts).sum() if counts else torch.zeros_like(key)


def _count_digits(every: deque[DeviceKeys], prefix: Tensor, above: int, shift: int) -> Tensor:
    """Return how often each digit, of bits `shift` to `above` - 1, follows the prefix, int64."""
    digits = 1 << (above - shift)
    counts = torch.zeros(digits + 1, dtype=torch.int64, device=prefix.device)
    for keys in every:
        for _, own, remaining in keys.parts(PART_ELEMENTS):
            counted = own >> above == prefix
            if remaining is not None:
                counted &= remaining
            index = (own >> shift & digits - 1).long().where(counted, digits)
            ones = torch.ones_like(index, dtype=torch.int32)
            counts += torch.zeros_like(counts, dtype=torch.int32).scatter_add_(0, index, ones)
    return counts[:-1]
