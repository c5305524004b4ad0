"""Which bytes of a torch file hold the elements of a tensor, and replacing them alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from prune_gui.checkpoint.source import byte_chunks
from prune_gui.checkpoint.torch.claims import extent
from prune_gui.checkpoint.torch.overlaps import clusters
from prune_gui.checkpoint.torch.storages import StorageLocation

Chunks = Callable[[], Iterator[memoryview]]
"""Returns the bytes of the new values of a tensor in row-major order."""


class Placement(NamedTuple):
    """New values for a tensor of a torch file.

    Attributes:
        record: the record of the archive; "" in a legacy file.
        start: the position of its first byte in the record, or in the legacy file.
        tensor: the tensor in the opened file.
        chunks: the new values.
    """

    record: str
    start: int
    tensor: torch.Tensor
    chunks: Chunks

    @property
    def stop(self) -> int:
        """The position after its last byte."""
        spanned = extent(self.tensor.shape, self.tensor.stride())
        return self.start + spanned * self.tensor.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether the bytes in the file are the values in row-major order."""
        tensor = self.tensor
        return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


class StorageMap:
    """Finds tensors of an opened file in the file."""

    def __init__(self, locations: Sequence[StorageLocation]) -> None:
        self._locations = sorted(locations, key=lambda location: location.address)
        self._addresses = [location.address for location in self._locations]

    def place(self, tensor: torch.Tensor, chunks: Chunks) -> Placement | None:
        """Return where new values of a tensor go; None if the file has no place for them.

        That is the case if the tensor is not a view of a storage of the file, or if several of its
        elements are one in the file.
        """
        address = tensor.data_ptr()
        index = bisect_right(self._addresses, address) - 1
        if index < 0 or _repeats_elements(tensor):
            return None
        location = self._locations[index]
        start = address - location.address
        placed = Placement(location.record, location.start + start, tensor, chunks)
        return placed if placed.stop <= location.start + location.nbytes else None


def _repeats_elements(tensor: torch.Tensor) -> bool:
    """Return whether two elements of a strided tensor may be the same one of its storage."""
    spanned = 1
    dims = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for step, size in dims:
        if size > 1:
            if step < spanned:
                return True
            spanned += (size - 1) * step
    return False


def replaced(octets: torch.Tensor, placements: Sequence[Placement]) -> Iterator[memoryview]:
    """Yield bytes with the elements of some tensors replaced, at most 4 MiB at a time.

    At most one tensor, or a few whose spans overlap, is in memory as a whole, and only if it is
    not contiguous.

    Args:
        octets: the old bytes of a record or of a file: uint8, flat.
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
