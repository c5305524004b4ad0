"""Open files of unknown type and size: regular files only, up to a size limit, or a part."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
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


class SpanFile(io.RawIOBase):
    """The bytes of a file from `start` on, with a position of its own.

    Reads do not move the position of the file, so threads and other readers may share it.

    Args:
        read_at: returns up to this many bytes of the file from this position on.
    """

    def __init__(self, read_at: Callable[[int, int], bytes], start: int, size: int) -> None:
        super().__init__()
        self._read_at = read_at
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, relative to the first byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it; see `io.IOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(offset)
        self._position = base + offset
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as there are bytes, and return their number."""
        wanted = max(0, min(len(buffer), self._size - self._position))
        octets = self._read_at(wanted, self._start + self._position)
        buffer[: len(octets)] = octets
        self._position += len(octets)
        return len(octets)
