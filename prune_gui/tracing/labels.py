"""Labels of channels: which elements of tensors go together, as classes of numbers.

Every channel of every dimension of every parameter has a label of its own, a number from 1 on.
Label 0 is what must stay. What must go together is joined; all that is joined with 0 stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

Labels = NDArray[np.int64]
FIXED: Final = 0


class LabelClasses:
    """Disjoint sets of labels (union-find over arrays)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._owners: list[tuple[str, int]] = []
        self._size = 1
        self._root: Labels = np.zeros(1, np.int64)
        self._pairs: list[tuple[Labels, Labels]] = []

    def add(self, name: str, dim: int, count: int) -> torch.Tensor:
        """Return new labels (count,) of the channels of a dimension of a parameter."""
        self._starts.append(self._size)
        self._owners.append((name, dim))
        self._size += count
        return torch.arange(self._size - count, self._size)

    def owner(self, label: int) -> tuple[str, int]:
        """Return the parameter and the dimension of a label that is not 0."""
        return self._owners[bisect_right(self._starts, label) - 1]

    def dimensions(self) -> Iterator[tuple[str, int, Labels]]:
        """Yield each dimension of a parameter with the classes of its channels."""
        roots, ends = self.roots(), [*self._starts[1:], self._size]
        for (name, dim), start, end in zip(self._owners, self._starts, ends, strict=True):
            yield name, dim, roots[start:end]

    def join(self, first: torch.Tensor, second: torch.Tensor) -> None:
        """Join labels element by element; the shapes are broadcast."""
        one, other = _without_repeats(first, second)
        differ = one != other
        if differ.any():
            self._pairs.append((one[differ].numpy(), other[differ].numpy()))

    def fix(self, labels: torch.Tensor) -> None:
        """Let channels stay."""
        self.join(labels, torch.zeros((), dtype=torch.int64))

    def roots(self) -> Labels:
        """Return the class of each label: the smallest label in it, int64 (labels,)."""
        known = len(self._root)
        if known < self._size:
            self._root = np.concatenate([self._root, np.arange(known, self._size)])
        if self._pairs:
            first, second = (np.concatenate(side) for side in zip(*self._pairs, strict=True))
            self._pairs = []
            while len(first):
                first, second = self._root[first], self._root[second]
                differ = first != second
                first, second = first[differ], second[differ]
                np.minimum.at(self._root, np.maximum(first, second), np.minimum(first, second))
                while (jumped := self._root[self._root]).tobytes() != self._root.tobytes():
                    self._root = jumped
        return self._root


def varying(layer: torch.Tensor) -> list[int]:
    """Return the dimensions along which compact labels differ."""
    return [dim for dim, n in enumerate(layer.shape) if n > 1 and layer.stride(dim)]


def compact(layer: torch.Tensor) -> torch.Tensor:
    """Return labels with a stride of 0 along all dimensions along which they do not differ."""
    for dim, length in enumerate(layer.shape):
        if layer.stride(dim) and length > 1:
            first = layer.narrow(dim, 0, 1)
            if torch.equal(first.expand_as(layer), layer):
                layer = first.expand_as(layer)
    return layer


def without(layer: torch.Tensor, dims: Iterable[int]) -> torch.Tensor:
    """Return the first labels along some dimensions, which get the length 1."""
    for dim in dims:
        layer = layer.narrow(dim, 0, 1)
    return layer


def divided(layer: torch.Tensor, dim: int, parts: int) -> torch.Tensor:
    """Return labels with a dimension divided in two: (parts, length of a part)."""
    return layer.reshape(*layer.shape[:dim], parts, -1, *layer.shape[dim + 1 :])


def _without_repeats(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return flat labels of both, broadcast, without dimensions along which they do not differ."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    both: tuple[torch.Tensor, ...] = first.expand(shape), second.expand(shape)
    for dim, length in enumerate(both[0].shape):
        if length > 1 and not any(one.stride(dim) for one in both):
            both = tuple(one.narrow(dim, 0, 1) for one in both)
    return tuple(one.reshape(-1) for one in both)
