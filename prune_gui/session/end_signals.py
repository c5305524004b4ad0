"""The signals that request termination: Ctrl-C, `kill`, a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

END_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SIGNAL_EXIT_CODE_BASE: Final = 128
"""Exit code of a program ended by signal n, minus n, by shell convention."""


@contextmanager
def end_signals(handle: Callable[[int], object]) -> Iterator[None]:
    """Call `handle` with the exit code on these signals: 130 for Ctrl-C, 143 for `kill`.

    SIGHUP stays ignored if it was ignored at the start, as under `nohup`. SIGINT is always handled:
    shells start background programs with SIGINT ignored, but a SIGINT that is sent to such a
    program explicitly is meant for it.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        handle(SIGNAL_EXIT_CODE_BASE + number)

    handled = [each for each in END_SIGNALS if not _stays_ignored(each)]
    old_handlers = {each: signal.signal(each, on_signal) for each in handled}
    try:
        yield
    finally:
        for each, handler in old_handlers.items():
            signal.signal(each, handler)


def _stays_ignored(number: signal.Signals) -> bool:
    sighup = getattr(signal, "SIGHUP", None)
    return number == sighup and signal.getsignal(number) is signal.SIG_IGN
