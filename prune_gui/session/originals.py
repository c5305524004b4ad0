"""Finding the checkpoint from which a pruned file was made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import psutil
from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.file_stamps import FileStamps
from prune_gui.location import Location
from prune_gui.monitor import Monitor
from prune_gui.recipe.recipe import Provenance
from prune_gui.session.state_file import StateFile, StatePath

MAX_OPENED: Final = 40
"""Limit of the files whose names and shapes are read."""
MAX_HASHED_BYTES: Final = 1 << 35
"""Limit of the bytes of files with fitting headers, of which fingerprints are computed."""
MAX_REMEMBERED: Final = 200
MAX_FILE_BYTES: Final = 1 << 22
SLOW_FILE_SYSTEMS: Final = (
    "9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.", "glusterfs", "gpfs", "lustre",
    "nfs", "smb", "webdav",
)  # fmt: skip
"""Beginnings of the names of file systems in a network, whose files are not read as a whole."""


class _Original(BaseModel):
    """A checkpoint whose fingerprint is known while its files are unchanged."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    path: StatePath
    stamps: FileStamps


class _OriginalsFile(BaseModel):
    """The originals of pruned files by fingerprint; the one that was noted last is the last."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    originals: dict[str, _Original] = {}


def remember_original(checkpoint: Checkpoint, fingerprint: str) -> None:
    """Note the fingerprint of a local checkpoint, so that it need not be computed to find it."""
    if checkpoint.location.url is not None:
        return
    path = checkpoint.path.absolute()
    files = (file.absolute() for file in (checkpoint.path, *checkpoint.files))
    noted = _Original(path=path, stamps=FileStamps.of(files))

    def change(kept: _OriginalsFile | None) -> _OriginalsFile:
        others = dict(kept.originals) if kept is not None else {}
        others.pop(fingerprint, None)
        latest = list(others.items())[-(MAX_REMEMBERED - 1) :]
        return _OriginalsFile(originals=dict([*latest, (fingerprint, noted)]))

    _file().update(change)


def find_original(checkpoint: Checkpoint, recent: Iterable[Path], monitor: Monitor) -> Path | None:
    """Return the local file from which a checkpoint says that it was made; None if none is found.

    First comes the file that is noted for the fingerprint in the metadata. Then those beside the
    checkpoint and the recent ones are compared: their headers, and only if these fit, and the file
    is on a disk of this machine, its fingerprint.
    """
    made = Provenance.of(checkpoint.metadata)
    if made is None or not made.input:
        return None
    noted = (_file().load() or _OriginalsFile()).originals.get(made.input)
    if noted is not None and os.access(noted.path, os.R_OK) and not noted.stamps.changed():
        return noted.path
    own, bytes_left = checkpoint.path.absolute(), MAX_HASHED_BYTES
    every = dict.fromkeys((*_beside(own), *recent))
    candidates = (path for path in every if path != own and Location.at(path).url is None)
    for path in islice(candidates, MAX_OPENED):
        monitor.advance()
        try:
            with open_checkpoint(path) as other:
                if not _may_be_original(other, checkpoint, made) or is_slow(path):
                    continue
                bytes_left -= sum(info.nbytes for info in other.tensors.values())
                if bytes_left > 0 and other.fingerprint(monitor) == made.input:
                    remember_original(other, made.input)
                    return path
        except Cancelled:
            raise
        except (PruneGuiError, OSError):
            continue  # it is no checkpoint, or a damaged one
    return None


def _may_be_original(other: Checkpoint, pruned: Checkpoint, made: Provenance) -> bool:
    """Return whether the headers of two files allow that one was made from the other."""
    others_made = Provenance.of(other.metadata)
    if others_made is not None and others_made.input == made.input:
        return False  # both were made from the same file
    if not pruned.tensors.keys() <= other.tensors.keys():
        return False
    shapes = ((info.shape, other.tensors[name].shape) for name, info in pruned.tensors.items())
    return made.form != "finalized" or all(one == another for one, another in shapes)


def is_slow(path: Path) -> bool:
    """Return whether a path is in a file system of a network, as far as the system says so."""
    folders = {str(folder) for folder in path.absolute().parents}
    mounts = [one for one in psutil.disk_partitions(all=True) if one.mountpoint in folders]
    mount = max(mounts, key=lambda one: len(one.mountpoint), default=None)
    if mount is None:
        return False
    return mount.fstype.lower().startswith(SLOW_FILE_SYSTEMS) or "remote" in mount.opts.split(",")


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


def _file() -> StateFile[_OriginalsFile]:
    folder = user_state_path("prune-gui", appauthor=False)
    return StateFile(folder / "originals.json", _OriginalsFile, MAX_FILE_BYTES)
