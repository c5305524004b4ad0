"""Open files of unknown type and size: regular files only, reading up to a size limit."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Literal

from prune_gui.language import tr


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    The file type is checked on the descriptor, so the file cannot be replaced after the check. The
    call never blocks, whereas a plain `open` of a FIFO without a writer blocks forever.
    """
    return _open(path, os.O_RDONLY, "rb")


def append_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for appending, and create it if it is missing; see `open_regular`."""
    return _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab")


def _open(path: str | os.PathLike[str], flags: int, mode: Literal["rb", "ab"]) -> BinaryIO:
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads
            raise _not_regular(path) from error
        raise
    try:
        _check_regular(descriptor, path)
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(descriptor: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _not_regular(path)


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, tr("it is not a regular file"), os.fspath(path))


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the contents of a regular file.

    Args:
        limit: maximum size in bytes; at most one byte more is read.
    """
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(
            errno.EFBIG, tr("it is larger than {limit:,} bytes", limit=limit), os.fspath(path)
        )
    return content
