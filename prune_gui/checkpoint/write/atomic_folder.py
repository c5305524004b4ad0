"""Replacing a folder as a whole or not at all."""

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
    staying: Callable[[Path], Iterable[str]],
) -> Iterator[Path]:
    """Give the path of a new, empty folder to fill; once all went well it takes the target's place.

    It lies beside the target, so that the last step is a rename, or, if there is something in the
    target, one exchange of the two folders: the old one is whole up to that instant and the new
    one from then on. Only Linux can exchange; elsewhere a target must be empty or new. If anything
    is raised meanwhile, what was written is removed, and the target is as it was.

    Args:
        target: the folder to make or to replace.
        nbytes: about how much will be written; checked against the free space.
        overwrite: whether a target with something in it may be replaced.
        staying: returns the names of those files of an old target that the new one keeps.

    Raises:
        CheckpointError: the target may not or cannot be written.
    """
    with explained(target):
        check_link(target)
        target = Path(os.path.realpath(target))
        check_room(target, nbytes)
        occupied = _is_occupied(target, overwrite=overwrite)
        remove_abandoned(target.parent)
        with temporary(target, Path.mkdir) as staging:  # after an exchange it is the old folder
            if occupied:
                staying(target)
                _check_exchange(staging, target)
            yield staging
            occupied = _is_occupied(target, overwrite=overwrite)
            if occupied:
                for path in staging.iterdir():
                    keep_attributes(target / path.name, path)
                for name in staying(target):
                    os.link(target / name, staging / name)
            keep_attributes(target, staging)
            flush_folder(staging)
            if occupied:
                exchange(staging, target)
            else:
                if sys.platform == "win32" and target.exists():
                    target.rmdir()
                staging.rename(target)  # POSIX lets it replace an empty folder, and nothing else
        flush_folder(target.parent)


def _is_occupied(target: Path, *, overwrite: bool) -> bool:
    """Tell whether there is something to replace, if that is allowed."""
    if not target.exists():
        return False
    if not target.is_dir():
        raise CheckpointError(
            tr("{path} is a file. Give the name of a folder for the shards.", path=target)
        )
    if target in _working_folders():
        raise CheckpointError(
            tr(
                "{path} is the folder that this program runs in, or contains it, and cannot be "
                "replaced as a whole. Give the name of a folder in it, or run the program "
                "elsewhere.",
                path=target,
            )
        )
    if os.path.ismount(target):
        raise CheckpointError(
            tr(
                "{path} is where a disk is mounted, and cannot be replaced as a whole. Give the "
                "name of a folder in it.",
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
    """Return the folder that this process runs in, and those around it; [] if it was deleted."""
    try:
        folder = Path(os.path.realpath(Path.cwd()))
    except FileNotFoundError:
        return []
    return [folder, *folder.parents]


def _check_exchange(staging: Path, target: Path) -> None:
    """Try on two empty folders what is to be done in the end."""
    one, other = staging / "1", staging / "2"
    one.mkdir()
    other.mkdir()
    try:
        exchange(one, other)
    except OSError as error:
        raise CheckpointError(
            tr(
                "{path} is not empty, and folders cannot be exchanged here, so that a crash could "
                "leave neither the old checkpoint nor the new one. Choose another folder.",
                path=target,
            )
        ) from error
    one.rmdir()
    other.rmdir()
