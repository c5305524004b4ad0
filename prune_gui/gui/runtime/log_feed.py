"""Log records of all threads, and Qt's messages, delivered to the GUI thread."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import (
    QMessageLogContext,
    QObject,
    Qt,
    QtMsgType,
    Signal,
    Slot,
    qInstallMessageHandler,
)

from prune_gui.errors import PruneGuiError, one_line
from prune_gui.language import deferred, tr

MAX_ENTRIES: Final = 1000
"""Limit of the entries kept in memory; older ones are in the log file only."""
MAX_LINE_CHARS: Final = 2000
LEVELS: Final = (deferred("Info"), deferred("Warning"), deferred("Error"), deferred("Critical"))
"""Names of the levels in `logging`, capitalized, to be translated."""
LEVEL_OF: Final = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}
log = logging.getLogger("qt")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log record as text, made on the thread that logged it."""

    when: str  # the local time of day, "16:20:03"
    level: int
    text: str  # the message, in one line
    details: str = ""  # traceback or cause of an error, see `details_of`; "" if there is none

    @classmethod
    def of(cls, record: logging.LogRecord) -> LogEntry:
        error = record.exc_info[1] if record.exc_info else None
        return cls(
            time.strftime("%H:%M:%S", time.localtime(record.created)),
            record.levelno,
            one_line(record.getMessage()),
            details_of(error) if error is not None else "",
        )

    @classmethod
    def of_error(cls, tried: str, error: BaseException) -> LogEntry:
        is_fault = not isinstance(error, PruneGuiError)
        text = (
            tr("{tried} failed", tried=tried)
            if is_fault
            else tr("{tried}: {error}", tried=tried, error=error)
        )
        level = logging.ERROR if is_fault else logging.WARNING
        return cls(time.strftime("%H:%M:%S"), level, one_line(text), details_of(error))

    @property
    def level_name(self) -> str:
        return tr(logging.getLevelName(self.level).capitalize())

    @property
    def line(self) -> str:
        """The text in one line, with the last line of the details in brackets."""
        last = self.details.rpartition("\n")[2]
        return one_line(f"{self.text} ({last})" if last else self.text)

    @property
    def whole(self) -> str:
        """The full text with time, level and details, as Copy uses it."""
        return f"{self.when} {self.level_name}: {self.text}\n{self.details}".rstrip("\n")


def details_of(error: BaseException) -> str:
    """Return details that the message of an error does not contain.

    For a fault of the program, this is the traceback. For an error caused by input, it is the
    exception of the system that caused it, or "".
    """
    if not isinstance(error, PruneGuiError):
        parts = traceback.format_exception(error)
    elif error.__cause__ is None:
        return ""
    else:
        parts = traceback.format_exception_only(error.__cause__)
    lines = "".join(parts).rstrip().split("\n")
    return "\n".join(one_line(line, MAX_LINE_CHARS) for line in lines)


class LogFeed(QObject):
    """Collects log records of level INFO and above, and emits them in batches on the GUI thread.

    At most `MAX_ENTRIES` entries wait for delivery; the oldest are dropped.
    """

    logged = Signal(object)  # (entries) a tuple of new `LogEntry` objects, oldest first
    _entries_waiting = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._waiting: deque[LogEntry] = deque(maxlen=MAX_ENTRIES)
        self._handler = _Handler(self._take)
        self._entries_waiting.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        logging.getLogger().addHandler(self._handler)

    def stop(self) -> None:
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()

    def _take(self, entry: LogEntry) -> None:
        with self._lock:
            was_empty = not self._waiting
            self._waiting.append(entry)
        if was_empty:
            self._entries_waiting.emit()

    @Slot()
    def _deliver(self) -> None:
        with self._lock:
            entries = tuple(self._waiting)
            self._waiting.clear()
        self.logged.emit(entries)


class _Handler(logging.Handler):
    def __init__(self, take: Callable[[LogEntry], None]) -> None:
        super().__init__(logging.INFO)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._take(LogEntry.of(record))
        except Exception:  # noqa: BLE001 - as in every handler: logging must not raise in the caller
            self.handleError(record)


def log_qt() -> None:
    """Redirect Qt's messages to the log."""
    qInstallMessageHandler(_take)


def _take(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
    log.log(LEVEL_OF[kind], "%s", message)
