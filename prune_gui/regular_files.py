"""Reading files whose kind and size nobody has promised: regular files only, up to a limit."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from prune_gui.language import tr


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    The kind is checked on the descriptor, so that the file cannot be swapped after the check. The
    call never waits: a FIFO without a writer would block a plain `open` for good.

    Raises:
        OSError: it cannot be opened, or is a folder, FIFO, device or socket; `strerror` says which.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_regular(path) from error
        raise
    try:
        check_regular(descriptor, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Check that a descriptor is of a regular file.

    Raises:
        OSError: it is of something else.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _not_regular(path)


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, tr("it is not a regular file"), os.fspath(path))


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return what a regular file holds.

    Args:
        path: of the file.
        limit: the most bytes that it may hold; no more are ever asked of the system.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger; `strerror` says which.
    """
    with open_regular(path) as file:
        octets = file.read(limit + 1)
    if len(octets) > limit:
        raise OSError(
            errno.EFBIG, tr("it is larger than {limit:,} bytes", limit=limit), os.fspath(path)
        )
    return octets
