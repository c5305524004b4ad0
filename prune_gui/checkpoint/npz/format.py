"""The format of the archives of `numpy.savez` and `numpy.savez_compressed`."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.file_checkpoint import FileCheckpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.zip_layout import ZIP_ERRORS
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.monitor import Monitor

TORCH_RECORDS: Final = ("data.pkl", "constants.pkl")


def _recognizes(start: bytes, file: BinaryIO) -> bool:
    """Return whether a file is a zip archive with arrays, and not one of torch."""
    if not start.startswith(b"PK\x03\x04"):
        return False
    try:
        names = zipfile.ZipFile(file).namelist()
    except ZIP_ERRORS:
        return False
    of_torch = any(name.rpartition("/")[2].lower() in TORCH_RECORDS for name in names)
    return not of_torch and any(name.endswith(".npy") for name in names)


def _open(source: Source, state: str | None, surroundings: Surroundings) -> FileCheckpoint:
    from prune_gui.checkpoint.npz.reading import NpzCheckpoint  # numpy: slow to import

    return NpzCheckpoint(source, state, surroundings)


def _write(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
) -> WrittenFile:
    from prune_gui.checkpoint.npz.writing import write_npz  # numpy: slow to import

    return write_npz(path, writers, template, metadata, monitor)


def _file_nbytes(
    writers: Sequence[KeyedWriter], template: Checkpoint | None, metadata: Metadata
) -> int:
    from prune_gui.checkpoint.npz.writing import npz_nbytes  # numpy: slow to import

    return npz_nbytes(writers, template, metadata)


NPZ: Final = FileFormat(
    name="npz",
    suffixes=(".npz",),
    shard_suffix=".npz",
    recognizes=_recognizes,
    open=_open,
    write=_write,
    file_nbytes=_file_nbytes,
    load_code=(
        '{{name.replace("/", "."): torch.from_numpy(a) for name, a in np.load({path}).items()}}'
    ),
    load_import="import numpy as np",
    opens_without_torch=True,
)
