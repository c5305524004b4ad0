"""The archives of `numpy.savez` and `numpy.savez_compressed`, which are written as a stream.

Their headers are read at opening; values are mapped or inflated on demand.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint.base import FileCheckpoint, Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.refusal import FalseClaimError, invalid_file
from prune_gui.checkpoint.source import Source
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
from prune_gui.checkpoint.torch import zip_layout
from prune_gui.checkpoint.torch.archive import MAX_PLAIN_BYTES, archive_nbytes
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES, ZIP_ERRORS
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.content import (
    FileContent,
    KeyedWriter,
    TensorWriter,
    WrittenFile,
    lookup_source,
    with_checksums,
)
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.regular_files import SpanFile

if TYPE_CHECKING:
    import torch


PROGRAM: Final = "numpy.savez"
SUFFIX: Final = ".npy"
OWN_RECORD: Final = "prune_gui.json"
"""A record after all others that the directory of the archive does not list.

So `numpy.load` returns the arrays of the checkpoint and nothing else.
"""
TORCH_RECORDS: Final = ("data.pkl", "constants.pkl")
SAMPLE_BYTES: Final = 1 << 16
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

    A key has the separator where the name of a member has a slash.
    """

    format = "npz"

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        self._cached = lru_cache(MAX_CACHED_TENSORS)(self._inflated)
        self.archive, named, starts, self._checks = zip_layout.open_archive(source)
        paths = [name.removesuffix(SUFFIX) for name in named if name.endswith(SUFFIX)]
        ends = (starts[each.header_offset] + each.compress_size for each in named.values())
        end = max(ends, default=0)
        own = _own_record(SpanFile(source.read_at, end, self.archive.start_dir - end))
        self.separator = own.separator or dotted(paths)
        with zip_layout.zip_errors(source):
            self.members: Mapping[str, NpzMember] = {
                path.replace("/", self.separator): self._member(path, named[path + SUFFIX], starts)
                for path in paths
            }
        tensors = {key: SpanTensor(each.raw, each.mapped) for key, each in self.members.items()}
        super().__init__(source, Header(tensors, own.metadata, own.remarks), surroundings)

    def _member(self, path: str, entry: zipfile.ZipInfo, starts: Mapping[int, int]) -> NpzMember:
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
        return super().read_key(key) if self.spans.get(key) else self._inflated(key)

    def view_key(self, key: str) -> torch.Tensor:
        return super().view_key(key) if self.spans.get(key) else self._cached(key)

    # Whole records are read, which are checked.
    stored_reader = FileCheckpoint.stored_reader
    missing_nbytes_of_keys = FileCheckpoint.missing_nbytes_of_keys

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
        octets = values.view(np.uint8).data
        try:
            zip_layout.fill(octets, self.archive, member.entry, len(member.header))
        except ZIP_ERRORS:
            claim = FalseClaimError("its record {name!r} is damaged", name=key)
            raise invalid_file(self.path, claim, PROGRAM) from None
        if member.fortran:
            return torch.from_numpy(values.reshape(raw.shape[::-1]).T.copy())
        return torch.from_numpy(values).reshape(raw.shape)

    def close(self) -> None:
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


def _recognizes(start: bytes, file: BinaryIO) -> bool:
    """Return whether a file is a zip archive with arrays, and not one of torch."""
    names = zip_layout.record_names(start, file)
    of_torch = any(name.rpartition("/")[2].lower() in TORCH_RECORDS for name in names)
    return not of_torch and any(name.endswith(".npy") for name in names)


class _Record(NamedTuple):
    """A record of the new archive; `nbytes` are uncompressed. One without a writer is copied."""

    name: str
    compression: int
    nbytes: int
    header: bytes = b""
    writer: KeyedWriter | None = None
    fortran: bool = False


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    """Write an archive that `numpy.load` reads to the file at `path`.

    If the template is such an archive, each array keeps its header, its order in memory, and
    whether it is compressed; records that are not dense tensors are copied.
    """
    npz = _template(content)
    records = _records(content.writers, npz)
    monitor.expect(sum(record.nbytes for record in records))
    checksums: dict[str, int] = {}
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for record in records:
                entry = zipfile.ZipInfo(record.name)  # a constant date
                entry.compress_type = record.compression
                with archive.open(entry, "w", force_zip64=record.nbytes > MAX_PLAIN_BYTES) as out:
                    out.write(record.header)
                    for chunk in _chunks(record, npz, checksums):
                        out.write(chunk)
                        monitor.advance(len(chunk))
            texts = with_checksums(content.metadata, checksums, checksums)
            archive.writestr(OWN_RECORD, _own_octets(npz, texts))
            archive.filelist.pop()  # the directory does not list it
        flush(cast("BinaryIO", file))
    return WrittenFile(checksums)


