"""A remote file as a source: blocks of it are fetched when they are read, into a sparse file."""

from __future__ import annotations

import hashlib
import io
import logging
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, cast

import numpy as np
from filelock import FileLock, Timeout

from prune_gui.checkpoint.remote.access import fetch_limit
from prune_gui.checkpoint.remote.small_files import fetch_model_files
from prune_gui.checkpoint.remote.stores import ChangedError, file_state, read_range
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import CheckpointError
from prune_gui.location import Location, cache_folder
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.number_formats import parse_bytes
from prune_gui.regular_files import SpanFile

log = logging.getLogger(__name__)

BLOCK_BYTES: Final = 1 << 18
MAX_REQUEST_BYTES: Final = 1 << 23
"""Bytes of one request: large enough for its latency not to matter, and soon cancelled."""
MAX_REQUESTS: Final = 8
"""Requests that run at once."""
SAVED_AFTER_BYTES: Final = 1 << 28
"""The list of fetched blocks is saved whenever this much was fetched, and at the end."""
LIMIT_VARIABLE: Final = "PRUNE_GUI_REMOTE_CACHE"
"""An environment variable with the limit of the cache, such as 50GB."""
DEFAULT_LIMIT: Final = "20GB"
WAIT_S: Final = 0.1

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Fetch = Callable[[int, int], "memoryview | bytes"]
"""A function of start and stop in bytes that returns this span of the remote file."""
FETCHED_AT_ONCE_BYTES: Final = 1 << 25
"""Bytes between two reports of the progress."""
CHECK_INTERVAL_S: Final = 30
"""The server is asked whether the file was changed at most this often while blocks are present.

Every block that is fetched is compared, too.
"""


def cache_limit() -> int:
    """Return the bytes that the blocks of all remote files may take on disk."""
    try:
        return parse_bytes(os.environ.get(LIMIT_VARIABLE) or DEFAULT_LIMIT)
    except ValueError as error:
        raise CheckpointError(f"{LIMIT_VARIABLE}: {error}") from None


