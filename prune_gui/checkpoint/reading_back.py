"""Reading what a file holds as a stream of bytes, rather than through pages that are mapped.

A disk that fails ends a process that touches a mapped page; a plain read raises OSError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.digest import PIECE_BYTES, pieces
from prune_gui.checkpoint.safetensors_header import read_header
from prune_gui.language import tr
from prune_gui.regular_files import open_regular

Read = Callable[[str], Iterator[memoryview]]
"""From the raw key of a dense tensor to its bytes, a few megabytes at a time."""


@contextmanager
def stored_reader(checkpoint: Checkpoint) -> Iterator[Read]:
    """Give a function that reads the tensors of a single file; of a torch file as `view_key` does.

    The function raises an OSError or a CheckpointError where the values cannot be read.

    Raises:
        CheckpointError: the file is not valid any more.
        OSError: it cannot be opened.
    """
    if checkpoint.format != "safetensors":
        yield lambda key: pieces(checkpoint.view_key(key).reshape(-1))
        return
    with open_regular(checkpoint.path) as file:
        size = os.fstat(file.fileno()).st_size
        spans = read_header(file, size, checkpoint.path.name).spans
        yield lambda key: _span(file, *spans[key])


def _span(file: BinaryIO, start: int, stop: int) -> Iterator[memoryview]:
    file.seek(start)
    while start < stop:
        piece = file.read(min(PIECE_BYTES, stop - start))
        if not piece:
            raise OSError(errno.EIO, tr("the file ended early"))
        start += len(piece)
        yield memoryview(piece)
