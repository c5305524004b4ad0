"""Files in which the program keeps what it remembers: checked when read, replaced as a whole."""

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
from pathlib import Path
from typing import Annotated, Final, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError

from prune_gui.checkpoint.write.atomic import explained, flush, replacing
from prune_gui.errors import CheckpointError, PruneGuiError, one_line
from prune_gui.language import tr
from prune_gui.regular_files import read_regular

State = TypeVar("State", bound=BaseModel)

LOCK: Final = ".lock"
"""The file that is locked while a state file in its folder is changed. It stays, empty."""
LOCK_TIMEOUT_S: Final = 3.0
LOCK_INTERVAL_S: Final = 0.005
MAX_PATH_LENGTH: Final = 32_767
"""Characters; the limit of Windows, which is the largest."""
MAX_SET_ASIDE: Final = 1000
TOLD: Final = 3
"""Problems of one file that the log names."""

log = logging.getLogger(__name__)


def _check_path(path: Path) -> Path:
    text = str(path)
    if "\0" in text or len(text) > MAX_PATH_LENGTH:
        raise ValueError("it is not a path")
    return path


StatePath = Annotated[Path, AfterValidator(_check_path)]
"""A path in a state file; its bytes need not be UTF-8."""


@dataclass(frozen=True, slots=True)
class StateFile(Generic[State]):
    """A JSON file that holds one model. Several programs may read and change it at once.

    A file that is damaged, too large or not a regular file is renamed to `NAME.damaged-N`, so that
    nothing the user had is overwritten, and the log says so. No method raises an error: the program
    works without its state files.

    Attributes:
        path: of the file.
        model: of what it holds.
        limit: the most bytes that it may have.
    """

    path: Path
    model: type[State]
    limit: int

    def load(self) -> State | None:
        """Return what the file holds; None if there is no file, or nothing of it can be used.

        Of a file in which only some fields are damaged, the others are kept.
        """
        try:
            found = self._read()
        except OSError as error:
            log.warning("%s cannot be read: %s", self.path, error.strerror or error)
            return None
        if found.useless:
            try:
                with _locked(self.path.parent):
                    found = self._read()  # another program may have replaced it
                    if found.useless:
                        set_aside(self.path, found.problem)
            except OSError as error:
                log.warning(
                    "%s is damaged (%s), and cannot be renamed: %s",
                    *(self.path, found.problem, error.strerror or error),
                )
        elif found.problem:
            log.warning("%s is damaged, and used in part: %s", self.path, found.problem)
        return found.state

    def save(self, state: State) -> bool:
        """Replace the file, whatever it holds; return whether that worked."""
        try:
            self._write(state)
        except PruneGuiError as error:
            log.warning("%s", error)
            return False
        return True

    def update(self, change: Callable[[State | None], State]) -> State | None:
        """Change what the file holds now, while no other program can.

        Args:
            change: returns the new state for the present one, which is None if there is none.

        Returns:
            The new state; None if it could not be written.
        """
        try:
            with explained(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with _locked(self.path.parent):
                    found = self._read()
                    new = change(found.state)
                    aside = set_aside(self.path, found.problem) if found.problem else None
                    try:
                        self._write(new)
                    except BaseException:
                        if aside is not None:
                            with suppress(OSError):
                                aside.rename(self.path)
                        raise
        except PruneGuiError as error:
            log.warning("%s", error)
            return None
        return new

    def _read(self) -> _Found[State]:
        """Read and check the file.

        Raises:
            OSError: it cannot be read now, which says nothing about what it holds.
        """
        try:
            octets = read_regular(self.path, self.limit)
        except FileNotFoundError:
            return _Found(None)
        except OSError as error:
            if error.errno != errno.EFBIG and self.path.is_file():
                raise
            return _Found(None, error.strerror or str(error))
        try:
            fields = json.loads(octets)
        except (ValueError, RecursionError) as error:
            return _Found(None, one_line(f"not JSON: {error}"))
        try:
            return _Found(self.model.model_validate(fields))
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)
        for one in wrong:
            _remove(fields, one["loc"])
        problem = one_line("; ".join(f"{one['loc']}: {one['msg']}" for one in wrong[:TOLD]))
        try:
            return _Found(self.model.model_validate(fields), problem)
        except ValidationError:
            return _Found(None, problem)

    def _write(self, state: State) -> None:
        """Replace the file.

        Raises:
            PruneGuiError: it cannot be written; it is as it was.
        """
        # pydantic's own JSON has no surrogates, as in paths that are not UTF-8.
        octets = json.dumps(state.model_dump(), indent=2, default=os.fspath).encode()
        if len(octets) > self.limit:
            raise CheckpointError(
                tr(
                    "{path} was not written: it would be larger than {limit:,} bytes.",
                    path=self.path,
                    limit=self.limit,
                )
            )
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            replacing(self.path, nbytes=len(octets), overwrite=True) as draft,
            draft.open("wb") as file,
        ):
            file.write(octets)
            flush(file)


@dataclass(frozen=True, slots=True)
class _Found(Generic[State]):
    """What a file holds.

    Attributes:
        state: what can be used; None if nothing can.
        problem: what is wrong with the file, or "".
    """

    state: State | None
    problem: str = ""

    @property
    def useless(self) -> bool:
        """Whether there is a file, but nothing of it can be used."""
        return self.state is None and bool(self.problem)


def set_aside(path: Path, problem: str) -> Path:
    """Rename a damaged file to a name that nothing has, and write that to the log.

    Raises:
        OSError: it cannot be renamed.
    """
    for number in range(1, MAX_SET_ASIDE):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        try:
            aside.lstat()
        except FileNotFoundError:
            path.rename(aside)
            log.warning("%s is damaged, and kept as %s: %s", path, aside.name, problem)
            return aside
    raise FileExistsError(errno.EEXIST, tr("there are too many damaged ones"), str(path))


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Return what has a name with that suffix in a folder, by name; it need not be a regular file.

    A folder that is missing or cannot be read has none; the log has the latter.
    """
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("%s cannot be listed: %s", folder, error.strerror or error)
        return []


def remove(path: Path) -> None:
    """Remove a state file; if that fails, the log says why."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror or error)


def _remove(fields: object, location: Sequence[int | str]) -> None:
    """Remove the innermost field of nested dictionaries that a validation error is about."""
    if isinstance(fields, dict) and location:
        key, *inner = location
        if inner and isinstance(fields.get(key), dict):
            _remove(fields[key], inner)
        else:
            fields.pop(key, None)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other programs from changing the state files in a folder meanwhile.

    The lock is one of the operating system, which ends with the process that has it. A file system
    without locks is used without them.

    Raises:
        OSError: another program has held the lock for too long, or there can be no lock file.
    """
    path = folder / LOCK
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    errno.ETIMEDOUT, tr("another program keeps it locked"), str(path)
                )
            time.sleep(LOCK_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Try to lock a file for as long as it is open; return False if another program has done so."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks
        log.info("%s", error)
    return True
