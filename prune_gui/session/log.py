"""The log file, with full tracebacks of errors."""

from __future__ import annotations

import faulthandler
import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import BinaryIO, Final

from platformdirs import user_log_path

from prune_gui.errors import one_line
from prune_gui.regular_files import append_regular, open_regular

INDENT = "    "
MAX_LOG_BYTES = 1_000_000
MAX_LINE_LENGTH = 10_000
"""In characters."""


class LogFormatter(logging.Formatter):
    """Starts a record, and nothing else, in the first column, whatever text the record holds."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record; its further lines, such as a traceback, are indented."""
        lines = super().format(record).split("\n")
        return f"\n{INDENT}".join(one_line(line, MAX_LINE_LENGTH) for line in lines)


def log_path() -> Path:
    """Return the path of the log file, which may not exist."""
    return user_log_path("prune-gui", appauthor=False) / "prune-gui.log"


def start_log() -> Path | None:
    """Log to a rotating file and return its path; None if no file can be written."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk would otherwise print a traceback per record
    path = log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(path, maxBytes=MAX_LOG_BYTES, backupCount=1)
    except OSError:
        root.addHandler(logging.NullHandler())  # without a handler, errors go to standard error
        return None
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    return path


class _LogFile(RotatingFileHandler):
    """Writes to regular files only: a FIFO without a reader would block the start forever."""

    def _open(self) -> TextIOWrapper:
        file = append_regular(self.baseFilename)
        return TextIOWrapper(file, encoding="utf-8", errors="backslashreplace")


MAX_TRACE_BYTES: Final = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Crash:
    """The trace that a crashed run left behind."""

    text: str
    when: datetime


class CrashTrace:
    """The file to which faulthandler writes when the interpreter crashes; empty until then.

    All running instances share the file. At the start, a trace of an earlier run is moved to
    `NAME.old`, which replaces an older one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or log_path().with_name("crash.txt")
        self._file: BinaryIO | None = None
        self.last = self._move_to_old()

    def start(self) -> None:
        """Enable faulthandler on the file. If the file cannot be written, only log that."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = append_regular(self._path)
            faulthandler.enable(self._file)
        except OSError as error:
            log.info("%s cannot be written: %s", self._path, error.strerror or error)

    def stop(self) -> None:
        """Disable faulthandler before a normal exit."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._file = None

    def _move_to_old(self) -> Crash | None:
        try:
            with open_regular(self._path) as file:
                content, modified = file.read(MAX_TRACE_BYTES), os.fstat(file.fileno()).st_mtime
            text = content.decode(errors="replace").strip()
            if not text:
                return None
            self._path.replace(f"{self._path}.old")
        except FileNotFoundError:
            return None
        except OSError as error:
            self._set_aside(error.strerror or str(error))
            return None
        return Crash(text, datetime.fromtimestamp(min(max(modified, 0.0), time.time())))

    def _set_aside(self, problem: str) -> None:
        """Rename what is at the path, unless it is a regular file that cannot be read now."""
        from prune_gui.session.state_file import set_aside  # pydantic: slow to import

        try:
            if not self._path.is_file():
                set_aside(self._path, problem)
                return
        except OSError as error:
            problem = f"{problem}; {error.strerror or error}"
        log.warning("%s cannot be read: %s", self._path, problem)
