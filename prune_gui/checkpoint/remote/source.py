"""A remote file as the source of a checkpoint."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from prune_gui.checkpoint.remote.blocks import Blocks
from prune_gui.checkpoint.remote.locations import url_of
from prune_gui.checkpoint.remote.model_files import fetch_model_files
from prune_gui.checkpoint.remote.stores import ChangedError, file_state, read_range
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.regular_files import SpanFile

if TYPE_CHECKING:
    import mmap

FETCHED_AT_ONCE_BYTES: Final = 1 << 25
"""Bytes between two reports of the progress."""
CHECK_INTERVAL_S: Final = 30
"""The server is asked whether the file was changed at most this often while blocks are present.

Every block that is fetched is compared, too.
"""


class RemoteSource(Source):
    """A remote file, whose blocks are fetched when they are read and kept in the cache folder.

    Attributes:
        path: the local path that stands for its URL.
        blocks: the bytes that were fetched.
    """

    maps_neighbours = False

    def __init__(self, path: Path) -> None:
        """Ask the server for the state of the file."""
        self._url = url_of(path) or ""
        self._file_state = state = file_state(self._url)
        self.blocks = Blocks.of(self._url, state.tag, state.size, self._fetch)
        self._checked = time.monotonic()
        try:
            super().__init__(path)
        except BaseException:
            self.blocks.close()
            raise

    def check(self) -> None:
        """Check that the file is open and was not changed; see `Source.check`."""
        super().check()
        if time.monotonic() - self._checked > CHECK_INTERVAL_S:
            self._checked = time.monotonic()
            try:
                state = file_state(self._url)
            except CheckpointError:
                return  # what was fetched can be read without a connection
            if state != self._file_state:
                raise ChangedError(self._url)

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position` on; see `Source.read_at`."""
        return self.blocks.read(position, size)

    def whole_file(self) -> AbstractContextManager[BinaryIO]:
        """Return a local file with all bytes; see `Source.whole_file`."""
        return self.blocks.whole_file()

    def missing_nbytes(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the bytes to fetch before spans can be read; see `Source.missing_nbytes`."""
        return self.blocks.missing_nbytes(spans)

    def model_files_folder(self) -> Path:
        """Fetch the small files beside the file, and return the folder with their copies."""
        fetch_model_files(self.path.parent)
        return self.path.parent

    def fetch(self, monitor: Monitor) -> None:
        """Fetch all of the file; see `Source.fetch`."""
        monitor.expect(self.size)
        with monitor.in_charge():
            for start in range(0, self.size, FETCHED_AT_ONCE_BYTES):
                stop = min(start + FETCHED_AT_ONCE_BYTES, self.size)
                self.blocks.load(start, stop)
                monitor.advance(stop - start)

    def close(self) -> None:
        """Close the file."""
        if not self.file.closed:
            super().close()
            self.blocks.close()

    def _fetch(self, start: int, stop: int) -> memoryview:
        return memoryview(read_range(self._url, start, stop, self._file_state))

    def _open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(SpanFile(self.read_at, 0, self.blocks.size)))

    def _map(self, start: int, stop: int, first: int) -> mmap.mmap:
        return self.blocks.map(start, stop, first)

    def _stat(self) -> tuple[int, int]:
        digest = hashlib.sha256(self._file_state.tag.encode()).digest()
        return self._file_state.size, int.from_bytes(digest[:8], "big")
