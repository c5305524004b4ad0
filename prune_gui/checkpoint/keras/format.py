"""The formats of Keras: a file is written as a copy in which only the values of tensors differ."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.keras.reading import (
    HDF5_NAME,
    KERAS_NAME,
    MAGIC,
    WEIGHTS_RECORD,
    KerasCheckpoint,
    trailer,
)
from prune_gui.checkpoint.spans import copy_chunks, in_place
from prune_gui.checkpoint.torch.archive import MAX_PLAIN_BYTES
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.entries import FileContent, WrittenFile
from prune_gui.checkpoint.write.metadata import with_checksums
from prune_gui.checkpoint.zip_archives import record_chunks, record_names, zip_nbytes
from prune_gui.monitor import Monitor

LOAD_CODE: Final = (
    '{{name.replace("/", "."): torch.from_numpy(np.asarray(file[name])) for file in [FILE] '
    "for names in [[]] if file.visit(names.append) is None for name in names "
    'if isinstance(file[name], h5py.Dataset) and not name.startswith("optimizer")}}'
)
"""The expression that reads the HDF5 file FILE."""


def _write(path: Path, content: FileContent, monitor: Monitor, *, name: str) -> WrittenFile:
    keras = _template(content, name)
    keras.check_records()
    checksums: dict[str, int] = {}
    hdf5_chunks = _hdf5_chunks(keras, content, checksums, monitor)
    with path.open("wb") as file:
        if keras.archive is None:
            file.writelines(hdf5_chunks)
        else:
            trailer_nbytes = len(trailer(with_checksums(content.metadata, ())))
            with zipfile.ZipFile(file, "w") as archive:
                for entry in keras.archive.infolist():
                    copy = zipfile.ZipInfo(entry.orig_filename, entry.date_time)
                    copy.compress_type = entry.compress_type
                    chunks: Iterable[bytes | memoryview] = record_chunks(keras.archive, entry)
                    if entry.orig_filename == WEIGHTS_RECORD:
                        chunks = hdf5_chunks
                    large = entry.file_size + trailer_nbytes > MAX_PLAIN_BYTES
                    with archive.open(copy, "w", force_zip64=large) as out:
                        out.writelines(chunks)
        flush(file)
    return WrittenFile(checksums)


def _file_nbytes(content: FileContent, *, name: str) -> int:
    keras = _template(content, name)
    start, stop = keras.hdf5
    hdf5_nbytes = stop - start + len(trailer(content.texts()))
    if keras.archive is None:
        return hdf5_nbytes
    sizes = {entry.orig_filename: entry.compress_size for entry in keras.archive.infolist()}
    return zip_nbytes({**sizes, WEIGHTS_RECORD: hdf5_nbytes}.items())


def _template(content: FileContent, name: str) -> KerasCheckpoint:
    keras = in_place(content, name)
    assert isinstance(keras, KerasCheckpoint)
    return keras


def _hdf5_chunks(
    keras: KerasCheckpoint, content: FileContent, checksums: dict[str, int], monitor: Monitor
) -> Iterator[bytes | memoryview]:
    yield from copy_chunks(keras, content, keras.hdf5, checksums, monitor)
    yield trailer(content.texts(checksums))


HDF5: Final = FileFormat(
    name=HDF5_NAME,
    suffixes=(".h5", ".hdf5"),
    shard_suffix=".weights.h5",
    recognizes=lambda start, _: start.startswith(MAGIC),
    program="Keras",
    open=KerasCheckpoint,
    write=partial(_write, name=HDF5_NAME),
    file_nbytes=partial(_file_nbytes, name=HDF5_NAME),
    load_code=LOAD_CODE.replace("FILE", "h5py.File({path})"),
    load_import="import h5py\nimport numpy as np",
    opens_without_torch=True,
)
KERAS: Final = FileFormat(
    name=KERAS_NAME,
    suffixes=(".keras",),
    shard_suffix=".keras",
    recognizes=lambda start, file: WEIGHTS_RECORD in record_names(start, file),
    program="Keras",
    open=KerasCheckpoint,
    write=partial(_write, name=KERAS_NAME),
    file_nbytes=partial(_file_nbytes, name=KERAS_NAME),
    load_code=LOAD_CODE.replace(
        "FILE", f"h5py.File(zipfile.ZipFile({{path}}).open({WEIGHTS_RECORD!r}))"
    ),
    load_import="import zipfile\n\nimport h5py\nimport numpy as np",
    opens_without_torch=True,
)
