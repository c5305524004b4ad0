"""The storages of a torch file: mapped pages of the file, or memory with copies of its bytes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from prune_gui.checkpoint.source import CHUNK_BYTES, Source
from prune_gui.checkpoint.torch.pickle_machine import FalseClaimError
from prune_gui.checkpoint.torch.unpickling import Storages
from prune_gui.checkpoint.torch.zip_layout import Record, TorchLayout
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr
from prune_gui.memory import shortage

LARGE_BYTES: Final = 1 << 24
"""From this size on, the free memory is checked before a storage is allocated."""
LEGACY_COUNT_BYTES: Final = 8
"""The bytes of the number of elements, with which each storage of a legacy file starts."""


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """Where the bytes of a storage are, in memory and in the file.

    Attributes:
        address: the address of the first byte in memory.
        nbytes: the size in bytes.
        record: the name of the record of the archive; "" in a legacy file.
        start: the position of the first byte in the record, or in the legacy file.
    """

    address: int
    nbytes: int
    record: str
    start: int


class FileStorages(Storages):
    """The storages of one file.

    Allocated memory is zero until it is filled, so that old memory of the process never appears as
    values if the file omits some.

    Attributes:
        nbytes: the total bytes of all storages.
        locations: where the storages with bytes are; complete after `fill`.
    """

    def __init__(self, source: Source) -> None:
        self.nbytes = 0
        self.locations: list[StorageLocation] = []
        self._source = source
        self._reserved = 0

    @abstractmethod
    def fill(self) -> None:
        """Read the values of all storages that are not mapped."""

    def reserve(self, nbytes: int) -> torch.UntypedStorage:
        """Return zeroed memory, which the system allocates when it is first written to."""
        self._reserved += nbytes
        try:
            if nbytes >= LARGE_BYTES:
                self._check_memory()
            return self._zeros(nbytes)
        except MemoryError as error:
            raise self._memory_error(
                tr("{count:,} bytes of memory", count=self._reserved)
            ) from error

    @staticmethod
    def _zeros(nbytes: int) -> torch.UntypedStorage:
        return torch.from_numpy(np.zeros(nbytes, np.uint8)).untyped_storage()

    def _check_memory(self) -> None:
        if (shortfall := shortage(self._reserved)) is not None:
            raise self._memory_error(shortfall)

    def _memory_error(self, shortfall: str) -> CheckpointError:
        return CheckpointError(
            tr(
                "{name} cannot be read in chunks, and loading it requires {lack}. Save it again "
                "with torch.save of a recent torch, or close other programs.",
                name=self._source.path.name,
                lack=shortfall,
            )
        )


class ZipStorages(FileStorages):
    """Storages that are records of an archive.

    Records that are uncompressed, aligned and in the byte order of this machine are mapped.

    Args:
        swapped: whether the values are in the other byte order.
    """

    def __init__(
        self, source: Source, layout: TorchLayout, *, swapped: bool, values: bool = True
    ) -> None:
        super().__init__(source)
        self._layout = layout
        self._values = values
        self._swapped = swapped
        self._pages: torch.Tensor | None = None
        self._pending: list[tuple[str, torch.UntypedStorage, torch.dtype]] = []

    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        """Return the bytes of a record, or memory for them; see `Storages.storage`."""
        name = f"data/{key}"
        record = self._layout.records.get(name)
        if record is None:
            raise FalseClaimError(deferred("its storage {key!r} is missing", key=key))
        if nbytes != record.nbytes:  # torch compares them too
            raise FalseClaimError(
                deferred(
                    "its storage {key!r} is declared with {claimed:,} bytes and has {size:,}",
                    key=key,
                    claimed=nbytes,
                    size=record.nbytes,
                )
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
        """Unpack the records that are not mapped; see `FileStorages.fill`."""
        if not self._values:
            return
        self._check_memory()
        for name, values, dtype in self._pending:
            octets = torch.empty(0, dtype=torch.uint8).set_(values)
            self._layout.read_into(name, octets.numpy().data)
            if self._swapped:
                swap: Any = values.byteswap
                swap(dtype)

    def _check_memory(self) -> None:
        if self._values:
            super()._check_memory()

    def _is_mapped(self, record: Record, dtype: torch.dtype) -> bool:
        return record.stored and not self._swapped and record.start % dtype.itemsize == 0

    def _mapped(self, record: Record) -> torch.UntypedStorage:
        """Return a storage of a record; all of them share one mapping of the file."""
        if self._pages is None:
            self._pages = self._source.pages(0, self._source.size)
        octets = self._pages.numpy()[record.start : record.start + record.nbytes]
        return torch.frombuffer(octets, dtype=torch.uint8).untyped_storage()


class LegacyStorages(FileStorages):
    """Storages that follow the pickles of a legacy file.

    Attributes:
        order: the keys in file order, as listed in the last pickle.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.order: list[object] = []
        self._storages: dict[str, tuple[torch.UntypedStorage, int]] = {}

    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        """Return memory for a storage; see `Storages.storage`."""
        if dtype is None:
            raise FalseClaimError(
                deferred("its dtypes are newer than its file format, and torch cannot read them")
            )
        self.nbytes += nbytes
        self._check_claim(len(self._storages) + 1, self._source.size)
        self._storages[key] = self.reserve(nbytes), dtype.itemsize
        return self._storages[key][0]

    def fill(self) -> None:
        """Read all storages from the current position of the file; see `FileStorages.fill`."""
        self._check_memory()
        order = [key for key in self.order if isinstance(key, str)]
        if len(self.order) != len(self._storages) or set(order) != self._storages.keys():
            raise FalseClaimError(deferred("some of its storages are missing"))
        self._check_claim(len(order), self._source.size - self._source.file.tell())
        for key in order:
            values, itemsize = self._storages[key]
            count = int.from_bytes(self._source.file.read(LEGACY_COUNT_BYTES), "little")
            if count * itemsize != values.nbytes():
                raise FalseClaimError(
                    deferred("its storage {key!r} does not have its declared size", key=key)
                )
            start = self._source.file.tell()
            self.locations.append(StorageLocation(values.data_ptr(), values.nbytes(), "", start))
            octets = torch.empty(0, dtype=torch.uint8).set_(values).numpy()
            for start in range(0, len(octets), CHUNK_BYTES):
                chunk = octets[start : start + CHUNK_BYTES]
                if self._source.file.readinto(chunk.data) != len(chunk):  # type: ignore[attr-defined]
                    self._source.check()
                    raise FalseClaimError(deferred("some of its storages are missing"))

    def _check_claim(self, count: int, size: int) -> None:
        """Check that `count` storages fit into the remaining `size` bytes of the file."""
        claimed = self.nbytes + LEGACY_COUNT_BYTES * count
        if claimed > size:
            raise FalseClaimError(
                deferred(
                    "its tensors need {claimed:,} bytes, and {size:,} follow its pickle (a partial "
                    "download?)",
                    claimed=claimed,
                    size=size,
                )
            )
