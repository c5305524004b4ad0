"""Writing safetensors files as a stream: never more than a chunk in memory."""

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
from prune_gui.checkpoint.write.checksums import CHECKSUMS, with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter
from prune_gui.checkpoint.write.prefetch import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

BATCH_BYTES: Final = 1 << 20
"""Of pieces that are handed from the thread that makes them to the one that writes them."""


def write_safetensors(
    path: Path, placed: Sequence[KeyedWriter], metadata: Mapping[str, str], monitor: Monitor
) -> dict[str, int]:
    """Fill the file at `path`, data in the order of the header, and return a CRC-32 by key.

    If the metadata has a place for the checksums (see `with_checksums`), the header is written
    again in the end, when they are known; its length is the same.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
        Cancelled: the monitor says so.
    """
    header = header_of(placed, metadata)
    monitor.expect(sum(item.entry.nbytes for item in placed))
    checksums = {item.key: 0 for item in placed}
    with path.open("wb") as file, closing(prefetch(_batches(placed))) as prepared:
        file.write(header)
        for key, piece in chain.from_iterable(prepared):
            file.write(piece)
            checksums[key] = zlib.crc32(piece, checksums[key])
            monitor.advance(len(piece))
        if CHECKSUMS in metadata:
            file.seek(0)
            file.write(header_of(placed, metadata, checksums))
        flush(file)
    return checksums


def _batches(placed: Iterable[KeyedWriter]) -> Iterator[list[tuple[str, memoryview]]]:
    """Yield pieces and whose they are, small ones together: to hand over each takes longer."""
    batch: list[tuple[str, memoryview]] = []
    nbytes = 0
    for item in placed:
        for piece in item.entry.octets():
            batch.append((item.key, piece))
            nbytes += len(piece)
            if nbytes >= BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
    yield batch


def header_of(
    placed: Sequence[KeyedWriter],
    metadata: Mapping[str, str],
    checksums: Mapping[str, int] | None = None,
) -> bytes:
    """Return everything of a file that comes before its data; see `with_checksums`.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
    """
    for item in placed:
        if item.entry.dtype not in CODES:
            raise CheckpointError(
                tr(
                    "{key!r} has the dtype {dtype}, which safetensors cannot store. "
                    "Save as .pt instead.",
                    key=item.key,
                    dtype=item.entry.dtype,
                )
            )
        if item.key == METADATA_KEY:
            raise CheckpointError(
                tr(
                    "safetensors cannot store a tensor named {key!r}. Save as .pt instead.",
                    key=METADATA_KEY,
                )
            )
    header = header_bytes(
        ((item.key, item.entry.dtype, item.entry.shape) for item in placed),
        with_checksums(metadata, (item.key for item in placed), checksums),
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
