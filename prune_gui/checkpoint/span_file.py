"""A part of an open file as a file of its own."""

from __future__ import annotations

import io
import os
from collections.abc import Callable


class SpanFile(io.RawIOBase):
    """The bytes of a file from `start` on, with a position of its own.

    Reads do not move the position of the file, so threads and other readers may share it.

    Args:
        read_at: returns up to this many bytes of the file from this position on.
        start: the position of the first byte.
        size: the number of bytes.
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
