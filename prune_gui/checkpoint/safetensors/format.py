"""The format of safetensors files, which are written as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.safetensors.header import (
    CODES,
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    METADATA_KEY,
    header_bytes,
    read_header,
)
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import MappedCheckpoint
from prune_gui.checkpoint.write.entries import FileContent, WrittenFile
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred
from prune_gui.monitor import Monitor


class SafetensorsCheckpoint(MappedCheckpoint):
    """A safetensors file: the header is read at opening, values are mapped on demand."""

    format = "safetensors"

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        """Read and check the header."""
        source.file.seek(0)
        header = read_header(source.file, source.size, source.path.name)
        super().__init__(source, header, surroundings)


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether the bytes are a length below 2**40 and the start of a JSON object."""
    return start[8:9] == b"{" and start[5:8] == bytes(3)


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    return write_plain(path, content, partial(_header_of, content), monitor)


def _file_nbytes(content: FileContent) -> int:
    return len(_header_of(content)) + content.nbytes


def _header_of(content: FileContent, checksums: Mapping[str, int] | None = None) -> bytes:
    """Return the bytes of a file before its data; see `with_checksums`."""
    for writer in content.writers:
        if writer.tensor.dtype not in CODES:
            raise CheckpointError(
                "{key!r} has the dtype {dtype}, which safetensors cannot store. "
                "Save as .pt instead.",
                key=writer.key,
                dtype=writer.tensor.dtype,
            )
        if writer.key == METADATA_KEY:
            raise CheckpointError(
                "safetensors cannot store a tensor named {key!r}. Save as .pt instead.",
                key=METADATA_KEY,
            )
    header = header_bytes(
        ((writer.key, writer.tensor.dtype, writer.tensor.shape) for writer in content.writers),
        content.texts(checksums),
    )
    if len(header) - LENGTH_BYTES > MAX_HEADER_BYTES:
        raise CheckpointError(
            "The names and the metadata take {nbytes:,} bytes, more than safetensors can "
            "store. Save as .pt instead.",
            nbytes=len(header),
        )
    return header


SAFETENSORS: Final = FileFormat(
    name=SafetensorsCheckpoint.format,
    suffixes=(".safetensors",),
    shard_suffix=".safetensors",
    preferred_name=r"model.*\.safetensors",
    recognizes=_recognizes,
    program="safetensors",
    refusal=deferred(
        "{name} is not a valid safetensors file: {problem}. Download the file again, or "
        "save it again with safetensors."
    ),
    open=SafetensorsCheckpoint,
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
