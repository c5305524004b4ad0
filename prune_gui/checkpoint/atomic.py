"""Replacing a file as a whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prune_gui.checkpoint.debris import claimed, sweep, temporary_beside
from prune_gui.errors import CheckpointError
from prune_gui.language import tr


@contextmanager
def replacing(target: Path, *, nbytes: int, overwrite: bool) -> Iterator[Path]:
    """Give the path of a new, empty file to fill; once all went well it takes the target's place.

    It lies in the folder of the target, so that the last step is a rename. If anything is raised
    meanwhile it is removed, and the target is as it was. What is open or mapped from an old target
    stays readable (POSIX). What a killed run has left in the folder is removed first.

    Args:
        target: the file to make or to replace.
        nbytes: about how much will be written; checked against the free space.
        overwrite: whether an existing target may be replaced.

    Raises:
        CheckpointError: the target may not or cannot be written.
    """
    folder = target.parent
    with explained(target):
        check_room(target, nbytes)
        _check_target(target, overwrite=overwrite)
        sweep(folder)
        temporary = temporary_beside(target)
        temporary.open("xb").close()
        try:
            with claimed(temporary):
                yield temporary
                _check_target(target, overwrite=overwrite)
                if target.exists():
                    shutil.copymode(target, temporary)
                temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        flush_folder(folder)


class _RehearsedError(Exception):
    """Ends a rehearsal."""


def rehearse(writing: AbstractContextManager[Path]) -> None:
    """Do what `replacing` or `replacing_folder` begins with, and take it back.

    Raises:
        CheckpointError: the target may not or cannot be written.
    """
    with suppress(_RehearsedError), writing:
        raise _RehearsedError


def flush(file: BinaryIO) -> None:
    """Wait until what was written to a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Raise what the system refuses while `target` is written as a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(_explain(error, target)) from error


def check_room(target: Path, nbytes: int) -> None:
    """Check that there is a folder to write `target` to, with so much space.

    Raises:
        CheckpointError: there is not.
    """
    folder = target.parent
    if not folder.is_dir():
        raise CheckpointError(
            tr(
                "{path} cannot be written: there is no folder {folder}.",
                path=target,
                folder=folder,
            )
        )
    free = shutil.disk_usage(folder).free
    if free < nbytes:
        raise CheckpointError(
            tr(
                "{name} needs {needed:,} bytes, and {folder} has {free:,} left. "
                "Make room, or save it elsewhere.",
                name=target.name,
                needed=nbytes,
                folder=folder,
                free=free,
            )
        )


def _check_target(target: Path, *, overwrite: bool) -> None:
    if target.is_dir():
        raise CheckpointError(
            tr("{path} is a folder. Give the name of a file to write.", path=target)
        )
    if target.exists() and not overwrite:
        raise CheckpointError(
            tr(
                "{path} exists already. Choose another name, or allow overwriting it.",
                path=target,
            )
        )


def flush_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut, where the file system offers that."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(error: OSError, target: Path) -> str:
    if error.errno == errno.ENOSPC:
        return tr(
            "{path} was not written: the disk is full. Make room, or save it elsewhere.",
            path=target,
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return tr("{path} was not written: no permission. Save it elsewhere.", path=target)
    return tr("{path} was not written: {reason}.", path=target, reason=error.strerror or error)
