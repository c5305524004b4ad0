"""Progress reports and cancellation of long-running work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from prune_gui.errors import Cancelled

Item = TypeVar("Item")

Progress = Callable[[int, int], None]
"""Called with (done, total), both in bytes; the total may grow while the work runs."""
Report = Callable[[object], None]
"""Called with a result that is known before the work ends."""


class CancelFlag(Protocol):
    """A flag that is set to cancel work, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the work should stop."""


_cancel: ContextVar[CancelFlag | None] = ContextVar("cancel", default=None)


def check_cancelled() -> None:
    """Raise `Cancelled` if the innermost `Monitor.in_charge` block is cancelled."""
    cancel = _cancel.get()
    if cancel is not None and cancel.is_set():
        raise Cancelled


@contextmanager
def not_cancelled() -> Iterator[None]:
    """Let no `check_cancelled` within a block raise: what it does has to be completed."""
    token = _cancel.set(None)
    try:
        yield
    finally:
        _cancel.reset(token)


class Monitor:
    """Sums the work done by any number of threads and reports it."""

    def __init__(
        self,
        progress: Progress | None = None,
        cancel: CancelFlag | None = None,
        report: Report | None = None,
    ) -> None:
        self._progress = progress
        self._cancel = cancel
        self._report = report
        self._lock = threading.Lock()
        self._done = 0
        self._skipped = 0
        self._total = 0
        self._in_plan = False

    @property
    def done(self) -> int:
        """The number of bytes that are counted as done."""
        return self._done

    @property
    def skipped(self) -> int:
        """The number of these that this run need not process, see `skip`."""
        return self._skipped

    def is_set(self) -> bool:
        """Return whether the work should stop, so that a monitor can be a `CancelFlag`."""
        return self._cancel is not None and self._cancel.is_set()

    def report(self, found: object) -> None:
        """Pass on a result that is known before the work ends."""
        if self._report is not None:
            self._report(found)

    def expect(self, amount: int) -> None:
        """Add `amount` bytes to the total, unless a `plan` block already includes them."""
        if not self._in_plan:
            with self._lock:
                self._total += amount

    @contextmanager
    def plan(self, amount: int) -> Iterator[None]:
        """Add all the work of a block to the total at its beginning, about `amount` bytes.

        Calls of `expect` within the block add nothing. The percentage then refers to the whole
        block and does not restart with each part.
        """
        self.expect(amount)
        was_in_plan, self._in_plan = self._in_plan, True
        try:
            yield
        finally:
            self._in_plan = was_in_plan

    def advance(self, amount: int = 0) -> None:
        """Count `amount` bytes as done."""
        if self.is_set():
            raise Cancelled
        with self._lock:
            self._done += amount
            if self._progress is not None:
                self._progress(self._done, max(self._total, self._done))

    def skip(self, amount: int) -> None:
        """Count `amount` bytes as done that an earlier run has processed."""
        with self._lock:
            self._skipped += amount
        self.advance(amount)

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items; the work can be cancelled before each of them."""
        for item in items:
            self.advance()
            yield item

    def stopped_by(self, flag: CancelFlag) -> Monitor:
        """Return a monitor that counts into this one, and is cancelled by a flag, too."""
        return _StoppedBy(self, flag)

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Make `check_cancelled` use this monitor within a block.

        This also holds for the threads to which `prune_gui.parallel.run` gives work there.
        """
        token = _cancel.set(self._cancel or _cancel.get())
        try:
            yield
        finally:
            _cancel.reset(token)


class _StoppedBy(Monitor):
    def __init__(self, outer: Monitor, flag: CancelFlag) -> None:
        super().__init__(None, flag)
        self._outer = outer

    def expect(self, amount: int) -> None:
        self._outer.expect(amount)

    def advance(self, amount: int = 0) -> None:
        super().advance()
        self._outer.advance(amount)

    def skip(self, amount: int) -> None:
        super().advance()
        self._outer.skip(amount)
