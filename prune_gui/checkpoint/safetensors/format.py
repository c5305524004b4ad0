"""The format of safetensors files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.safetensors.reading import SafetensorsCheckpoint
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.language import deferred
from prune_gui.monitor import Monitor


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether the bytes are a length below 2**40 and the start of a JSON object."""
    return start[8:9] == b"{" and start[5:8] == bytes(3)


def _open(source: Source, _: str | None, surroundings: Surroundings) -> SafetensorsCheckpoint:
    return SafetensorsCheckpoint(source, surroundings)


def _write(
    path: Path,
    writers: Sequence[KeyedWriter],
    _: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
) -> WrittenFile:
    from prune_gui.checkpoint.safetensors.writing import write_safetensors  # not needed to open

    return write_safetensors(path, writers, metadata, monitor)


def _file_nbytes(writers: Sequence[KeyedWriter], _: Checkpoint | None, metadata: Metadata) -> int:
    from prune_gui.checkpoint.safetensors.writing import header_of  # not needed to open

    return len(header_of(writers, metadata)) + sum(writer.tensor.nbytes for writer in writers)


SAFETENSORS: Final = FileFormat(
    name=SafetensorsCheckpoint.format,
    suffixes=(".safetensors",),
    shard_suffix=".safetensors",
    preferred_name=r"model.*\.safetensors",
    recognizes=_recognizes,
    open=_open,
    write=_write,
    file_nbytes=_file_nbytes,
    load_code="load_file({path})",
    load_import="from safetensors.torch import load_file",
    opens_without_torch=True,
    special_refusal=deferred(
        "{key!r} ({special}) cannot be stored in {name}: safetensors holds plain dense tensors "
        "only. Save as .pt instead."
    ),
)
