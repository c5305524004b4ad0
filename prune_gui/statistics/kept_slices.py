"""Finding what a compact tensor keeps of a whole one: slices along some dimensions, in their order.

Compact files do not say which units they keep; values that are kept unchanged do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui import parallel
from prune_gui.parallel import chunks
from prune_gui.pruning.arrays import Values
from prune_gui.statistics.weight_values import Reader

MAX_SORTED_ELEMENTS: Final = 1 << 24
"""Limit of tensors that lack slices along several dimensions; their elements are sorted."""

KeptSlices = tuple[NDArray[np.bool_], ...]
"""For each dimension of the whole tensor, whether each of its slices is kept."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The shape and the values of a tensor, as its file has them."""

    shape: tuple[int, ...]
    read: Reader

    def bits(self, start: int, stop: int) -> NDArray[np.uint64]:
        values = np.ascontiguousarray(self.read(start, stop))
        return values.view(f"u{values.itemsize}").astype(np.uint64)


def find_kept(whole: StoredTensor, part: StoredTensor) -> KeptSlices | None:
    """Return which slices of a tensor a smaller one consists of; None if it has other values.

    Of equal slices, the first ones count as kept.
    """
    pairs = list(zip(whole.shape, part.shape, strict=False))
    differing = [dim for dim, (size, own) in enumerate(pairs) if size != own]
    if len(whole.shape) != len(part.shape) or any(own > size for size, own in pairs):
        return None
    if 0 in part.shape:
        indices: list[NDArray[np.intp]] | None = [np.arange(own) for own in part.shape]
    elif len(differing) == 1:
        indices = _along(differing[0], whole, part)
    else:
        indices = _along_several(whole, part)
    return None if indices is None else tuple(map(_flags, whole.shape, indices))


def whole_reader(shape: tuple[int, ...], kept: KeptSlices, read: Reader) -> Reader:
    """Return a reader of a whole tensor that is zero where it is not kept.

    Args:
        read: reads the compact tensor. Its order is that of the kept elements, so that those of a
            span are a span of it.
    """
    own_shape = [int(flags.sum()) for flags in kept]
    earlier = [np.cumsum(flags) - flags for flags in kept]

    def rank(start: int) -> int:
        """Return how many kept elements are before a flat index."""
        found = 0
        for dim, index in enumerate(np.unravel_index(start, shape)):
            found += int(earlier[dim][index]) * math.prod(own_shape[dim + 1 :])
            if not kept[dim][index]:
                break
        return found

    def read_whole(start: int, stop: int) -> Values:
        indices = np.unravel_index(np.arange(start, stop), shape)
        is_kept = np.logical_and.reduce([kept[dim][one] for dim, one in enumerate(indices)])
        first, count = rank(start), int(is_kept.sum())
        own = read(first, first + count) if count else np.zeros(0, np.float32)
        values = np.zeros(stop - start, own.dtype)
        values[is_kept] = own
        return values

    return read_whole


def _flags(size: int, indices: NDArray[np.intp]) -> NDArray[np.bool_]:
    flags = np.zeros(size, np.bool_)
    flags[indices] = True
    return flags


def _along(dim: int, whole: StoredTensor, part: StoredTensor) -> list[NDArray[np.intp]] | None:
    """Match the slices along one dimension, in order, by keys of their contents."""
    keys = iter(enumerate(_slice_keys(whole, dim).tolist()))
    matches = [
        next((i for i, key in keys if key == own), -1) for own in _slice_keys(part, dim).tolist()
    ]
    if matches[-1] < 0:  # after one without a match, none is left
        return None
    indices = [np.arange(size) for size in whole.shape]
    indices[dim] = np.array(matches, np.intp)
    return indices


def _slice_keys(tensor: StoredTensor, dim: int) -> NDArray[np.uint64]:
    """Return a key of each slice along a dimension: a sum of its bits with random factors."""
    before, size, inner = (
        math.prod(tensor.shape[:dim]),
        tensor.shape[dim],
        math.prod(tensor.shape[dim + 1 :]),
    )
    random = np.random.default_rng(0)
    across, along = (random.integers(1 << 63, size=n, dtype=np.uint64) for n in (inner, before))
    keys = np.zeros(size, np.uint64)
    step = inner if before == 1 else size * inner
    length = max(1, parallel.CHUNK_ELEMENTS // step) * step
    for start, stop in chunks(before * size * inner, length):
        sums = tensor.bits(start, stop).reshape(-1, inner) @ across
        if before == 1:
            keys[start // inner : stop // inner] = sums
        else:
            keys += along[start // step : stop // step] @ sums.reshape(-1, size)
    return keys


def _along_several(whole: StoredTensor, part: StoredTensor) -> list[NDArray[np.intp]] | None:
    """Match slices along several dimensions by values that occur once in the whole tensor."""
    if math.prod(whole.shape) > MAX_SORTED_ELEMENTS:
        return None
    bits, own = (one.bits(0, math.prod(one.shape)) for one in (whole, part))
    values, positions, counts = np.unique(bits, return_index=True, return_counts=True)
    places = np.minimum(np.searchsorted(values, own), len(values) - 1)
    found = np.flatnonzero((values[places] == own) & (counts[places] == 1))
    targets = np.unravel_index(positions[places[found]], whole.shape)
    indices = [np.full(size, -1, np.intp) for size in part.shape]
    for one, target, index in zip(
        indices, targets, np.unravel_index(found, part.shape), strict=True
    ):
        one[index] = target
    if any(one[0] < 0 or (np.diff(one) <= 0).any() for one in indices):
        return None
    kept = bits.reshape(whole.shape)[np.ix_(*indices)]
    return indices if np.array_equal(kept.ravel(), own) else None