class FetchedBlocks:
    """A remote file of which blocks are fetched on demand, into a local one. Thread-safe.

    The blocks stay in the cache folder until their room is needed. Only one process uses and
    extends them at a time; another one that opens the same file has its own, and keeps none.
    """

    _opened: ClassVar[dict[str, FetchedBlocks]] = {}
    _opening: ClassVar = threading.Lock()

    def __init__(self, url: str, name: str, size: int, fetch: Fetch) -> None:
        self.url, self.size = url, size
        self._name, self._fetch = name, fetch
        self._folder = cache_folder() / "blocks"
        self._users = 0
        self._changed = threading.Condition()
        self._pending = np.zeros(-(-size // BLOCK_BYTES), np.bool_)
        self._unsaved_nbytes = 0
        with _explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._path(".lock"), thread_local=False)
            self._file, self._present = self._open()

    @classmethod
    def of(cls, url: str, size: int, tag: str, fetch: Fetch) -> FetchedBlocks:
        """Return the blocks of a remote file in one of its states; the caller closes them."""
        name = hashlib.sha256(f"{url}\n{tag}\n{size}".encode()).hexdigest()[:32]
        with cls._opening:
            blocks = cls._opened.get(name)
            if blocks is None:
                blocks = cls._opened[name] = cls(url, name, size, fetch)
            blocks._users += 1
            return blocks

    def close(self) -> None:
        """Close the file when its last user does; mapped pages stay valid."""
        with self._opening:
            self._users -= 1
            if self._users:
                return
            del self._opened[self._name]
            try:
                self._save()
            except (OSError, CheckpointError) as error:  # its blocks are fetched again
                log.warning("The fetched blocks of %s are not kept: %s", self.url, error)
            finally:
                self._file.close()
                self._lock.release()

    def missing_nbytes(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the bytes that have to be fetched before these spans can be read."""
        wanted = np.zeros(self._present.size, np.bool_)
        for start, stop in spans:
            wanted[slice(*_block_range(start, stop))] = True
        with self._changed:
            return self._nbytes_of(wanted & ~self._present)

    def _nbytes_of(self, wanted: Flags, first: int = 0) -> int:
        """Return the bytes of wanted blocks, the first of which is `first`; the last is smaller."""
        starts = (np.flatnonzero(wanted) + first) * BLOCK_BYTES
        return int((np.minimum(starts + BLOCK_BYTES, self.size) - starts).sum())

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on; fewer at the end of the file."""
        stop = min(start + size, self.size)
        with self.loaded(start, stop) as file:
            return os.pread(file.fileno(), max(0, stop - start), start)

    def map(self, start: int, stop: int, first: int) -> mmap.mmap:
        """Return a copy-on-write mapping of `first` to `stop` that has the bytes from `start`."""
        with self.loaded(start, stop) as file:
            return mmap.mmap(file.fileno(), stop - first, offset=first, access=mmap.ACCESS_COPY)

    def whole_file(self) -> BinaryIO:
        """Return a local file with all bytes; the caller closes it."""
        with self.loaded(0, self.size) as file:
            return os.fdopen(os.dup(file.fileno()), "rb")

    @contextmanager
    def loaded(self, start: int, stop: int) -> Iterator[BinaryIO]:
        """Fetch a span, and yield the local file while it is sure to have it."""
        first, last = _block_range(start, stop)
        while True:
            with self._changed:
                absent = ~self._present[first:last]
                if not absent.any():
                    yield self._file
                    return
                wanted = absent & ~self._pending[first:last]
                if not wanted.any():  # other threads fetch the rest
                    self._changed.wait(WAIT_S)
                    check_cancelled()
                    continue
                nbytes = self._nbytes_of(wanted, first)
                fetch_limit.take(self.url, nbytes)
                self._make_room(nbytes)
                wanted = ~self._present[first:last] & ~self._pending[first:last]
                self._pending[first:last] |= wanted
            try:
                self._fetch_all([*_requests(wanted, first)])
            finally:
                with self._changed:
                    self._pending[first:last] &= ~wanted
                    self._changed.notify_all()

    def _fetch_all(self, requests: list[tuple[int, int]]) -> None:
        if len(requests) == 1:
            self._fetch_blocks(*requests[0])
            return
        stop = threading.Event()

        def fetch(first: int, last: int) -> None:
            with Monitor(cancel=stop).in_charge():
                self._fetch_blocks(first, last)

        with ThreadPoolExecutor(MAX_REQUESTS, "prune-gui-fetch") as pool:
            futures = {pool.submit(fetch, *each) for each in requests}
            try:
                while futures:
                    done, futures = wait(futures, WAIT_S)
                    check_cancelled()
                    for future in done:
                        future.result()
            finally:
                stop.set()  # after an interruption or an error, nobody waits for the rest
                pool.shutdown(cancel_futures=True)

    def _fetch_blocks(self, first: int, last: int) -> None:
        check_cancelled()
        start, stop = first * BLOCK_BYTES, min(last * BLOCK_BYTES, self.size)
        octets = memoryview(self._fetch(start, stop))
        with self._changed, _explained(self._folder):
            written = 0
            while written < len(octets):
                written += os.pwrite(self._file.fileno(), octets[written:], start + written)
            self._present[first:last] = True
            self._unsaved_nbytes += stop - start
            if self._unsaved_nbytes >= SAVED_AFTER_BYTES:
                self._save()

    def _open(self) -> tuple[BinaryIO, Flags]:
        present = np.zeros(self._pending.size, np.bool_)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            file.truncate(self.size)
            return file, present
        with suppress(OSError):
            saved = np.fromfile(self._path(".present"), np.uint8)
            file = self._path(".data").open("r+b")
            if saved.size == -(-present.size // 8) and os.fstat(file.fileno()).st_size == self.size:
                os.utime(file.fileno())
                return file, np.unpackbits(saved, count=present.size).astype(np.bool_)
            file.close()
        return self._new_file(), present

    def _new_file(self) -> BinaryIO:
        """Create the local file anew; mapped pages of the one before stay valid."""
        _remove(self._folder, self._name)
        file = self._path(".data").open("x+b")
        file.truncate(self.size)
        return file

    def _save(self) -> None:
        """Save which blocks the local file has, after their bytes are on the disk."""
        if not self._lock.is_locked or not self._unsaved_nbytes:
            return
        os.fsync(self._file.fileno())
        replace_bytes(self._path(".present"), np.packbits(self._present).tobytes())
        self._unsaved_nbytes = 0

    def _make_room(self, nbytes: int) -> None:
        """Remove the blocks that were used longest ago, until the cache has room.

        If those of other files are not enough, the blocks of this file are removed.
        """
        limit = cache_limit() - nbytes
        files: list[tuple[float, int, str]] = []
        for path in self._folder.glob("*.data"):
            with suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_blocks * 512, path.stem))
        used = sum(disk_nbytes for _, disk_nbytes, _ in files)
        for _, disk_nbytes, name in sorted(files):
            if used <= limit:
                return
            if name not in self._opened and _remove_unlocked(self._folder, name):
                used -= disk_nbytes
        is_used = self._present.any() and not self._pending.any()
        if used > limit and is_used and self._lock.is_locked:
            with _explained(self._folder):
                self._file.close()
                self._file = self._new_file()
            self._present[:] = False

    def _path(self, suffix: str) -> Path:
        return self._folder / f"{self._name}{suffix}"


def _block_range(start: int, stop: int) -> tuple[int, int]:
    """Return the first block of a span, and the one after its last."""
    return start // BLOCK_BYTES, max(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES))


def _requests(wanted: Flags, first: int) -> Iterator[tuple[int, int]]:
    """Yield runs of wanted blocks, each of at most `MAX_REQUEST_BYTES`."""
    edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)) + first
    step = MAX_REQUEST_BYTES // BLOCK_BYTES
    for start, stop in edges.reshape(-1, 2).tolist():
        for begin in range(start, stop, step):
            yield begin, min(begin + step, stop)


