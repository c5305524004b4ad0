"""The archives of `numpy.savez` and `numpy.savez_compressed`, which are written as a stream."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.npz.reading import (
    OWN_RECORD,
    PROGRAM,
    SUFFIX,
    NpzCheckpoint,
    NpzMember,
)
from prune_gui.checkpoint.spans import NUMPY_DTYPES
from prune_gui.checkpoint.torch.archive import MAX_PLAIN_BYTES
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.entries import (
    FileContent,
    KeyedWriter,
    TensorWriter,
    WrittenFile,
    lookup_source,
)
from prune_gui.checkpoint.write.metadata import with_checksums
from prune_gui.checkpoint.zip_archives import record_chunks, record_names, zip_nbytes
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

TORCH_RECORDS: Final = ("data.pkl", "constants.pkl")
SAMPLE_BYTES: Final = 1 << 16


def _recognizes(start: bytes, file: BinaryIO) -> bool:
    """Return whether a file is a zip archive with arrays, and not one of torch."""
    names = record_names(start, file)
    of_torch = any(name.rpartition("/")[2].lower() in TORCH_RECORDS for name in names)
    return not of_torch and any(name.endswith(".npy") for name in names)


class _Record(NamedTuple):
    """A record of the new archive; one without a writer is copied.

    Attributes:
        compression: the constant of `zipfile`.
        nbytes: its bytes before compression.
        header: the bytes before the values.
        fortran: whether the first index of the values changes fastest.
    """

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
    return zip_nbytes(stored, LOCAL_HEADER_BYTES + len(OWN_RECORD) + len(own))


def _template(content: FileContent) -> NpzCheckpoint | None:
    return content.template if isinstance(content.template, NpzCheckpoint) else None


def _own_octets(npz: NpzCheckpoint | None, metadata: Mapping[str, str]) -> bytes:
    own = {"separator": npz.separator if npz else "/", "metadata": dict(metadata)}
    return json.dumps(own, ensure_ascii=False).encode()


def _records(writers: Sequence[KeyedWriter], npz: NpzCheckpoint | None) -> list[_Record]:
    """Return the records of the new archive in order: that of `npz`, or of `writers`."""
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
        yield from record_chunks(npz.archive, npz.archive.getinfo(record.name))
        return
    key, tensor = record.writer.key, record.writer.tensor
    checksums[key] = 0
    octets = bytearray()
    for chunk in tensor.byte_chunks():
        checksums[key] = zlib.crc32(chunk, checksums[key])
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
