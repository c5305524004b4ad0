"""Writing a header and the plain bytes of tensors, with only a few chunks in memory."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar, cast

from prune_gui.checkpoint.write.atomic import flush, start_writeback
from prune_gui.checkpoint.write.content import FileContent, KeyedWriter, WrittenFile
from prune_gui.monitor import Monitor

BATCH_BYTES: Final = 1 << 20
"""The size of batches of chunks that the producing thread passes to the writing thread."""
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

    The header gets the checksums and late texts (see `with_checksums`) when the result is finished;
    its length stays the same. Header and tensors are padded with zeros to multiples of `alignment`.
    """
    header = header_of(None)
    monitor.expect(content.nbytes)
    checksums = {writer.key: 0 for writer in content.writers}
    with path.open("wb") as file, closing(prefetch(_batches(content.writers))) as prepared:
        file.write(header)
        last_key = None
        started = 0
        for key, chunk in chain.from_iterable(prepared):
            if file.tell() - started >= WRITEBACK_BYTES:
                start_writeback(file, started)
                started = file.tell()
            if key != last_key:
                file.write(bytes(-file.tell() % alignment))
                last_key = key
            file.write(chunk)
            checksums[key] = zlib.crc32(chunk, checksums[key])
            monitor.advance(len(chunk))
        file.write(bytes(-file.tell() % alignment))
        flush(file)

    def finish() -> None:
        final = header_of(checksums)
        if final != header:
            with path.open("r+b") as file:
                file.write(final)
                flush(file)

    return WrittenFile(checksums, finish=finish)


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


def prefetch(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield items, computing the next ones on a thread, which ends when the generator is closed."""
    iterator, end = iter(items), object()
    compute_next = partial(copy_context().run, next, iterator, end)
    with ThreadPoolExecutor(1, "prune-gui-prefetch") as pool:
        futures = deque(pool.submit(compute_next) for _ in range(MAX_PREFETCHED))
        while (item := futures.popleft().result()) is not end:
            futures.append(pool.submit(compute_next))
            yield cast("T", item)
