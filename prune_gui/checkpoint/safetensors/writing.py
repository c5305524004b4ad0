"""Writing safetensors files as a stream, with only a few chunks in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.safetensors.header import (
    CODES,
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    METADATA_KEY,
    header_bytes,
)
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.checksums import CHECKSUMS_KEY, with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.prefetch import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

BATCH_BYTES: Final = 1 << 20
"""The size of batches of chunks that the producing thread passes to the writing thread."""


def write_safetensors(
    path: Path,
    writers: Sequence[KeyedWriter],
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> WrittenFile:
    """Write the file at `path`, data in the order of the header.

    If the metadata reserves room for the checksums (see `with_checksums`), the header is rewritten
    at the end, when they are known; its length stays the same.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
        Cancelled: the user cancels.
    """
    header = header_of(writers, metadata)
    monitor.expect(sum(writer.tensor.nbytes for writer in writers))
    checksums = {writer.key: 0 for writer in writers}
    with path.open("wb") as file, closing(prefetch(_batches(writers))) as prepared:
        file.write(header)
        for key, chunk in chain.from_iterable(prepared):
            file.write(chunk)
            checksums[key] = zlib.crc32(chunk, checksums[key])
            monitor.advance(len(chunk))
        if CHECKSUMS_KEY in metadata:
            file.seek(0)
            file.write(header_of(writers, metadata, checksums))
        flush(file)
    return WrittenFile(checksums)


def _batches(writers: Iterable[KeyedWriter]) -> Iterator[list[tuple[str, memoryview]]]:
    """Yield batches of (key, chunk), because passing small chunks between threads is slow."""
    batch: list[tuple[str, memoryview]] = []
    nbytes = 0
    for writer in writers:
        for chunk in writer.tensor.byte_chunks():
            batch.append((writer.key, chunk))
            nbytes += len(chunk)
            if nbytes >= BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
    yield batch


def header_of(
    writers: Sequence[KeyedWriter],
    metadata: Mapping[str, str],
    checksums: Mapping[str, int] | None = None,
) -> bytes:
    """Return the bytes of a file before its data; see `with_checksums`.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
    """
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
