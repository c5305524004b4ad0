"""The formats of Keras: HDF5 files with weights, and archives with such a file."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.file_checkpoint import FileCheckpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.keras.layout import HDF5_NAME, KERAS_NAME, MAGIC, WEIGHTS_RECORD
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.zip_layout import ZIP_ERRORS
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.monitor import Monitor

LOAD_CODE: Final = (
    '{{name.replace("/", "."): torch.from_numpy(np.asarray(file[name])) for file in [FILE] '
    "for names in [[]] if file.visit(names.append) is None for name in names "
    'if isinstance(file[name], h5py.Dataset) and not name.startswith("optimizer")}}'
)
"""The expression that reads the HDF5 file FILE."""


def _recognizes_archive(start: bytes, file: BinaryIO) -> bool:
    if not start.startswith(b"PK\x03\x04"):
        return False
    try:
        return WEIGHTS_RECORD in zipfile.ZipFile(file).namelist()
    except ZIP_ERRORS:
        return False


def _open(source: Source, _: str | None, surroundings: Surroundings) -> FileCheckpoint:
    from prune_gui.checkpoint.keras.reading import KerasCheckpoint  # not needed at the start

    return KerasCheckpoint(source, surroundings)


def _write(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
    *,
    name: str,
) -> WrittenFile:
    from prune_gui.checkpoint.keras.writing import write_keras  # not needed to open

    return write_keras(path, writers, template, metadata, monitor, name=name)


def _file_nbytes(
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    *,
    name: str,
) -> int:
    from prune_gui.checkpoint.keras.writing import keras_nbytes  # not needed to open

    return keras_nbytes(writers, template, metadata, name=name)


HDF5: Final = FileFormat(
    name=HDF5_NAME,
    suffixes=(".h5", ".hdf5"),
    shard_suffix=".weights.h5",
    recognizes=lambda start, _: start.startswith(MAGIC),
    open=_open,
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
    recognizes=_recognizes_archive,
    open=_open,
    write=partial(_write, name=KERAS_NAME),
    file_nbytes=partial(_file_nbytes, name=KERAS_NAME),
    load_code=LOAD_CODE.replace(
        "FILE", f"h5py.File(zipfile.ZipFile({{path}}).open({WEIGHTS_RECORD!r}))"
    ),
    load_import="import zipfile\n\nimport h5py\nimport numpy as np",
    opens_without_torch=True,
)
