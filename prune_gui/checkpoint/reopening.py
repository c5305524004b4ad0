"""Opening a checkpoint again in another process, which has received it as its path or URL."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.opening import open_checkpoint, open_file
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.location import Location

MAX_REOPENED: Final = 8
"""Checkpoints that stay open in a process: the input, its auxiliary files, and a few shards."""


def reopen(where: str, state: str | None, digest: bytes, is_part: bool) -> Checkpoint:
    """Return the checkpoint at a path or URL, which stays open in this process.

    Args:
        where: the absolute path, or the URL, of the file or of the index of shards.
    """
    location = Location.of(where)
    path = location.path
    if location.url is None and not path.exists():
        raise CheckpointError(
            tr(
                "{path} does not exist on a worker of the cluster. Put the checkpoint on a file "
                "system that all workers mount at the same path.",
                path=path,
            )
        )
    with _lock:  # opens it once for all threads
        return _reopened(path, state, digest, is_part)


_lock = threading.Lock()


@lru_cache(MAX_REOPENED)
def _reopened(path: Path, state: str | None, digest: bytes, is_part: bool) -> Checkpoint:
    checkpoint = open_file(path) if is_part else open_checkpoint(path, state)
    if checkpoint.files_digest() != digest:
        checkpoint.close()
        raise CheckpointError(
            tr(
                "{path} on a worker of the cluster is another file than here: its size or its "
                "modification time differs. Put the checkpoint on a file system that all workers "
                "mount at the same path.",
                path=path,
            )
        )
    return checkpoint
