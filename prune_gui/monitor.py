"""How long work reports its progress, and learns that it should stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from prune_gui.errors import Cancelled

Progress = Callable[[int, int], None]
"""Called with (done, total), both in bytes; the total may grow as more work is found."""


class CancelFlag(Protocol):
    """Anything that can be asked whether to stop; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Tell whether to stop."""


_cancel: ContextVar[CancelFlag | None] = ContextVar("cancel", default=None)


def check_cancelled() -> None:
    """Ask the monitor of the block around the caller, if there is one, as `Monitor.advance` does.

    Raises:
        Cancelled: the work should stop here.
    """
    cancel = _cancel.get()
    if cancel is not None and cancel.is_set():
        raise Cancelled


class Monitor:
    """Adds up the work done by any number of threads and reports it.

    Args:
        progress: never called from two threads at once.
        cancel: asked at every `advance`; once it is set, `advance` raises.
    """

    def __init__(
        self,
        progress: Progress | None = None,
        cancel: CancelFlag | None = None,
    ) -> None:
        self._progress = progress
        self._cancel = cancel
        self._lock = threading.Lock()
        self._done = 0
        self._total = 0
        self._planned = False

    def expect(self, amount: int) -> None:
        """Announce `amount` more bytes of work, unless they are part of a plan."""
        if not self._planned:
            with self._lock:
                self._total += amount

    @contextmanager
    def plan(self, amount: int) -> Iterator[None]:
        """Announce all the work of a block at its beginning, about `amount` bytes.

        What the block announces by itself as it goes on is part of that: progress in percent then
        means the whole, and does not begin again with every part.
        """
        self.expect(amount)
        outer, self._planned = self._planned, True
        try:
            yield
        finally:
            self._planned = outer

    def advance(self, amount: int = 0) -> None:
        """Count `amount` bytes as done.

        Raises:
            Cancelled: the work should stop here.
        """
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled
        with self._lock:
            self._done += amount
            if self._progress is not None:
                self._progress(self._done, max(self._total, self._done))

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Have `check_cancelled` ask this monitor in a block, and in work that it has `run` do."""
        token = _cancel.set(self._cancel or _cancel.get())
        try:
            yield
        finally:
            _cancel.reset(token)
