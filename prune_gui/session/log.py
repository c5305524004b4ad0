"""The log file, with full tracebacks of errors."""

from __future__ import annotations

import logging
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from platformdirs import user_log_path

from prune_gui.errors import one_line
from prune_gui.regular_files import append_regular

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
