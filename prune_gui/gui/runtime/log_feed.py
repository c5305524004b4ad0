"""What the program logs, on whichever thread, handed to the window."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, Qt, Signal, Slot

from prune_gui.errors import PruneGuiError, one_line
from prune_gui.language import later, tr

MOST: Final = 1000
"""Records that are kept; older ones are in the log file."""
LONGEST_LINE: Final = 2000
LEVELS: Final = (later("Info"), later("Warning"), later("Error"), later("Critical"))
"""What `logging` calls the levels that are listed, to be translated."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the log as a person reads it, made where it was logged.

    Attributes:
        when: the time of day, "16:20:03".
        level: as in `logging`.
        text: what happened.
        details: of a fault, where in the program; "" if there are none.
    """

    when: str
    level: int
    text: str
    details: str = ""

    @classmethod
    def of(cls, record: logging.LogRecord) -> Entry:
        """Return a record as an entry."""
        error = record.exc_info[1] if record.exc_info else None
        return cls(
            time.strftime("%H:%M:%S", time.localtime(record.created)),
            record.levelno,
            one_line(record.getMessage()),
            details_of(error) if error is not None else "",
        )

    @classmethod
    def of_error(cls, tried: str, error: BaseException) -> Entry:
        """Return what the log has of an error, as it happens now."""
        fault = not isinstance(error, PruneGuiError)
        text = (
            tr("{tried} failed", tried=tried)
            if fault
            else tr("{tried}: {error}", tried=tried, error=error)
        )
        level = logging.ERROR if fault else logging.WARNING
        return cls(time.strftime("%H:%M:%S"), level, one_line(text), details_of(error))

    @property
    def level_name(self) -> str:
        """What to call the level: "Warning"."""
        return tr(logging.getLevelName(self.level).capitalize())

    @property
    def line(self) -> str:
        """What happened in one line; of an error, with its own last words."""
        last = self.details.rpartition("\n")[2]
        return one_line(f"{self.text} ({last})" if last else self.text)

    @property
    def whole(self) -> str:
        """Everything it says, to be copied."""
        return "\n".join(
            filter(None, (f"{self.when} {self.level_name}: {self.text}", self.details))
        )


def details_of(error: BaseException) -> str:
    """Return what the message of an error leaves out: its trace, if it is a fault of the program.

    Of an error that input caused, that is what the system said about it, if anything.
    """
    if not isinstance(error, PruneGuiError):
        return _lines("".join(traceback.format_exception(error)))
    if error.__cause__ is None:
        return ""
    return _lines("".join(traceback.format_exception_only(error.__cause__)))


def _lines(text: str) -> str:
    return "\n".join(one_line(line, LONGEST_LINE) for line in text.rstrip().split("\n"))


class LogFeed(QObject):
    """Takes what is logged from INFO up, and hands it to the GUI thread some entries at a time.

    However fast other threads log, no more than `MOST` entries wait.

    Signals:
        logged: (entries) a tuple of new ones, oldest first; on the GUI thread.
    """

    logged = Signal(object)
    _some_wait = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._waiting: deque[Entry] = deque(maxlen=MOST)
        self._handler = _Handler(self._take)
        self._some_wait.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        """Begin to listen."""
        logging.getLogger().addHandler(self._handler)

    def stop(self) -> None:
        """Listen no more."""
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()

    def _take(self, entry: Entry) -> None:
        with self._lock:
            first = not self._waiting
            self._waiting.append(entry)
        if first:
            self._some_wait.emit()

    @Slot()
    def _deliver(self) -> None:
        with self._lock:
            entries = tuple(self._waiting)
            self._waiting.clear()
        self.logged.emit(entries)


class _Handler(logging.Handler):
    def __init__(self, take: Callable[[Entry], None]) -> None:
        super().__init__(logging.INFO)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._take(Entry.of(record))
        except Exception:  # noqa: BLE001 - as in every handler: to log must never break who logs
            self.handleError(record)