def _remove_unlocked(folder: Path, name: str) -> bool:
    """Remove the blocks of a file that no process uses; return whether they were removed."""
    try:
        with FileLock(folder / f"{name}.lock", blocking=False):
            _remove(folder, name)
    except (Timeout, OSError):
        return False
    return True


def _remove(folder: Path, name: str) -> None:
    """Remove the blocks of a file; first the list of them, which must not outlive the blocks."""
    for suffix in (".present", ".data"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _explained(folder: Path) -> AbstractContextManager[None]:
    return CheckpointError.on_os_error(
        "{folder} cannot hold what is fetched: {reason}. Make room there.", folder=folder
    )


class RemoteSource(Source):
    """A remote file, whose blocks are fetched when they are read and kept in the cache folder."""

    maps_neighbours = False

    def __init__(self, path: Path, url: str) -> None:
        self._url, self._file_state = url, file_state(url)
        self.blocks = FetchedBlocks.of(url, *self._file_state, self._fetch)
        self._checked = time.monotonic()
        try:
            super().__init__(path)
        except BaseException:
            self.blocks.close()
            raise

    def check(self) -> None:
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
        return self.blocks.read(position, size)

    def whole_file(self) -> AbstractContextManager[BinaryIO]:
        return self.blocks.whole_file()

    def missing_nbytes(self, spans: Iterable[tuple[int, int]]) -> int:
        return self.blocks.missing_nbytes(spans)

    def model_files_folder(self) -> Path:
        fetch_model_files(Location.at(self.path).parent)
        return self.path.parent

    def fetch(self, monitor: Monitor) -> None:
        monitor.expect(self.size)
        with monitor.in_charge():
            for start in range(0, self.size, FETCHED_AT_ONCE_BYTES):
                stop = min(start + FETCHED_AT_ONCE_BYTES, self.size)
                with self.blocks.loaded(start, stop):
                    pass
                monitor.advance(stop - start)

    def close(self) -> None:
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