def _file_nbytes(content: FileContent) -> int:
    """Return the bytes of the file; about, if it compresses."""
    npz = _template(content)
    own = _own_octets(npz, content.texts())
    records = _records(content.writers, npz)
    stored = [(record.name, _stored_nbytes(record, npz)) for record in records]
    own_nbytes = LOCAL_HEADER_BYTES + len(OWN_RECORD) + len(own)
    return archive_nbytes(stored, unlisted_nbytes=own_nbytes)


def _template(content: FileContent) -> NpzCheckpoint | None:
    return content.template if isinstance(content.template, NpzCheckpoint) else None


def _own_octets(npz: NpzCheckpoint | None, metadata: Mapping[str, str]) -> bytes:
    own = {"separator": npz.separator if npz else "/", "metadata": dict(metadata)}
    return json.dumps(own, ensure_ascii=False).encode()


def _records(writers: Sequence[KeyedWriter], npz: NpzCheckpoint | None) -> list[_Record]:
    if npz is None:
        return [_record(writer, None, "/") for writer in writers]
    entries = npz.archive.infolist()
    order = {entry.orig_filename: index for index, entry in enumerate(entries)}
    places = [order[npz.members[key].entry.orig_filename] for key in npz.keys]
    placed = [
        (places[max(writer.position, 0)], _record(writer, npz.members, npz.separator))
        for writer in writers
    ]
    dense = [key for key, raw in npz.raw.items() if raw.special is None]
    replaced = {npz.members[key].entry.orig_filename for key in dense}
    placed += [
        (index, _Record(entry.orig_filename, entry.compress_type, entry.file_size))
        for index, entry in enumerate(entries)
        if entry.orig_filename not in replaced
    ]
    return [record for _, record in sorted(placed, key=lambda item: item[0])]


def _record(
    writer: KeyedWriter, members: Mapping[str, NpzMember] | None, separator: str
) -> _Record:
    key, tensor = writer.key, writer.tensor
    if tensor.dtype not in NUMPY_DTYPES.values():
        raise CheckpointError(
            "{key!r} has the dtype {dtype}, which NumPy cannot store. Save as .safetensors "
            "instead.",
            key=key,
            dtype=tensor.dtype,
        )
    name = key.replace(separator, "/") + SUFFIX
    if "\0" in name or not name.isprintable():
        raise CheckpointError(
            "NumPy cannot store a tensor named {key!r}. Save as .safetensors instead.", key=key
        )
    old = lookup_source(key, members, default=None) if members else None
    compression = old.entry.compress_type if old else zipfile.ZIP_STORED
    if old is not None and (old.raw.dtype, old.raw.shape) == (tensor.dtype, tensor.shape):
        header, fortran = old.header, old.fortran
    else:
        header, fortran = _header(tensor), False
    return _Record(name, compression, len(header) + tensor.nbytes, header, writer, fortran)


def _header(tensor: TensorWriter) -> bytes:
    import numpy as np  # slow to import

    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(tensor.dtype))
    fields = {"descr": descr, "fortran_order": False, "shape": tensor.shape}
    np.lib.format.write_array_header_1_0(header, fields)
    return header.getvalue()


def _chunks(
    record: _Record, npz: NpzCheckpoint | None, checksums: dict[str, int]
) -> Iterator[bytes | memoryview]:
    """Yield the values in the order of the file; add the CRC-32 of those in row-major order."""
    if record.writer is None:
        assert npz is not None
        yield from zip_layout.record_chunks(npz.archive, npz.archive.getinfo(record.name))
        return
    key, tensor = record.writer.key, record.writer.tensor
    checksums[key] = 0
    octets = bytearray()
    for chunk in tensor.byte_chunks():
        checksums[key] = crc32(chunk, checksums[key])
        if record.fortran:
            octets += chunk
        else:
            yield chunk
    if record.fortran:
        import numpy as np  # slow to import

        array = np.frombuffer(octets, tensor.dtype).reshape(tensor.shape)
        yield array.tobytes(order="F")


def _stored_nbytes(record: _Record, npz: NpzCheckpoint | None) -> int:
    """Return the bytes of a record in the archive; if it is compressed, an estimate."""
    if record.compression == zipfile.ZIP_STORED:
        return record.nbytes
    if record.writer is None:
        assert npz is not None
        return npz.archive.getinfo(record.name).compress_size
    sample = bytes(next(record.writer.tensor.byte_chunks(), b""))[:SAMPLE_BYTES]
    return round(record.nbytes * len(zlib.compress(sample)) / max(len(sample), 1))


NPZ: Final = FileFormat(
    name="npz",
    suffixes=(".npz",),
    shard_suffix=".npz",
    recognizes=_recognizes,
    program=PROGRAM,
    open=NpzCheckpoint,
    write=_write,
    file_nbytes=_file_nbytes,
    load_code=(
        '{{name.replace("/", "."): torch.from_numpy(a) for name, a in np.load({path}).items()}}'
    ),
    load_import="import numpy as np",
    opens_without_torch=True,
)
