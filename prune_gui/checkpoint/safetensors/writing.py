"""Writing safetensors files as a stream, with only a few chunks in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from prune_gui.checkpoint.safetensors.header import (
    CODES,
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    METADATA_KEY,
    header_bytes,
)
from prune_gui.checkpoint.write.checksums import with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor


def write_safetensors(
    path: Path,
    writers: Sequence[KeyedWriter],
    metadata: Metadata,
    monitor: Monitor,
) -> WrittenFile:
    """Write the file at `path`, data in the order of the header; see `write_plain`.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
    """
    return write_plain(path, writers, partial(header_of, writers, metadata), monitor)


def header_of(
    writers: Sequence[KeyedWriter],
    metadata: Metadata,
    checksums: Mapping[str, int] | None = None,
) -> bytes:
    """Return the bytes of a file before its data; see `with_checksums`."""
    for writer in writers:
        if writer.tensor.dtype not in CODES:
            raise CheckpointError(
                tr(
                    "{key!r} has the dtype {dtype}, which safetensors cannot store. "
                    "Save as .pt instead.",
                    key=writer.key,
                    dtype=writer.tensor.dtype,
                )
            )
        if writer.key == METADATA_KEY:
            raise CheckpointError(
                tr(
                    "safetensors cannot store a tensor named {key!r}. Save as .pt instead.",
                    key=METADATA_KEY,
                )
            )
    header = header_bytes(
        ((writer.key, writer.tensor.dtype, writer.tensor.shape) for writer in writers),
        with_checksums(metadata, (writer.key for writer in writers), checksums),
    )
    if len(header) - LENGTH_BYTES > MAX_HEADER_BYTES:
        raise CheckpointError(
            tr(
                "The names and the metadata take {nbytes:,} bytes, more than safetensors can "
                "store. Save as .pt instead.",
                nbytes=len(header),
            )
        )
    return header
