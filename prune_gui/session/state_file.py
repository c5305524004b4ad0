"""State files: JSON files that are validated when read, and replaced atomically."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError

from prune_gui.checkpoint.write.atomic import explained, replace_bytes
from prune_gui.errors import CheckpointError, PruneGuiError, one_line
from prune_gui.language import deferred, tr
from prune_gui.regular_files import read_regular

State = TypeVar("State", bound=BaseModel)

LOCK: Final = ".lock"
"""Name of the lock file, which guards all state files of its folder. It stays, empty."""
LOCK_TIMEOUT_S: Final = 3.0
LOCK_INTERVAL_S: Final = 0.005
MAX_PATH_LENGTH: Final = 32_767
"""In characters: the limit of Windows, the largest of all systems."""
MAX_LOGGED_PROBLEMS: Final = 3
"""Per file."""

log = logging.getLogger(__name__)


def _check_path(path: Path) -> Path:
    text = str(path)
    if "\0" in text or len(text) > MAX_PATH_LENGTH:
        raise ValueError("it is not a path")
    return path


StatePath = Annotated[Path, AfterValidator(_check_path)]
"""A path in a state file; it need not be valid UTF-8."""


@dataclass(frozen=True, slots=True)
class StateFile(Generic[State]):
    """A JSON file that holds one model. Several processes may read and change it concurrently.

    A file that is damaged, too large or not a regular file is renamed to `NAME.damaged-N` and
    logged, so that no data of the user is overwritten. No method raises an error, because the
    program works without its state files.
    """

    path: Path
    model: type[State]
    limit: int

    def load(self) -> State | None:
        """Return the content; None if there is no file, or none of it can be used.

        If only some fields are damaged, the other fields are used.
        """
        try:
            content = self._read()
        except OSError as error:
            log.warning("%s cannot be read: %s", self.path, error.strerror or error)
            return None
        if content.is_unusable:
            try:
                with _locked(self.path.parent):
                    content = self._read()  # another process may have replaced it
                    if content.is_unusable:
                        set_aside(self.path, content.problem)
            except OSError as error:
                problem = f"({content.problem}), and cannot be renamed: {error.strerror or error}"
                log.warning("%s is damaged %s", self.path, problem)
        elif content.problem:
            log.warning("%s is damaged, and used in part: %s", self.path, content.problem)
        return content.state

    def save(self, state: State) -> bool:
        """Replace the file without reading it; return whether that succeeded."""
        try:
            self._write(state)
        except PruneGuiError as error:
            log.warning("%s", error)
            return False
        return True

    def update(self, change: Callable[[State | None], State]) -> State | None:
        """Read, change and replace the content under the lock of the folder."""
        try:
            with explained(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with _locked(self.path.parent):
                    content = self._read()
                    new = change(content.state)
                    aside = set_aside(self.path, content.problem) if content.problem else None
                    try:
                        self._write(new)
                    except BaseException:
                        with suppress(OSError):
                            if aside is not None:
                                aside.rename(self.path)
                        raise
        except PruneGuiError as error:
            log.warning("%s", error)
            return None
        return new

    def _read(self) -> _Content[State]:
        try:
            encoded = read_regular(self.path, self.limit)
        except FileNotFoundError:
            return _Content(None)
        except OSError as error:
            if error.errno != errno.EFBIG and self.path.is_file():
                raise
            return _Content(None, error.strerror or str(error))
        try:
            fields = json.loads(encoded)
        except (ValueError, RecursionError) as error:
            return _Content(None, one_line(f"not JSON: {error}"))
        try:
            return _Content(self.model.model_validate(fields))
        except ValidationError as error:
            errors_found = error.errors(include_url=False, include_input=False)
        for one in errors_found:
            _remove_field(fields, one["loc"])
        shown = errors_found[:MAX_LOGGED_PROBLEMS]
        problem = one_line("; ".join(f"{one['loc']}: {one['msg']}" for one in shown))
        try:
            return _Content(self.model.model_validate(fields), problem)
        except ValidationError:
            return _Content(None, problem)

    def _write(self, state: State) -> None:
        # pydantic's own JSON cannot hold surrogates, which occur in paths that are not UTF-8.
        encoded = json.dumps(state.model_dump(), indent=2, default=os.fspath).encode()
        if len(encoded) > self.limit:
            message = deferred("{path} was not written: it would be larger than {limit:,} bytes.")
            raise CheckpointError(message, path=self.path, limit=self.limit)
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(self.path, encoded)


class _Content(NamedTuple, Generic[State]):
    state: State | None
    problem: str = ""

    @property
    def is_unusable(self) -> bool:
        """Whether there is a file of which nothing can be used."""
        return self.state is None and bool(self.problem)


def set_aside(path: Path, problem: str) -> Path:
    """Rename a damaged file to an unused name, and log that.

    The new name is `NAME.damaged-N` with the lowest unused N. There is no limit: without a new
    name, the program could never write the file again.
    """
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    log.warning("%s is damaged, and kept as %s: %s", path, aside.name, problem)
    return aside


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Return the paths in a folder that end with `suffix`, sorted; not only regular files.

    The list is empty if the folder is missing, or cannot be read, which is logged.
    """
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("%s cannot be listed: %s", folder, error.strerror or error)
        return []


def remove(path: Path) -> None:
    """Delete a state file; a failure is logged."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror or error)


def _remove_field(fields: object, location: Sequence[int | str]) -> None:
    """Remove the innermost dictionary field on the path `location`, as pydantic reports it."""
    if isinstance(fields, dict) and location:
        key, *inner = location
        if inner and isinstance(fields.get(key), dict):
            _remove_field(fields[key], inner)
        else:
            fields.pop(key, None)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which guards its state files against other processes.

    The operating system releases the lock when the process ends. File systems without locks are
    used without them.
    """
    path = folder / LOCK
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    errno.ETIMEDOUT, tr("it is locked by another program"), str(path)
                )
            time.sleep(LOCK_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; return False if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt  # Windows only

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl  # POSIX only

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks
        log.info("%s", error)
    return True
