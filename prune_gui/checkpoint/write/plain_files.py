"""Writing a header and the plain bytes of tensors, with only a few chunks in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

from zlib_ng.zlib_ng import crc32, crc32_combine

from prune_gui.checkpoint.write.atomic import flush, start_writeback
from prune_gui.checkpoint.write.content import (
    FileContent,
    KeyedWriter,
    TensorWriter,
    WrittenFile,
)
from prune_gui.monitor import Monitor
from prune_gui.parallel import run

BATCH_BYTES: Final = 1 << 20
"""The size of a task for a thread: a part of a tensor, or several small tensors."""
WRITEBACK_BYTES: Final = 32 << 20
"""Bytes after which the system is told to write them to the disk."""
T = TypeVar("T")
MAX_PREFETCHED: Final = 2
"""Items that are computed in advance."""


def write_plain(
    path: Path,
    content: FileContent,
    header_of: Callable[[Mapping[str, int] | None], bytes],
    monitor: Monitor,
    *,
    alignment: int = 1,
) -> WrittenFile:
    """Write the file at `path`: the header, then the data of the tensors in their order.

    All positions are known before, so that several threads write. The header gets the checksums and
    late texts (see `with_checksums`) when the result is finished; its length stays the same. Header
    and tensors are padded with zeros to multiples of `alignment`.
    """
    header = header_of(None)
    monitor.expect(content.nbytes)
    checksums = {writer.key: 0 for writer in content.writers}
    with path.open("wb") as file:
        file.write(header)
        size = len(header)
        positions: list[int] = []
        for writer in content.writers:
            positions.append(size + -size % alignment)
            size = positions[-1] + writer.tensor.nbytes if writer.tensor.nbytes else size
        size += -size % alignment
        file.truncate(size)
        file.flush()
        write = partial(_write_batch, file.fileno(), monitor=monitor)
        written = started = 0
        for batch in run(write, _batches(zip(content.writers, positions, strict=True))):
            for key, position, nbytes, checksum in batch:
                checksums[key] = crc32_combine(checksums[key], checksum, nbytes)
                written = position + nbytes
            if written - started >= WRITEBACK_BYTES:
                start_writeback(file, started, written - started)
                started = written
        flush(file)

    def finish() -> None:
        final = header_of(checksums)
        if final != header:
            with path.open("r+b") as file:
                file.write(final)
                flush(file)

    return WrittenFile(checksums, finish=finish)


class _Part(NamedTuple):
    """Values to write at a position of the file, in bytes: a part of the tensor of a key."""

    key: str
    position: int
    tensor: TensorWriter


def _batches(writers: Iterable[tuple[KeyedWriter, int]]) -> Iterator[list[_Part]]:
    """Yield batches of parts in order, because small tasks for threads are slow."""
    batch: list[_Part] = []
    nbytes = 0
    for writer, start in writers:
        for offset, part in writer.tensor.parts():
            batch.append(_Part(writer.key, start + offset, part))
            nbytes += part.nbytes
            if nbytes >= BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
    yield batch


def _write_batch(
    descriptor: int, batch: Sequence[_Part], monitor: Monitor
) -> list[tuple[str, int, int, int]]:
    """Write parts; return key, position, bytes and CRC-32 of each."""
    written: list[tuple[str, int, int, int]] = []
    for key, start, tensor in batch:
        checksum, position = 0, start
        for chunk in tensor.byte_chunks():
            rest = chunk
            while rest:  # a call may write less
                count = os.pwrite(descriptor, rest, position)
                rest, position = rest[count:], position + count
            checksum = crc32(chunk, checksum)
            monitor.advance(len(chunk))
        written.append((key, start, position - start, checksum))
    return written


def prefetch(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield items, computing the next ones on a thread, which ends when the generator is closed."""
    iterator, end = iter(items), object()
    compute_next = partial(copy_context().run, next, iterator, end)
    with ThreadPoolExecutor(1, "prune-gui-prefetch") as pool:
        futures = deque(pool.submit(compute_next) for _ in range(MAX_PREFETCHED))
        while (item := futures.popleft().result()) is not end:
            futures.append(pool.submit(compute_next))
            yield cast("T", item)
