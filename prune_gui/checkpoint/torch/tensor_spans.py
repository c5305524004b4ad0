"""The bytes that tensors span: which tensors share some, and replacing those of some tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from prune_gui.checkpoint.source import byte_chunks

MAX_COMPARISONS: Final = 1 << 19
"""The limit for pairs of views whose spans overlap; beyond it, views are assumed to overlap."""
MAX_EXACT_WORK: Final = 10_000
"""The limit for one comparison; see `max_work` of `numpy.shares_memory`."""

Chunks = Callable[[], Iterator[memoryview]]
"""Returns the bytes of the new values of a tensor in row-major order."""


class HasSpan(Protocol):
    """Something from `start` up to, and without, `stop`."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...


Spanned = TypeVar("Spanned", bound=HasSpan)


class Span(NamedTuple):
    """The memory addresses from the first to the last element of a tensor."""

    start: int
    stop: int
    name: str


class Placement(NamedTuple):
    """New values for a tensor of a torch file.

    Attributes:
        record: the record of the archive; "" in a legacy file.
        start: the position of its first byte in the record, or in the legacy file.
    """

    record: str
    start: int
    tensor: torch.Tensor
    chunks: Chunks

    @property
    def stop(self) -> int:
        """The position after its last byte."""
        return self.start + spanned_nbytes(self.tensor)

    @property
    def is_plain(self) -> bool:
        """Whether the bytes in the file are the values in row-major order."""
        tensor = self.tensor
        return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of storage elements that a strided view spans."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def spanned_nbytes(tensor: torch.Tensor) -> int:
    """Return the bytes from the first element of a strided tensor to its last."""
    return extent(tensor.shape, tensor.stride()) * tensor.itemsize


def repeats_elements(tensor: torch.Tensor) -> bool:
    """Return whether two elements of a strided tensor may be the same one of its storage."""
    spanned = 1
    dims = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for step, size in dims:
        if size > 1:
            if step < spanned:
                return True
            spanned += (size - 1) * step
    return False


def overlapping(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return, for each tensor that shares elements with another one, the name of the other."""
    partners: dict[str, str] = {}
    comparisons_left = MAX_COMPARISONS
    for cluster in clusters(sorted(map(_span, tensors, tensors.values()))):
        for i, one in enumerate(cluster):
            comparisons_left -= i
            if comparisons_left <= 0:
                partners[one.name] = cluster[0].name
                continue
            for other in cluster[:i]:
                both_found = one.name in partners and other.name in partners
                if other.stop <= one.start or both_found:
                    continue
                if _share_elements(tensors[one.name], tensors[other.name]):
                    partners.setdefault(one.name, other.name)
                    partners.setdefault(other.name, one.name)
    return partners


def _span(name: str, tensor: torch.Tensor) -> Span:
    return Span(tensor.data_ptr(), tensor.data_ptr() + spanned_nbytes(tensor), name)


def clusters(spans: Iterable[Spanned]) -> Iterator[list[Spanned]]:
    """Yield groups of overlapping spans; `spans` is sorted by start."""
    cluster: list[Spanned] = []
    stop = 0
    for span in spans:
        if cluster and span.start >= stop:
            yield cluster
            cluster = []
        cluster.append(span)
        stop = max(stop, span.stop)
    if cluster:
        yield cluster


def _share_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors whose spans overlap have an element in common."""
    if one.is_contiguous() and other.is_contiguous():
        return True
    try:
        # numpy's stub allows only two special values.
        return np.shares_memory(_as_array(one), _as_array(other), MAX_EXACT_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _MemoryLayout:
    """The memory layout of a tensor of any dtype for numpy, which does not read the elements."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.itemsize for step in tensor.stride()),
            "typestr": f"|V{tensor.itemsize}",
        }


def _as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(_MemoryLayout(tensor))


def replaced(octets: torch.Tensor, placements: Sequence[Placement]) -> Iterator[memoryview]:
    """Yield flat uint8 bytes with the elements of some tensors replaced, at most 4 MiB at a time.

    At most one tensor, or a few whose spans overlap, is in memory as a whole, and only if it is
    not contiguous.
    """
    done = 0
    for cluster in clusters(sorted(placements, key=lambda placed: placed.start)):
        start, stop = cluster[0].start, max(placed.stop for placed in cluster)
        yield from byte_chunks(octets[done:start])
        if len(cluster) == 1 and cluster[0].is_plain:
            yield from cluster[0].chunks()
        else:
            block = octets[start:stop].clone()
            for placed in cluster:
                _scatter(placed, block[placed.start - start :])
            yield from byte_chunks(block)
        done = stop
    yield from byte_chunks(octets[done:])


def _scatter(placed: Placement, block: torch.Tensor) -> None:
    """Write the new values of a strided tensor into bytes that start with its first element."""
    old = placed.tensor
    values = torch.frombuffer(bytearray(b"".join(placed.chunks())), dtype=torch.uint8)
    if old.is_conj() or old.is_neg():  # the file has the values before this
        values = values.view(old.dtype)
        values = values.conj().resolve_conj() if old.is_conj() else values
        values = (values.neg() if old.is_neg() else values).view(torch.uint8)
    shape = (*old.shape, old.itemsize)
    strides = (*(step * old.itemsize for step in old.stride()), 1)
    block.as_strided(shape, strides).copy_(values.reshape(shape))
