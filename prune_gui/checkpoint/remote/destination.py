"""Several files that are uploaded together: all of them are there in the end, or none.

A record of them is in the cache folder while they are uploaded. After a kill, the next upload finds
the record, and removes what is left.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from filelock import FileLock, Timeout

from prune_gui.checkpoint.remote import uploads
from prune_gui.checkpoint.remote.access import check_writable
from prune_gui.checkpoint.remote.stores import listing
from prune_gui.checkpoint.write.atomic import explained, replace_bytes
from prune_gui.checkpoint.write.temp_files import remove_abandoned, temporary
from prune_gui.errors import CheckpointError
from prune_gui.location import uploads_folder
from prune_gui.monitor import Monitor, not_cancelled

log = logging.getLogger(__name__)

RECORD_SUFFIX: Final = ".json"
LOCK_SUFFIX: Final = ".lock"
LOCK_S: Final = 10
"""How long an upload waits for its own lock, which another program may be removing."""


class Destination(NamedTuple):
    """Where the files of an upload go. Workers of a cluster get a copy."""

    url: str
    id: str
    overwrite: bool

    def send(self, path: Path, name: str, monitor: Monitor) -> None:
        """Upload a local file under a name; see `upload_file`."""
        uploads.upload_file(path, f"{self.url}/{name}", self.id, monitor, overwrite=self.overwrite)

    @contextmanager
    def local_folder(self) -> Iterator[Path]:
        """Yield a new local folder for files before they are sent; it is removed after the block.

        Those of killed processes are removed, too.
        """
        folder = uploads_folder()
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            remove_abandoned(folder)
            with temporary(folder / "files", Path.mkdir) as staging:
                yield staging


class Upload:
    """An upload of several files by way of a local folder; the main one is completed last."""

    def __init__(self, destination: Destination, main: str, folder: Path) -> None:
        self.destination, self.folder = destination, folder
        self.record = _Record(destination, main, [], datetime.now(UTC).replace(microsecond=0))
        self._by_workers = False
        self._pool = ThreadPoolExecutor(1, "prune-gui-shard")
        self._sending: Future[None] | None = None
        self._stop = threading.Event()

    def announce(self, names: Iterable[str]) -> None:
        """Record the names of files before workers of a cluster upload them."""
        self._by_workers = True
        self.record.add(names)

    def send(self, path: Path, name: str, monitor: Monitor) -> None:
        """Upload a local file under a name; see `upload_file`."""
        self.record.add([name])
        self.destination.send(path, name, monitor)

    def send_beside(self, path: Path, name: str, monitor: Monitor) -> None:
        """Upload a local file while the caller goes on, and then remove it.

        The upload before it must end first, so that at most one file waits on this disk.
        """
        self.wait()
        stoppable = monitor.stopped_by(self._stop)

        def send() -> None:
            self.send(path, name, stoppable)
            path.unlink()

        self._sending = self._pool.submit(copy_context().run, send)

    def wait(self) -> None:
        """Wait for the upload that `send_beside` began."""
        if self._sending is not None:
            self._sending.result()
            self._sending = None

    def send_all(self, folder: Path, monitor: Monitor) -> None:
        """Upload all files of a local folder, the main one last; see `upload_file`."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        main = folder / self.record.main
        for path in sorted(paths, key=lambda path: (path == main, path)):
            self.send(path, path.relative_to(folder).as_posix(), monitor)

    def close(self, *, is_complete: bool) -> None:
        """Remove what is left of the upload: all files unless the main one was uploaded."""
        self._stop.set()
        self._pool.shutdown()
        if is_complete and not self._by_workers:
            self.record.path.unlink(missing_ok=True)
        else:
            self.record.try_to_clean()


@contextmanager
def uploading(url: str, main: str, *, is_folder: bool, overwrite: bool) -> Iterator[Upload]:
    """Yield an upload to a remote file or folder. After an exception, its files are removed.

    Remote folders are not replaced, because an object store cannot do that in one step.
    CheckpointError says that the URL may not or cannot be written.
    """
    check_writable(url)
    remove_interrupted()
    overwrite = overwrite and not is_folder
    folder_url = url if is_folder else url.rpartition("/")[0]
    destination = Destination(folder_url, secrets.token_hex(16), overwrite)
    content = listing(url) if is_folder else None
    if content is not None and (any(content.files.values()) or content.folders):
        raise CheckpointError(
            "{url} is not empty, and remote folders are not replaced. Choose another.", url=url
        )
    if not overwrite:
        uploads.check_absent(f"{folder_url}/{main}", destination.id)
    with destination.local_folder() as folder:
        upload = Upload(destination, main, folder)
        with _locked(upload.record.path, LOCK_S):
            is_complete = False
            try:
                yield upload
                is_complete = True
            finally:
                upload.close(is_complete=is_complete)


class _Record(NamedTuple):
    """What is uploaded, in a file: all files whose upload may have begun, and when it began."""

    destination: Destination
    main: str
    names: list[str]
    since: datetime

    @property
    def path(self) -> Path:
        return uploads_folder() / f"{self.destination.id}{RECORD_SUFFIX}"

    def add(self, names: Iterable[str]) -> None:
        """Add names, and save the record."""
        self.names.extend(names)
        content = [*self.destination, self.main, self.names, self.since.isoformat()]
        replace_bytes(self.path, json.dumps(content).encode())

    @classmethod
    def load(cls, path: Path) -> _Record:
        """Return the record in a file."""
        url, own_id, overwrite, main, names, since = json.loads(path.read_bytes())
        return cls(Destination(url, own_id, overwrite), main, names, datetime.fromisoformat(since))

    @not_cancelled()
    def try_to_clean(self) -> bool:
        """Remove what is left of the upload, unless it is complete, and the record.

        An object of another upload is kept, also if it has one of the names.
        """
        folder, own_id, _ = self.destination
        urls = [f"{folder}/{name}" for name in self.names]
        try:
            uploads.remove_parts(urls, self.since)
            for url in filter(None, (uploads.unfinished_url(url, own_id) for url in urls)):
                uploads.remove_object(url)
            if urls and uploads.upload_id(f"{folder}/{self.main}") != own_id:
                for url in urls:
                    if uploads.upload_id(url) == own_id:
                        uploads.remove_object(url)
        except CheckpointError as error:
            log.warning("%s The next upload removes what is left.", error)
            return False
        self.path.unlink(missing_ok=True)
        return True


def remove_interrupted() -> list[str]:
    """Remove what killed processes left, and return the URL of the main file of each upload."""
    removed = []
    folder = uploads_folder()
    locks = {path.with_suffix(RECORD_SUFFIX) for path in folder.glob(f"*{LOCK_SUFFIX}")}
    for path in locks.union(folder.glob(f"*{RECORD_SUFFIX}")):
        with suppress(Timeout, OSError), _locked(path):
            try:
                record = _Record.load(path)
            except ValueError:
                path.unlink()
                continue
            if record.try_to_clean():
                removed.append(f"{record.destination.url}/{record.main}")
                log.warning("Removed what an interrupted upload to %s left.", removed[-1])
    return removed


@contextmanager
def _locked(record: Path, timeout_s: float = 0) -> Iterator[None]:
    """Lock a record during the block, also one that does not exist yet."""
    path = record.with_suffix(LOCK_SUFFIX)
    with FileLock(path, timeout_s, thread_local=False):
        try:
            yield
        finally:
            if not record.exists():
                path.unlink(missing_ok=True)
