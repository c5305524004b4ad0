"""Finding the checkpoint from which a pruned file was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.location import Location
from prune_gui.monitor import Monitor

MAX_OPENED: Final = 40
"""Limit of the files whose names and shapes are read."""
MAX_HASHED_BYTES: Final = 1 << 35
"""Limit of the bytes of files with the same names, of which fingerprints are computed."""


def find_original(
    checkpoint: Checkpoint, fingerprint: str, recent: Iterable[Path], monitor: Monitor
) -> Path | None:
    """Return the local file with a fingerprint, beside a checkpoint or among recent files."""
    own, bytes_left = checkpoint.path.absolute(), MAX_HASHED_BYTES
    every = dict.fromkeys((*_beside(own), *recent))
    candidates = (path for path in every if path != own and Location.at(path).url is None)
    for path in islice(candidates, MAX_OPENED):
        monitor.advance()
        try:
            with open_checkpoint(path) as other:
                if not checkpoint.tensors.keys() <= other.tensors.keys():
                    continue
                bytes_left -= sum(info.nbytes for info in other.tensors.values())
                if bytes_left > 0 and other.fingerprint(monitor) == fingerprint:
                    return path
        except Cancelled:
            raise
        except (PruneGuiError, OSError):
            continue  # it is no checkpoint, or a damaged one
    return None


def _beside(path: Path) -> Iterator[Path]:
    """Yield the checkpoints beside one, and first those with a name from which it may be made."""
    own = path.parent if has_several_files(path) else path
    try:
        near = [one for one in own.parent.iterdir() if _may_be_checkpoint(one, own)]
    except OSError:  # the folder cannot be read
        return
    yield from sorted(near, key=lambda one: (not own.name.startswith(one.stem), one.name))


def _may_be_checkpoint(path: Path, like: Path) -> bool:
    if path == like or path.name.startswith("."):
        return False
    return path.is_dir() if like.is_dir() else path.suffix.lower() in known_suffixes()
