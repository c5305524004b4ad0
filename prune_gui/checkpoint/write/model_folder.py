"""Writing a folder with one checkpoint file, config.json and the small files beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.sharded.writing import kept_files
from prune_gui.checkpoint.write.atomic import rehearse, write_files
from prune_gui.checkpoint.write.atomic_folder import replacing_folder
from prune_gui.checkpoint.write.entries import TensorWriter, keyed_writers
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.writing import check_special, write_file
from prune_gui.monitor import Monitor


def write_model_folder(
    path: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    metadata: Metadata,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
    monitor: Monitor,
) -> None:
    """Write a checkpoint and other files into a folder, which is replaced as a whole.

    The folder is written as by `write_shards`.

    Args:
        path: the file to write in the folder.
        file_format: its format.
        tensors: as for `write_checkpoint`.
        template: as for `write_checkpoint`.
        metadata: as for `write_checkpoint`.
        extra_files: the contents of the other files, by name.
        overwrite: whether a folder that is not empty may be replaced.
        monitor: counts the bytes that are written and those that are read back.

    Raises:
        CheckpointError: the folder may not or cannot be written, or cannot hold these tensors.
    """
    out = path.parent
    writers = keyed_writers(tensors, template)
    nbytes = file_format.data_nbytes(writers, template) + sum(map(len, extra_files.values()))
    kept = partial(kept_files, also_replaced=(path.name, *extra_files))
    with replacing_folder(out, nbytes=nbytes, overwrite=overwrite, kept_files=kept) as folder:
        draft = folder / path.name
        write_file(draft, path, file_format, writers, template, metadata, monitor)()
        write_files(folder, extra_files)


def check_model_folder(
    path: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
) -> int:
    """Run the checks of `write_model_folder`, and return the approximate bytes of the values.

    Raises:
        CheckpointError: the folder may not or cannot be written, or cannot hold these tensors.
    """
    writers = keyed_writers(tensors, template)
    check_special(path, file_format, writers, template)
    nbytes = file_format.data_nbytes(writers, template)
    kept = partial(kept_files, also_replaced=(path.name, *extra_files))
    rehearse(replacing_folder(path.parent, nbytes=nbytes, overwrite=overwrite, kept_files=kept))
    return nbytes
