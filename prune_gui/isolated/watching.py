"""Watching commands: their output, time and memory."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from prune_gui.errors import EvaluationError, one_line
from prune_gui.isolated.messages import NO_START, POLL_INTERVAL_S, readable
from prune_gui.isolated.processes import SupervisorProcess
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.number_formats import short_bytes

log = logging.getLogger(__name__)

CONNECTION: Final = 3
"""The number of the descriptor of the connection in a command."""
MEMORY_INTERVAL_S: Final = 0.4
READ_BYTES: Final = 1 << 16
MAX_READS: Final = 64
"""Reads of one stream before other checks take place."""
MAX_OUTPUT_BYTES: Final = 1 << 22
"""The end of the standard output that is kept."""
MAX_ERROR_BYTES: Final = 1 << 16
"""The end of the standard error that is kept for messages and the log."""
MAX_LOGGED_LINES: Final = 200
"""Of one evaluation."""


class Status(NamedTuple):
    """What an evaluator does at the moment."""

    seconds: float
    memory: int


ShowStatus = Callable[[Status], None]


@dataclass(frozen=True, slots=True)
class Watch:
    """What one evaluation may take, in seconds and bytes, and the monitor that can cancel it."""

    seconds: float
    memory: int
    monitor: Monitor


class MemoryLimitError(EvaluationError):
    """The processes of an evaluator took more memory than they may."""


class Stream:
    """The end of what an evaluator writes to a stream."""

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._limit = limit
        self._kept = bytearray()
        self.is_open = True
        weakref.finalize(self, os.close, descriptor)

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self._descriptor

    def read(self) -> None:
        """Read what is available; at most `MAX_READS` times READ_BYTES."""
        for _ in range(MAX_READS):
            try:
                octets = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                return
            if not octets:
                self.is_open = False
                return
            self._kept += octets
            del self._kept[: -self._limit]

    def take(self) -> str:
        """Return what is kept, and forget it."""
        text = self._kept.decode(errors="replace")
        self._kept.clear()
        return text


class ProcessTree:
    """A command and all processes that it starts, under a supervisor of its own.

    If `is_connected`, it gets a connection with the number `CONNECTION`. The folder `remove` is
    removed if this program ends before the command.
    """

    def __init__(
        self, argv: Sequence[str], *, is_connected: bool = False, remove: Path | None = None
    ) -> None:
        if sys.platform == "win32":
            raise EvaluationError("Evaluators cannot be run on Windows. Use Linux or macOS.")
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        self.connection, connection_end = socket.socketpair()
        self.output = Stream(output, MAX_OUTPUT_BYTES)
        self.errors = Stream(errors, MAX_ERROR_BYTES)
        weakref.finalize(self, self.connection.close)
        self.is_connected = is_connected
        self._peak = 0
        passed = [output_end, errors_end, connection_end.fileno()]
        try:
            with EvaluationError.on_os_error("An evaluator cannot be started: {reason}."):
                self._supervisor = SupervisorProcess()
                self._process = self._supervisor.start(
                    passed if is_connected else passed[:-1], argv, remove=remove
                )
        finally:
            connection_end.close()
            os.close(output_end)
            os.close(errors_end)

    def watch(self, watch: Watch) -> Callable[[], bool]:
        """Begin to watch one evaluation; return a function that waits a moment; see `wait`."""
        began = measured = time.monotonic()

        def wait_and_check() -> bool:
            nonlocal measured
            is_ready = self.wait()
            watch.monitor.advance()
            now = time.monotonic()
            if now - began > watch.seconds:
                raise EvaluationError(
                    "The evaluator took longer than {seconds:,} s and was ended. Raise its "
                    "time limit (--timeout), or evaluate on less data.",
                    seconds=round(watch.seconds),
                )
            if now - measured > MEMORY_INTERVAL_S:
                measured = now
                used = self.memory()
                if used:  # nothing: the command has just ended
                    watch.monitor.report(Status(now - began, used))
                if used > watch.memory:
                    message = tr(
                        "The evaluator took {used} of memory, more than its limit of {limit}, and "
                        "was ended. Raise the limit (--memory-limit), or evaluate on less data at "
                        "once.",
                        used=short_bytes(used),
                        limit=short_bytes(watch.memory),
                    )
                    raise MemoryLimitError(message)
            return is_ready

        self._peak = 0
        return wait_and_check

    def wait(self, timeout_s: float = POLL_INTERVAL_S) -> bool:
        """Read the streams, and wait for them if they are empty.

        Return whether the connection can be read; without one, whether the command has ended.
        """
        streams = [stream for stream in (self.output, self.errors) if stream.is_open]
        awaited = [*streams, *([] if self.has_ended else [self._process])]
        ready = readable([*awaited, *([self.connection] if self.is_connected else [])], timeout_s)
        for stream in streams:
            if stream in ready:
                stream.read()
        return self.connection in ready if self.is_connected else self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self._process.has_ended

    @property
    def exit_code(self) -> int | None:
        """As in `Popen.returncode`; None while the command runs."""
        return self._process.exit_code

    @property
    def peak(self) -> int:
        """The maximum resident memory seen since `watch` was called, in bytes."""
        return max(self._peak, self._process.peak)

    def memory(self) -> int:
        """Return the resident memory of all processes of the command, in bytes."""
        total = 0
        with suppress(psutil.Error):
            for guard in psutil.Process(self._supervisor.pid).children():
                for process in guard.children(recursive=True):
                    with suppress(psutil.Error):
                        total += process.memory_info().rss
        self._peak = max(self._peak, total)
        return total

    def end(self) -> None:
        """Kill all processes of the command, and wait until they have ended."""
        self._process.end()
        self._supervisor.close()
        self.connection.close()

    def read_rest(self) -> None:
        """Read what the ended command has left in the pipes."""
        for stream in (self.output, self.errors):
            if stream.is_open:
                stream.read()


def log_lines(name: str, text: str) -> None:
    """Log the last lines that an evaluator printed."""
    lines = text.splitlines()
    if len(lines) > MAX_LOGGED_LINES:
        log.info("%s: %d earlier lines are not logged", name, len(lines) - MAX_LOGGED_LINES)
    for line in lines[-MAX_LOGGED_LINES:]:
        log.info("%s: %s", name, line)


def last_line(text: str) -> str:
    """Return the last line of a text that is not blank, or ""."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1].strip(), 300) if lines else ""


def end_message(exit_code: int) -> str:
    """Return how a command ended, as a part of a sentence."""
    if exit_code >= NO_START:
        return tr("it cannot be started: {reason}", reason=os.strerror(exit_code - NO_START))
    if exit_code < 0:
        return tr("it was ended by signal {number}", number=-exit_code)
    return tr("it ended with exit code {code}", code=exit_code)
