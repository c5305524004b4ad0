"""Temporary files and folders: who is writing them right now, and which a killed run has left."""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".prune-gui-tmp"
OWNER: Final = re.compile(rf"\.([0-9]{{1,9}})-[0-9a-f]+{re.escape(TEMPORARY_SUFFIX)}")
"""The end of the name of a temporary file or folder, with the number of the process it is of."""
ATTEMPTS: Final = 8
"""How often a temporary is created anew when another process sweeps it away before it is locked."""

OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""To lock a file; one that is a FIFO, which anybody may put there, blocks nobody."""

log = logging.getLogger(__name__)


@contextmanager
def temporary(target: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Create a file or folder beside `target`, claim it for the block, and remove it afterwards.

    Another process may sweep the folder between the creation and the lock. That is noticed, and
    the file is created again under another name.

    Args:
        target: what it is to replace; a rename reaches it.
        create: makes the file or folder at a path.

    Raises:
        OSError: it cannot be created.
    """
    for _ in range(ATTEMPTS):
        path = temporary_beside(target)
        try:
            create(path)
            with claimed(path) as ours:
                if ours:
                    yield path
                    return
        finally:
            remove(path)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), os.fspath(target))


def temporary_beside(target: Path) -> Path:
    """Return a new name in the folder of `target`, from where a rename reaches it."""
    end = f"{os.getpid()}-{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    return target.parent / f".{target.name[:48]}.{end}"


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Mark an existing file or folder as being written, for as long as this process lives.

    The mark is a lock of the operating system, which goes with the process however it ends. On
    Windows it would keep the file from being renamed; there the process in its name is the mark.

    Yields:
        Whether the claim holds. It does not if a sweep has removed the file, or is about to.
    """
    if sys.platform == "win32":
        yield True
        return
    import fcntl

    try:
        descriptor = os.open(path, OPEN_FLAGS)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.path.lexists(path)
        except BlockingIOError:
            ours = False
        except OSError:  # some network file systems have no locks; then nothing is swept there
            ours = True
        yield ours
    finally:
        with suppress(OSError):  # the lock is gone all the same
            os.close(descriptor)


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files and folders that no living process has claimed."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        with suppress(OSError), _abandoned(path) as abandoned:
            if abandoned:
                remove(path)
                log.info("Removed %s, which a run that was killed had left", path)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, if it exists; what cannot be removed stays."""
    for _ in range(2):  # a call may fail once
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            if not os.path.lexists(path):
                return


@contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Yield whether no process writes a temporary; none can claim it during the block.

    Raises:
        OSError: that cannot be told.
    """
    if sys.platform == "win32":
        import psutil

        owner = OWNER.search(path.name)
        yield owner is None or not psutil.pid_exists(int(owner[1]))
        return
    import fcntl

    descriptor = os.open(path, OPEN_FLAGS)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
