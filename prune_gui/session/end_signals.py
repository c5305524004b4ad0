"""The signals that ask the program to end: Ctrl-C, `kill`, a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

END_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
FIRST_CODE: Final = 128
"""Exit code of a program that a signal ends, less the number of the signal; so shells have it."""


@contextmanager
def end_signals(handle: Callable[[int], object]) -> Iterator[None]:
    """Have these signals call `handle` with the exit code: 130 for Ctrl-C, 143 for `kill`.

    A closed terminal that the program was started to ignore, as by `nohup`, stays ignored. Shells
    start what runs in the background with Ctrl-C ignored, too; somebody who sends that signal to
    the program itself means it.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        handle(FIRST_CODE + number)

    heeded = [each for each in END_SIGNALS if not _is_to_be_ignored(each)]
    before = {each: signal.signal(each, on_signal) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _is_to_be_ignored(number: signal.Signals) -> bool:
    hang_up = getattr(signal, "SIGHUP", None)
    return number == hang_up and signal.getsignal(number) is signal.SIG_IGN
