"""Sums of tensors that several threads and devices add to."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)


class DeviceSums(Generic[Key]):
    """A sum of tensors for each key, kept on the device of its terms until it is asked for.

    Each key and each device on which it has terms takes one tensor. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Key, dict[torch.device, Tensor]] = {}
        self.counts: Counter[Key] = Counter()

    def add(self, key: Key, term: Tensor, count: int = 1) -> None:
        """Add a tensor to the sum of a key, and a number to its count."""
        with self._lock, torch.inference_mode(False), torch.no_grad():
            self.counts[key] += count
            sums = self._sums.setdefault(key, {})
            if term.device in sums:
                sums[term.device] += term
            else:
                # a tensor of the inference mode could not be changed outside of it
                sums[term.device] = term.clone() if term.is_inference() else term

    @property
    def keys(self) -> list[Key]:
        """The keys that have a sum, in the order of their first terms."""
        return list(self._sums)

    def shape(self, key: Key) -> tuple[int, ...]:
        """Return the shape of the sum of a key."""
        return tuple(next(iter(self._sums[key].values())).shape)

    def total(self, key: Key) -> Tensor:
        """Return the sum of a key over all devices, on the CPU."""
        first, *others = self._sums[key].values()
        total = first.cpu()
        for other in others:
            total = total + other.cpu()
        return total
