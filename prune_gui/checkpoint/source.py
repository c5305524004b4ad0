"""The open file of a checkpoint, with a check that it stays unchanged, and parts of it."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import io
import mmap
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, cast

from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint.bus_errors import watch
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.regular_files import SpanFile, open_regular

if TYPE_CHECKING:
    import torch

FINGERPRINT_PREFIX: Final = "sha256:"
BUFFER_BYTES: Final = 1 << 20
"""The size of one read; small enough for the data to stay in the CPU cache until used."""
CHUNK_BYTES: Final = 4 << 20
"""Bytes processed between two checks for cancellation, so that cancelling is quick."""


class Source:
    """A file that is opened once, so that it stays readable when another file replaces it.

    Callers that use mapped pages call `check` before and after. Pages that another program
    truncates, or that the disk cannot read, turn to zeros (see `bus_errors`). The state, (size in
    bytes, modification time in ns), detects changes.
    """

    maps_neighbours: ClassVar = True
    """Whether mapping more than is read costs nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = self._open()
        try:
            self.state = self._stat()
        except BaseException:
            self.file.close()
            raise
        self.size = self.state[0]
        self._lost = ctypes.c_uint64()

    def check(self) -> None:
        """Check that the file is open and unchanged, and that no mapped page was unreadable."""
        if self.file.closed:
            raise CheckpointError("{file} is closed. Open it again.", file=self.path.name)
        if self._stat() != self.state:
            raise CheckpointError(
                "{file} was changed by another program since it was opened. Open it again.",
                file=self.path.name,
            )
        if self._lost.value:
            raise CheckpointError(
                "{file} cannot be read: the disk did not return all of its bytes. Download the "
                "file again.",
                file=self.path.name,
            )

    def pages(self, start: int, stop: int) -> torch.Tensor:
        """Return the bytes from `start` to `stop` as uint8, mapped copy-on-write."""
        import torch  # slow to import

        if start == stop:
            return torch.empty(0, dtype=torch.uint8)
        first = start - start % mmap.ALLOCATIONGRANULARITY
        try:
            pages = self._map(start, stop, first)
        except (OSError, ValueError) as error:  # the file may be shorter by now
            self.check()
            raise CheckpointError(
                "{file} cannot be mapped into memory: {reason}. Close other programs.",
                file=self.path.name,
                reason=getattr(error, "strerror", None) or error,
            ) from error
        watch(pages, self._lost)
        return torch.frombuffer(pages, dtype=torch.uint8, count=stop - start, offset=start - first)

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position` on, without moving the position of the file."""
        return os.pread(self.file.fileno(), size, position)

    def whole_file(self) -> AbstractContextManager[BinaryIO]:
        """Return a file that another process can read, which the context may close."""
        return nullcontext(self.file)

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to `stop`; other threads may read at the same time."""
        while start < stop:
            wanted = min(stop - start, BUFFER_BYTES)
            chunk = self.read_at(wanted, start)
            if len(chunk) < wanted:
                raise OSError(errno.EIO, tr("the file ended early"))
            start += len(chunk)
            yield chunk

    def open_again(self) -> BinaryIO:
        """Return a reader of the same bytes with a position of its own."""
        return cast("BinaryIO", io.BufferedReader(SpanFile(self.read_at, 0, self.size)))

    def missing_nbytes(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the bytes to fetch before spans (start, stop) can be read; 0 for a local file."""
        return 0

    def model_files_folder(self) -> Path:
        """Return the folder of the file, where all small files beside a remote one are by then."""
        return self.path.parent

    def fetch(self, monitor: Monitor) -> None:
        """Fetch all of a remote file; a local one is there."""

    def fingerprint(
        self, monitor: Monitor, chunks: Iterable[bytes | memoryview] | None = None
    ) -> str:
        """Return "sha256:<hex>" of the bytes of the file that was opened, read as `chunks`."""
        digest = hashlib.sha256()
        monitor.expect(self.size)
        try:
            self.check()
            for chunk in self.chunks(0, self.size) if chunks is None else chunks:
                digest.update(chunk)
                monitor.advance(len(chunk))
            self.check()
        except OSError as error:
            self.check()
            reason = error.strerror or error
            raise CheckpointError(
                "{path} cannot be read: {reason}.", path=self.path, reason=reason
            ) from error
        return f"{FINGERPRINT_PREFIX}{digest.hexdigest()}"

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _open(self) -> BinaryIO:
        file = open_regular(self.path)
        weakref.finalize(self, file.close).atexit = False  # workers of a cluster drop checkpoints
        return file

    def _map(self, start: int, stop: int, first: int) -> mmap.mmap:
        """Map the bytes from `start` to `stop`; the mapping starts at `first`, a page before."""
        return mmap.mmap(self.file.fileno(), stop - first, offset=first, access=mmap.ACCESS_COPY)

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns


def byte_chunks(flat: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a flat CPU tensor in chunks of 4 MiB, without a copy if contiguous."""
    import torch  # slow to import

    for chunk in torch.split(flat.detach(), CHUNK_BYTES // flat.itemsize):
        yield chunk.contiguous().view(torch.uint8).numpy().data


def crc32_of(chunks: Iterable[bytes | memoryview], monitor: Monitor | None = None) -> int:
    """Return the CRC-32 of chunks, whose bytes the monitor counts."""
    checksum = 0
    for chunk in chunks:
        checksum = crc32(chunk, checksum)
        if monitor is not None:
            monitor.advance(len(chunk))
    return checksum
