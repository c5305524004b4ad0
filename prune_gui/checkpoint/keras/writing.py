"""Writing Keras's files: a copy in which only the values of the tensors differ."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.byte_chunks import CHUNK_BYTES
from prune_gui.checkpoint.keras.layout import WEIGHTS_RECORD
from prune_gui.checkpoint.keras.reading import KerasCheckpoint, trailer
from prune_gui.checkpoint.spans import copy_chunks, in_place
from prune_gui.checkpoint.torch.archive import MAX_PLAIN_BYTES
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.checksums import with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.zip_sizes import zip_nbytes
from prune_gui.monitor import Monitor


def write_keras(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
    *,
    name: str,
) -> WrittenFile:
    """Write a copy of the file of `template` to the file at `path`.

    Args:
        monitor: counts bytes.
    """
    keras = _template(writers, template, name)
    keras.check_records()
    checksums: dict[str, int] = {}
    with path.open("wb") as file:
        if keras.archive is None:
            for chunk in _hdf5_chunks(keras, writers, metadata, checksums, monitor):
                file.write(chunk)
        else:
            trailer_nbytes = len(trailer(with_checksums(metadata, ())))
            with zipfile.ZipFile(file, "w") as archive:
                for entry in keras.archive.infolist():
                    copy = zipfile.ZipInfo(entry.orig_filename, entry.date_time)
                    copy.compress_type = entry.compress_type
                    chunks: Iterable[bytes | memoryview] = _record_chunks(keras.archive, entry)
                    if entry.orig_filename == WEIGHTS_RECORD:
                        chunks = _hdf5_chunks(keras, writers, metadata, checksums, monitor)
                    large = entry.file_size + trailer_nbytes > MAX_PLAIN_BYTES
                    with archive.open(copy, "w", force_zip64=large) as out:
                        for chunk in chunks:
                            out.write(chunk)
        flush(file)
    return WrittenFile(checksums)


def keras_nbytes(
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    *,
    name: str,
) -> int:
    """Return the bytes of the file that `write_keras` would write."""
    keras = _template(writers, template, name)
    start, stop = keras.hdf5
    hdf5_nbytes = stop - start
    hdf5_nbytes += len(trailer(with_checksums(metadata, (writer.key for writer in writers))))
    if keras.archive is None:
        return hdf5_nbytes
    return zip_nbytes(
        (entry.orig_filename, hdf5_nbytes)
        if entry.orig_filename == WEIGHTS_RECORD
        else (entry.orig_filename, entry.compress_size)
        for entry in keras.archive.infolist()
    )


def _template(
    writers: Sequence[KeyedWriter], template: Checkpoint | None, name: str
) -> KerasCheckpoint:
    keras = in_place(writers, template, name)
    assert isinstance(keras, KerasCheckpoint)
    return keras


def _hdf5_chunks(
    keras: KerasCheckpoint,
    writers: Sequence[KeyedWriter],
    metadata: Metadata,
    checksums: dict[str, int],
    monitor: Monitor,
) -> Iterator[bytes | memoryview]:
    yield from copy_chunks(keras, writers, keras.hdf5, checksums, monitor)
    yield trailer(with_checksums(metadata, checksums, checksums))


def _record_chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(entry) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
