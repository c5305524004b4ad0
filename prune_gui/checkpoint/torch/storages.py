"""The storages of a torch file: mapped pages of the file, or memory with copies of its bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import torch

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import CHUNK_BYTES, Source, byte_chunks
from prune_gui.checkpoint.torch.zip_layout import Record, TorchLayout
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.memory import shortage

LARGE_BYTES: Final = 1 << 24
"""From this size on, the free memory is checked before a storage is allocated."""
LEGACY_COUNT_BYTES: Final = 8
"""The bytes of the number of elements, with which each storage of a legacy file starts."""
MAX_CACHED_MAPPINGS: Final = 2
"""Spans of a remote file that stay mapped, because a tensor is read chunk by chunk."""


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """Where the bytes of a storage are, in memory and in the file."""

    address: int
    nbytes: int
    record: str  # of the archive; "" in a legacy file
    start: int  # of the first byte in the record, or in the legacy file


class StorageMap:
    """Finds the storages of tensors by their addresses."""

    def __init__(self, locations: Iterable[StorageLocation]) -> None:
        self._locations = sorted(locations, key=lambda location: location.address)

    def find(self, tensor: torch.Tensor) -> tuple[StorageLocation, int] | None:
        """Return the storage of a tensor, and in it the position of its first byte."""
        address = tensor.data_ptr()
        index = bisect_right(self._locations, address, key=lambda each: each.address) - 1
        if index < 0:
            return None
        location = self._locations[index]
        start = address - location.address
        is_inside = start + spanned_nbytes(tensor) <= location.nbytes
        return (location, start) if is_inside else None


class FileStorages(ABC):
    """The storages of one file; `locations` is complete after `fill`.

    Allocated memory is zero until then, so that old memory of the process never appears as values.
    """

    have_values: ClassVar = True
    """Whether their memory has the values of the file after `fill`."""

    layout: TorchLayout | None = None  # of an archive
    swapped = False  # the values are in the other byte order

    def __init__(self, source: Source) -> None:
        self.nbytes = 0
        self.locations: list[StorageLocation] = []
        self._source = source
        self._reserved = 0

    @abstractmethod
    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        """Return the memory for a storage; `dtype` is None if the file does not contain it."""

    @abstractmethod
    def fill(self) -> None:
        """Read the values of all storages that are not mapped."""

    def reserve(self, nbytes: int) -> torch.UntypedStorage:
        """Return zeroed memory, which the system allocates when it is first written to."""
        self._reserved += nbytes
        try:
            if nbytes >= LARGE_BYTES:
                self._check_memory()
            return torch.from_numpy(np.zeros(nbytes, np.uint8)).untyped_storage()
        except MemoryError as error:
            raise self._memory_error(
                tr("{count:,} bytes of memory", count=self._reserved)
            ) from error

    def _check_memory(self) -> None:
        if (shortfall := shortage(self._reserved)) is not None:
            raise self._memory_error(shortfall)

    def _memory_error(self, shortfall: str) -> CheckpointError:
        return CheckpointError(
            "{name} cannot be read in chunks, and loading it requires {lack}. Save it again "
            "with torch.save of a recent torch, or close other programs.",
            name=self._source.path.name,
            lack=shortfall,
        )


class ZipStorages(FileStorages):
    """Storages that are records of an archive.

    Records that are uncompressed, aligned and in the byte order of this machine are mapped, and
    without `values` no others are read. `swapped` means that the values are in the other byte
    order.
    """

    def __init__(
        self, source: Source, layout: TorchLayout, *, swapped: bool, values: bool = True
    ) -> None:
        super().__init__(source)
        self.layout: TorchLayout = layout
        self._values = values
        self.swapped = swapped
        self._pages: torch.Tensor | None = None
        self._pending: list[tuple[str, torch.UntypedStorage, torch.dtype]] = []

    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        """Return the bytes of a record, or memory for them."""
        name = f"data/{key}"
        record = self.layout.records.get(name)
        if record is None:
            raise FalseClaimError("its storage {key!r} is missing", key=key)
        if nbytes != record.nbytes:  # torch compares them too
            raise FalseClaimError(
                "its storage {key!r} is declared with {claimed:,} bytes and has {size:,}",
                key=key,
                claimed=nbytes,
                size=record.nbytes,
            )
        self.nbytes += nbytes
        if nbytes == 0:
            return self.reserve(0)
        dtype = dtype or torch.uint8
        if self._is_mapped(record, dtype):
            values = self._mapped(record)
        else:
            values = self.reserve(nbytes)
            self._pending.append((name, values, dtype))
        self.locations.append(StorageLocation(values.data_ptr(), nbytes, name, 0))
        return values

    def fill(self) -> None:
        """Unpack the records that are not mapped."""
        if not self._values:
            return
        self._check_memory()
        for name, values, dtype in self._pending:
            octets = torch.empty(0, dtype=torch.uint8).set_(values)
            self.layout.read_into(name, octets.numpy().data)
            if self.swapped:
                swap: Any = values.byteswap
                swap(dtype)

    def _check_memory(self) -> None:
        if self._values:
            super()._check_memory()

    def _is_mapped(self, record: Record, dtype: torch.dtype) -> bool:
        return record.stored and not self.swapped and record.start % dtype.itemsize == 0

    def _mapped(self, record: Record) -> torch.UntypedStorage:
        if self._pages is None:
            self._pages = self._source.pages(0, self._source.size)
        octets = self._pages.numpy()[record.start : record.start + record.nbytes]
        return torch.frombuffer(octets, dtype=torch.uint8).untyped_storage()


class UnreadStorages(ZipStorages):
    """Storages whose values are read when they are needed, as of a remote archive.

    Uncompressed records are zeros, which the system does not allocate; others are read at once.
    """

    have_values = False

    def __init__(self, source: Source, layout: TorchLayout, *, swapped: bool) -> None:
        super().__init__(source, layout, swapped=swapped)
        self._cached_pages = lru_cache(MAX_CACHED_MAPPINGS)(source.pages)
        self._unread: list[torch.UntypedStorage] = []  # keeps the addresses taken
        self._map = StorageMap(())

    def fill(self) -> None:
        """Read the records that are compressed or in the other byte order."""
        super().fill()
        self._map = StorageMap(self.locations)

    def read(self, tensor: torch.Tensor, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Return the strided tensor that another stands for; with `stop`, a span of it, flat."""
        span = self.span(tensor)
        if span is None:
            return tensor if stop is None else tensor.reshape(-1)[start:stop]
        shape, strides = tensor.shape, tensor.stride()
        if stop is not None:
            first = span[0] + start * tensor.itemsize
            span = first, first + (stop - start) * tensor.itemsize
            shape, strides = torch.Size((stop - start,)), (1,)
        read_pages = self._cached_pages if stop is None else self._source.pages
        octets = read_pages(*span)
        if octets.data_ptr() % tensor.itemsize:
            octets = octets.clone()
        values = octets.view(tensor.dtype).as_strided(shape, strides)
        values = values.conj() if tensor.is_conj() else values
        return values.neg() if tensor.is_neg() else values

    def span(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """Return the start and stop in the file of a tensor; None if its values are in memory."""
        found = self._map.find(tensor) if tensor.numel() else None
        if found is None:
            return None
        location, position = found
        record = self.layout.records[location.record]
        if not self._is_mapped(record, tensor.dtype):
            return None
        start = record.start + position
        return start, start + spanned_nbytes(tensor)

    def forget_pages(self) -> None:
        """Release the mappings of what was read last."""
        self._cached_pages.cache_clear()

    def _is_mapped(self, record: Record, _dtype: torch.dtype) -> bool:
        return record.stored and not self.swapped

    def _mapped(self, record: Record) -> torch.UntypedStorage:
        self._unread.append(torch.from_numpy(np.zeros(record.nbytes, np.uint8)).untyped_storage())
        return self._unread[-1]


class LegacyStorages(FileStorages):
    """Storages that follow the pickles of a legacy file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.order: list[object] = []  # the keys in file order, from the last pickle
        self._storages: dict[str, tuple[torch.UntypedStorage, int]] = {}

    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        if dtype is None:
            raise FalseClaimError(
                "its dtypes are newer than its file format, and torch cannot read them"
            )
        self.nbytes += nbytes
        self._check_claim(len(self._storages) + 1, self._source.size)
        self._storages[key] = self.reserve(nbytes), dtype.itemsize
        return self._storages[key][0]

    def fill(self) -> None:
        """Read all storages from the current position of the file."""
        self._check_memory()
        file = self._source.file
        order = [key for key in self.order if isinstance(key, str)]
        if len(self.order) != len(self._storages) or set(order) != self._storages.keys():
            raise FalseClaimError("some of its storages are missing")
        self._check_claim(len(order), self._source.size - file.tell())
        for key in order:
            values, itemsize = self._storages[key]
            count = int.from_bytes(file.read(LEGACY_COUNT_BYTES), "little")
            if count * itemsize != values.nbytes():
                raise FalseClaimError(
                    "its storage {key!r} does not have its declared size", key=key
                )
            location = StorageLocation(values.data_ptr(), values.nbytes(), "", file.tell())
            self.locations.append(location)
            octets = torch.empty(0, dtype=torch.uint8).set_(values).numpy()
            for start in range(0, len(octets), CHUNK_BYTES):
                chunk = octets[start : start + CHUNK_BYTES]
                if file.readinto(chunk.data) != len(chunk):  # type: ignore[attr-defined]
                    self._source.check()
                    raise FalseClaimError("some of its storages are missing")

    def _check_claim(self, count: int, size: int) -> None:
        claimed = self.nbytes + LEGACY_COUNT_BYTES * count
        if claimed > size:
            raise FalseClaimError(
                "its tensors need {claimed:,} bytes, and {size:,} follow its pickle (a partial "
                "download?)",
                claimed=claimed,
                size=size,
            )


MAX_COMPARISONS: Final = 1 << 19
"""The limit for pairs of views whose spans overlap; beyond it, views are assumed to overlap."""
MAX_EXACT_WORK: Final = 10_000
"""The limit for one comparison; see `max_work` of `numpy.shares_memory`."""

Chunks = Callable[[], Iterator[memoryview]]
"""Returns the bytes of the new values of a tensor in row-major order."""


class Span(NamedTuple):
    """The memory addresses from the first to the last element of a tensor."""

    start: int
    stop: int
    name: str


class Placement(NamedTuple):
    """New values for a tensor of a torch file."""

    record: str  # of the archive; "" in a legacy file
    start: int  # of its first byte in the record, or in the legacy file
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


Spanned = TypeVar("Spanned", Span, Placement)


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
    starts = [(tensor.data_ptr(), spanned_nbytes(tensor), name) for name, tensor in tensors.items()]
    for cluster in clusters([Span(at, at + nbytes, name) for at, nbytes, name in sorted(starts)]):
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
    if one.is_contiguous() and other.is_contiguous():
        return True
    try:
        # numpy's stub allows only two special values.
        return np.shares_memory(_as_array(one), _as_array(other), MAX_EXACT_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return an array with the memory layout of a tensor of any dtype; numpy reads no elements."""
    interface = {
        "version": 3,
        "data": (tensor.data_ptr(), False),
        "shape": tuple(tensor.shape),
        "strides": tuple(step * tensor.itemsize for step in tensor.stride()),
        "typestr": f"|V{tensor.itemsize}",
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def replaced(octets: torch.Tensor, placements: Sequence[Placement]) -> Iterator[memoryview]:
    """Yield flat uint8 bytes with the elements of some tensors replaced, in chunks of 4 MiB."""
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
