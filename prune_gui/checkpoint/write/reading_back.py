"""Reading a written file as a stream of bytes instead of through memory-mapped pages.

A failing disk ends a process that accesses a mapped page; a plain read raises OSError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.byte_chunks import byte_chunks
from prune_gui.checkpoint.safetensors.header import read_header
from prune_gui.language import tr
from prune_gui.regular_files import open_regular

Read = Callable[[str], Iterator[memoryview]]
"""A function that yields the bytes of a dense tensor by its raw key, at most 4 MiB at a time."""
BUFFER_BYTES: Final = 1 << 20
"""The size of one read; small enough for the data to stay in the CPU cache until it is used."""


@contextmanager
def stored_reader(checkpoint: Checkpoint) -> Iterator[Read]:
    """Yield a function that reads the tensors of a single file; torch files through `view_key`.

    Two buffers alternate: each item that the function yields is valid until the second one after
    it. The function raises OSError or CheckpointError if the values cannot be read.

    Raises:
        CheckpointError: the file is no longer valid.
        OSError: the file cannot be opened.
    """
    if checkpoint.format != "safetensors":
        yield lambda key: byte_chunks(checkpoint.view_key(key).reshape(-1))
        return
    buffers = cycle([memoryview(bytearray(BUFFER_BYTES)) for _ in range(2)])
    with open_regular(checkpoint.path) as file:
        size = os.fstat(file.fileno()).st_size
        spans = read_header(file, size, checkpoint.path.name).spans
        yield lambda key: _span(file, *spans[key], buffers)


def _span(
    file: BinaryIO, start: int, stop: int, buffers: Iterator[memoryview]
) -> Iterator[memoryview]:
    file.seek(start)
    while start < stop:
        buffer = next(buffers)[: stop - start]
        if file.readinto(buffer) < len(buffer):  # type: ignore[attr-defined]
            raise OSError(errno.EIO, tr("the file ended early"))
        start += len(buffer)
        yield buffer
