"""Reading what a file holds as a stream of bytes, rather than through pages that are mapped.

A disk that fails ends a process that touches a mapped page; a plain read raises OSError.
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
"""From the raw key of a dense tensor to its bytes, a few megabytes or less at a time."""
BUFFER_BYTES: Final = 1 << 20
"""Of one read; what was read is still in the processor's cache when it is looked at."""


@contextmanager
def stored_reader(checkpoint: Checkpoint) -> Iterator[Read]:
    """Give a function that reads the tensors of a single file; of a torch file as `view_key` does.

    Two buffers take turns: the bytes that the function yields are valid until the next but one.
    The function raises an OSError or a CheckpointError where the values cannot be read.

    Raises:
        CheckpointError: the file is not valid any more.
        OSError: it cannot be opened.
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
