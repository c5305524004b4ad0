"""The processes of an evaluator as seen by the program: started, watched, and ended as a whole."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from prune_gui.errors import EvaluationError, one_line
from prune_gui.evaluation.supervisor import NO_START, REPORT
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.number_formats import short_bytes
from prune_gui.pruning.plugins.launcher import search_path

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 0.05
MEMORY_INTERVAL_S: Final = 0.4
END_TIMEOUT_S: Final = 10.0
"""Timeout for the supervisor to end all processes; then they are killed from here."""
READ_BYTES: Final = 1 << 16
MAX_READS: Final = 64
"""Reads of one stream before other checks take place."""
MAX_OUTPUT_BYTES: Final = 1 << 22
"""The end of the standard output that is kept."""
MAX_ERROR_BYTES: Final = 1 << 16
"""The end of the standard error that is kept for messages and the log."""
MAX_LOGGED_LINES: Final = 200
"""Of one evaluation."""
START_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from prune_gui.evaluation.supervisor import main; main()"
)


class Status(NamedTuple):
    """What an evaluator does at the moment.

    Attributes:
        seconds: time since the request.
        memory: resident memory of all its processes, in bytes.
    """

    seconds: float
    memory: int


ShowStatus = Callable[[Status], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one evaluation may take.

    Attributes:
        seconds: of time.
        memory: of resident memory in all processes of the evaluator, in bytes.
    """

    seconds: float
    memory: int


class MemoryLimitError(EvaluationError):
    """The processes of an evaluator took more memory than they may."""


class Stream:
    """The end of what an evaluator writes to a stream.

    Args:
        limit: maximum number of bytes to keep.
    """

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
    """A command and all processes that it starts, under a supervisor (see `supervisor`).

    Attributes:
        output: standard output.
        errors: standard error.
        exit_code: as in `Popen.returncode`; None while the command runs.
        peak: maximum resident memory seen, in bytes.
    """

    def __init__(
        self, argv: Sequence[str], *, passed: Sequence[int] = (), remove: Path | None = None
    ) -> None:
        if sys.platform == "win32":
            raise EvaluationError(tr("Evaluators cannot be run on Windows. Use Linux or macOS."))
        request = {
            "argv": list(argv),
            "folder": os.getcwd(),  # noqa: PTH109 - a string
            "passed": list(passed),
            "remove": None if remove is None else str(remove),
        }
        command = [sys.executable, "-I", "-X", "utf8", "-c", START_CODE]
        self._control, supervisor_end = socket.socketpair()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        self.output = Stream(output, MAX_OUTPUT_BYTES)
        self.errors = Stream(errors, MAX_ERROR_BYTES)
        try:
            self._supervisor = subprocess.Popen(
                [*command, json.dumps(search_path()), json.dumps(request)],
                stdin=supervisor_end.fileno(), stdout=output_end, stderr=errors_end,
                cwd="/", pass_fds=passed, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._control.close()
            raise EvaluationError(
                tr("An evaluator cannot be started: {reason}.", reason=error.strerror)
            ) from error
        finally:
            supervisor_end.close()
            os.close(output_end)
            os.close(errors_end)
        weakref.finalize(self, _close, self._control, self._supervisor)
        self.exit_code: int | None = None
        self.peak = 0

    def watch(
        self,
        connection: socket.socket | None,
        limits: Limits,
        monitor: Monitor,
        show: ShowStatus | None,
    ) -> Callable[[], bool]:
        """Begin to watch one evaluation; return a function that waits a moment.

        The function returns whether `connection` can be read; without one, whether the command has
        ended. It reads the streams meanwhile.
        """
        began = measured = time.monotonic()

        def wait() -> bool:
            nonlocal measured
            is_ready = self.wait(connection)
            monitor.advance()
            now = time.monotonic()
            if now - began > limits.seconds:
                raise EvaluationError(
                    tr(
                        "The evaluator took longer than {seconds:,} s and was ended. Raise its "
                        "time limit (--timeout), or evaluate on less data.",
                        seconds=round(limits.seconds),
                    )
                )
            if now - measured > MEMORY_INTERVAL_S:
                measured = now
                used = self.memory()
                if show is not None and used:  # nothing: the command has just ended
                    show(Status(now - began, used))
                _check_memory(used, limits.memory)
            return is_ready

        self.peak = 0
        return wait

    def wait(
        self, connection: socket.socket | None = None, timeout_s: float = POLL_INTERVAL_S
    ) -> bool:
        """Read what is available, and wait for it if there is nothing; see `watch`."""
        streams = [stream for stream in (self.output, self.errors) if stream.is_open]
        awaited: list[Any] = [*streams, *([self._control] if self.exit_code is None else [])]
        if connection is not None:
            awaited.append(connection)
        ready, _, _ = select.select(awaited, [], [], timeout_s)
        for stream in streams:
            if stream in ready:
                stream.read()
        if self._control in ready:
            self._read_exit_code()
        return connection in ready if connection is not None else self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self.exit_code is not None

    def _read_exit_code(self) -> None:
        """Read the report of the supervisor; without one, the exit code is that of a kill."""
        octets = b""
        with suppress(OSError):
            octets = self._control.recv(REPORT.size, socket.MSG_WAITALL)
        self.exit_code, peak = REPORT.unpack(octets) if len(octets) == REPORT.size else (-9, 0)
        self.peak = max(self.peak, peak)

    def memory(self) -> int:
        """Return the resident memory of all processes of the command, in bytes."""
        total = 0
        with suppress(psutil.Error):
            for guard in psutil.Process(self._supervisor.pid).children():
                for process in guard.children(recursive=True):
                    with suppress(psutil.Error):
                        total += process.memory_info().rss
        self.peak = max(self.peak, total)
        return total

    def end(self) -> None:
        """Kill all processes of the command, and wait until they have ended."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            self._supervisor.send_signal(signal.SIGCONT)  # the command may have stopped it
        deadline = time.monotonic() + END_TIMEOUT_S
        while not self.has_ended and time.monotonic() < deadline:
            self.wait()
        self._control.close()
        try:
            self._supervisor.wait(END_TIMEOUT_S if self.has_ended else 0)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        self.exit_code = -9 if self.exit_code is None else self.exit_code

    def read_rest(self) -> None:
        """Read what the ended command has left in the pipes."""
        for stream in (self.output, self.errors):
            if stream.is_open:
                stream.read()


def _check_memory(used: int, limit: int) -> None:
    if used > limit:
        raise MemoryLimitError(
            tr(
                "The evaluator took {used} of memory, more than its limit of {limit}, and was "
                "ended. Raise the limit (--memory-limit), or evaluate on less data at once.",
                used=short_bytes(used),
                limit=short_bytes(limit),
            )
        )


def _close(control: socket.socket, supervisor: subprocess.Popen[bytes]) -> None:
    """End the supervisor of an object that nobody has ended: it notices the closed socket."""
    control.close()
    if supervisor.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            supervisor.wait(END_TIMEOUT_S)


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
