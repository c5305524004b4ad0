"""Temporary files and folders: creating, locking and removing them, and renaming them."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

TEMPORARY_SUFFIX: Final = ".prune-gui-tmp"
OWNED_NAME: Final = re.compile(rf"\.([0-9]{{1,9}})-[0-9a-f]+{re.escape(TEMPORARY_SUFFIX)}")
"""The end of the name of a temporary file or folder, with the id of its process."""
MAX_ATTEMPTS: Final = 8
"""Attempts to create a temporary file that other processes remove before it is locked."""
LOCK_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open a file for locking; a FIFO with the name of a temporary file does not block."""
log = logging.getLogger(__name__)
AT_FDCWD: Final = -100
RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2
UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
"""Error codes of a system or file system that does not support an operation."""


@contextmanager
def temporary(target: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Create a file or folder beside `target`, lock it for the block, and remove it afterwards.

    Another process may remove the file between its creation and the lock. In this case it is
    created again under another name.
    """
    for _ in range(MAX_ATTEMPTS):
        path = temporary_next_to(target)
        try:
            create(path)
            with claimed(path) as is_claimed:
                if is_claimed:
                    yield path
                    return
        finally:
            remove(path)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), os.fspath(target))


def temporary_next_to(target: Path) -> Path:
    """Return a new path in the folder of `target`, so that a rename to `target` is possible."""
    end = f"{os.getpid()}-{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    return target.parent / f".{target.name[:48]}.{end}"


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Mark an existing file or folder as in use by this process during the block.

    The mark is a lock of the operating system, which ends with the process. On Windows a lock would
    prevent the rename; there the process id in the name is the mark.
    """
    with ExitStack() as stack:
        try:
            if sys.platform != "win32":
                stack.enter_context(_locked(path, without_locks=True))
            is_claimed = os.path.lexists(path)
        except (FileNotFoundError, BlockingIOError):
            is_claimed = False
        yield is_claimed


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files and folders that no running process has marked as in use."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        with suppress(OSError), _abandoned(path):
            remove(path)
            log.info("Removed %s, left by a killed process", path)


def remove(path: Path) -> None:
    """Remove a file or a folder with its content, if it exists; ignore what cannot be removed."""
    for _ in range(2):  # a call may fail once
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            if not os.path.lexists(path):
                return


@contextmanager
def _abandoned(path: Path) -> Iterator[None]:
    """Raise OSError if a process uses a temporary file; none can begin to during the block."""
    if sys.platform == "win32":
        import psutil  # Windows only

        owner = OWNED_NAME.search(path.name)
        if owner is not None and psutil.pid_exists(int(owner[1])):
            raise BlockingIOError(path)
        yield
    else:
        with _locked(path, without_locks=False):
            yield


@contextmanager
def _locked(path: Path, *, without_locks: bool) -> Iterator[None]:
    """Lock a file or folder during the block; BlockingIOError if another process has locked it.

    Some network file systems have no locks; nothing is removed there.
    """
    import fcntl  # POSIX only

    descriptor = os.open(path, LOCK_OPEN_FLAGS)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError) or not without_locks:
                raise
        yield
    finally:
        with suppress(OSError):  # the lock is released even on an error
            os.close(descriptor)


def rename_no_replace(source: Path, target: Path) -> None:
    """Rename a file unless `target` exists.

    Linux and Windows do this atomically. Elsewhere the file gets a hard link at `target`, and its
    old name is removed. On file systems that support neither (exFAT on macOS), the existence of the
    target is checked before the rename; another program could create the target in between.
    """
    if sys.platform == "win32":
        source.rename(target)
        return
    try:
        _renameat2(source, target, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        with suppress(OSError):  # the target is complete; a second link to it is harmless
            source.unlink()
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
    source.rename(target)


def exchange(one: Path, other: Path) -> None:
    """Exchange two files or folders atomically."""
    _renameat2(one, other, RENAME_EXCHANGE)


def _renameat2(source: Path, target: Path, flags: int) -> None:
    function = _renameat2_function()
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    sys.audit("os.rename", source, target, -1, -1)
    if function(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fspath(source), None, os.fspath(target))


@cache
def _renameat2_function() -> Any | None:  # noqa: ANN401 - a function of the C library
    """Return renameat2 of the C library; None on other systems or with an older library."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
