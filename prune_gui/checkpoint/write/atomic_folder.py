"""Replacing a folder atomically."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prune_gui.checkpoint.write.atomic import (
    check_link,
    check_room,
    explained,
    flush_folder,
    keep_attributes,
)
from prune_gui.checkpoint.write.renaming import exchange
from prune_gui.checkpoint.write.temp_files import remove_abandoned, temporary
from prune_gui.errors import CheckpointError
from prune_gui.language import tr


@contextmanager
def replacing_folder(
    target: Path,
    *,
    nbytes: int,
    overwrite: bool,
    kept_files: Callable[[Path], Iterable[str]],
) -> Iterator[Path]:
    """Yield the path of a new, empty folder, which replaces the target if the block succeeds.

    The new folder is beside the target, so that the last step is a rename. If the target is not
    empty, the last step is an atomic exchange of the two folders. Only Linux can exchange folders;
    elsewhere a target must be empty or new. After an exception, the new folder is removed, and the
    target is unchanged.

    Args:
        nbytes: the approximate number of bytes to write; checked against the free space.
    """
    with explained(target):
        check_link(target)
        target = Path(os.path.realpath(target))
        check_room(target, nbytes)
        occupied = _is_occupied(target, overwrite=overwrite)
        remove_abandoned(target.parent)
        with temporary(target, Path.mkdir) as staging:  # the old folder after an exchange
            if occupied:
                kept_files(target)
                _check_exchange(staging, target)
            yield staging
            occupied = _is_occupied(target, overwrite=overwrite)
            if occupied:
                for path in staging.iterdir():
                    keep_attributes(target / path.name, path)
                for name in kept_files(target):
                    os.link(target / name, staging / name)
            keep_attributes(target, staging)
            flush_folder(staging)
            if occupied:
                exchange(staging, target)
            else:
                if sys.platform == "win32" and target.exists():
                    target.rmdir()
                staging.rename(target)  # on POSIX, this replaces only an empty folder
        flush_folder(target.parent)


def _is_occupied(target: Path, *, overwrite: bool) -> bool:
    """Return whether the target is a folder with content; raise if it may not be replaced."""
    if not target.exists():
        return False
    if not target.is_dir():
        raise CheckpointError(tr("{path} is a file. Specify a folder for the shards.", path=target))
    if target in _working_folders():
        raise CheckpointError(
            tr(
                "{path} is or contains the working folder of this program, and cannot be replaced. "
                "Specify a folder in it, or run the program in another folder.",
                path=target,
            )
        )
    if os.path.ismount(target):
        raise CheckpointError(
            tr(
                "{path} is a mount point, and cannot be replaced. Specify a folder in it.",
                path=target,
            )
        )
    if not any(target.iterdir()):
        return False
    if not overwrite:
        raise CheckpointError(
            tr(
                "{path} is not empty. Choose another folder, or allow overwriting it.",
                path=target,
            )
        )
    return True


def _working_folders() -> list[Path]:
    """Return the working folder and its parents; [] if the working folder was deleted."""
    try:
        folder = Path(os.path.realpath(Path.cwd()))
    except FileNotFoundError:
        return []
    return [folder, *folder.parents]


def _check_exchange(staging: Path, target: Path) -> None:
    """Check, with two empty folders, that the system can exchange folders."""
    one, other = staging / "1", staging / "2"
    one.mkdir()
    other.mkdir()
    try:
        exchange(one, other)
    except OSError as error:
        raise CheckpointError(
            tr(
                "{path} is not empty, and folders cannot be exchanged atomically here: a crash "
                "could destroy both the old and the new checkpoint. Choose another folder.",
                path=target,
            )
        ) from error
    one.rmdir()
    other.rmdir()
