"""Reading `.npz` archives: headers at opening, values mapped or inflated on demand."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from prune_gui.checkpoint.base import FileCheckpoint, Read, Surroundings
from prune_gui.checkpoint.refusal import FalseClaimError, invalid_file
from prune_gui.checkpoint.source import CHUNK_BYTES, Source, byte_chunks
from prune_gui.checkpoint.spans import (
    NUMPY_DTYPES,
    Header,
    SpanCheckpoint,
    SpanTensor,
    checked_nbytes,
    dense,
    dotted,
)
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES, ZIP_ERRORS
from prune_gui.checkpoint.zip_archives import open_archive, zip_errors
from prune_gui.errors import one_line
from prune_gui.language import deferred, tr
from prune_gui.regular_files import SpanFile

if TYPE_CHECKING:
    import torch

PROGRAM: Final = "numpy.savez"
SUFFIX: Final = ".npy"
OWN_RECORD: Final = "prune_gui.json"
"""A record after all others that the directory of the archive does not list.

So `numpy.load` returns the arrays of the checkpoint and nothing else.
"""
MAX_METADATA_BYTES: Final = 1 << 26
MAX_CACHED_TENSORS: Final = 2
"""Tensors that stay in memory, because inflating them again takes longer than using them."""


class NpzMember(NamedTuple):
    """A record of the archive with an array.

    The header of the `.npy` format is before its values, of which the first index changes fastest
    if `fortran`. The span is that of the values in the file; None if they are compressed.
    """

    entry: zipfile.ZipInfo
    header: bytes
    raw: RawTensor
    fortran: bool
    span: tuple[int, int] | None

    @property
    def mapped(self) -> tuple[tuple[int, int], ...]:
        """The span of the values if they can be used as they are in the file."""
        return () if self.span is None or self.fortran else (self.span,)


class OwnRecord(NamedTuple):
    """What this program writes behind the records; no separator if it did not write the file."""

    separator: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    remarks: tuple[str, ...] = ()


class NpzCheckpoint(SpanCheckpoint):
    """An archive that `numpy.savez` wrote.

    Attributes:
        members: the arrays by raw key.
        separator: what stands in a key for the slash in the name of a member.
    """

    format = "npz"

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        """Read and check the directory and the headers of all arrays."""
        self._cached = lru_cache(MAX_CACHED_TENSORS)(self._inflated)
        self.archive, named, starts, self._checks = open_archive(source)
        paths = [name.removesuffix(SUFFIX) for name in named if name.endswith(SUFFIX)]
        ends = (starts[each.header_offset] + each.compress_size for each in named.values())
        end = max(ends, default=0)
        own = _own_record(SpanFile(source.read_at, end, self.archive.start_dir - end))
        self.separator = own.separator or dotted(paths)
        with zip_errors(source):
            self.members: Mapping[str, NpzMember] = {
                path.replace("/", self.separator): self._member(path, named[path + SUFFIX], starts)
                for path in paths
            }
        tensors = {key: SpanTensor(each.raw, each.mapped) for key, each in self.members.items()}
        super().__init__(source, Header(tensors, own.metadata, own.remarks), surroundings)

    def _member(self, path: str, entry: zipfile.ZipInfo, starts: Mapping[int, int]) -> NpzMember:
        """Read the header of an array."""
        import numpy as np  # slow to import

        with self.archive.open(entry) as file:
            try:
                version = np.lib.format.read_magic(file)
                read_header = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }.get(version)
                if read_header is None:  # version 3 has named fields only
                    return _special(entry, "structured")
                shape, fortran, dtype = read_header(file)
                header_nbytes = file.tell()
            except Exception as error:  # NumPy evaluates it as an expression of Python
                raise FalseClaimError(
                    "the header of its array {key!r} is invalid", key=path
                ) from error
            file.seek(0)
            header = file.read(header_nbytes)
        name = NUMPY_DTYPES.get(dtype.str)
        if name is None:
            return _special(entry, str(dtype))
        nbytes = checked_nbytes(path, shape, name)
        if header_nbytes + nbytes != entry.file_size:
            raise FalseClaimError(
                "{key!r} does not fit its {nbytes:,} bytes",
                key=path,
                nbytes=entry.file_size - header_nbytes,
            )
        start = starts[entry.header_offset] + header_nbytes
        span = None if entry.compress_type else (start, start + nbytes)
        # Arrays of one dimension are in both orders.
        fortran = fortran and sum(size > 1 for size in shape) > 1
        return NpzMember(entry, header, RawTensor(shape, name), fortran, span)

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor: mapped, or inflated and in row-major order."""
        return super().read_key(key) if self.spans.get(key) else self._inflated(key)

    def view_key(self, key: str) -> torch.Tensor:
        """Return a tensor, from a cache of those that were inflated last."""
        return super().view_key(key) if self.spans.get(key) else self._cached(key)

    @contextmanager
    def stored_reader(self) -> Iterator[Read]:
        """Yield a function that reads tensors in row-major order; see the base class."""
        yield lambda key: byte_chunks(self.view_key(key).reshape(-1))

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        """Return the bytes to fetch before these tensors can be read: their records are checked."""
        return FileCheckpoint.missing_nbytes_of_keys(self, keys)

    def _check(self, keys: Sequence[str]) -> None:
        super()._check(keys)
        for key in keys:
            self._checks.check(self.members[key].entry)

    def _inflated(self, key: str) -> torch.Tensor:
        import numpy as np  # slow to import
        import torch

        raw = dense(self, key)
        self.source.check()
        member = self.members[key]
        values = np.empty(math.prod(raw.shape), raw.dtype)
        octets = values.view(np.uint8)
        try:
            with self.archive.open(member.entry) as file:
                file.seek(len(member.header))
                done = 0
                while chunk := file.read(CHUNK_BYTES):  # to the end, which checks the CRC-32
                    part = np.frombuffer(chunk, np.uint8)[: len(octets) - done]
                    octets[done : done + len(part)] = part
                    done += len(chunk)
                complete = done == len(octets)
        except ZIP_ERRORS:
            complete = False
        if not complete:
            claim = FalseClaimError("its record {name!r} is damaged", name=key)
            raise invalid_file(self.path, claim, PROGRAM)
        if member.fortran:
            return torch.from_numpy(values.reshape(raw.shape[::-1]).T.copy())
        return torch.from_numpy(values).reshape(raw.shape)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        super().close()
        self._cached.cache_clear()


def _special(entry: zipfile.ZipInfo, dtype: str) -> NpzMember:
    """Return an array that torch cannot hold; `dtype` is NumPy's name for its elements."""
    special = deferred("NumPy dtype {dtype}", dtype=one_line(dtype, 40))
    return NpzMember(
        entry, b"", RawTensor((entry.file_size,), "uint8", special=special), False, None
    )


def _own_record(file: SpanFile) -> OwnRecord:
    """Return what this program wrote behind the other records; empty if it did not."""
    octets = file.read(MAX_METADATA_BYTES) or b""
    begin = LOCAL_HEADER_BYTES + len(OWN_RECORD)
    if octets[LOCAL_HEADER_BYTES:begin] != OWN_RECORD.encode():
        return OwnRecord()
    try:
        match json.loads(octets[begin:]):
            case {"separator": "." | "/" as separator, "metadata": dict() as metadata} if all(
                isinstance(text, str) for text in metadata.values()
            ):
                return OwnRecord(separator, metadata)
    except (ValueError, RecursionError):
        pass
    remark = tr("Its record {name} is invalid and is ignored.", name=OWN_RECORD)
    return OwnRecord(remarks=(remark,))
