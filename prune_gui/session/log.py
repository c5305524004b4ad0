"""The log file: what went wrong, in full, for whoever mends it."""

from __future__ import annotations

import logging
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from platformdirs import user_log_path

from prune_gui.errors import INDENT, one_line
from prune_gui.regular_files import check_regular

BYTES = 1_000_000
LONGEST_LINE = 10_000


class LogFormatter(logging.Formatter):
    """Begins only records in the first column, whatever names and messages they hold."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record; further lines, as of a trace, are indented."""
        lines = super().format(record).split("\n")
        return f"\n{INDENT}".join(one_line(line, LONGEST_LINE) for line in lines)


def log_path() -> Path:
    """Return where the log is, if it can be written."""
    return user_log_path("prune-gui", appauthor=False) / "prune-gui.log"


def start_log() -> Path | None:
    """Write what the program logs to a file that never grows large, and return its path.

    Returns None where there is nowhere to write it; the program works all the same.
    """
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk would print a traceback for each line
    path = log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(path, maxBytes=BYTES, backupCount=1)
    except OSError:
        root.addHandler(logging.NullHandler())  # without any, errors would go to standard error
        return None
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    return path


class _LogFile(RotatingFileHandler):
    """Writes to a regular file; a FIFO without a reader would block the start for good."""

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.baseFilename, flags, 0o666)
        try:
            check_regular(descriptor, self.baseFilename)
        except OSError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
