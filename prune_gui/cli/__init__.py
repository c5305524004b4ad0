"""The command line: opens the window, or runs a command without one."""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import NoReturn

from prune_gui.session.end_signals import end_signals


def main() -> NoReturn:
    """Run the command line and exit.

    The exit code is 0 for success, 1 for a problem with the input, 2 for wrong usage, 130 after
    Ctrl-C and 143 after `kill`.
    """
    _open_closed_streams()  # before libraries do: libffi keeps a file open from its import on
    _wait_without_spinning()
    gc.disable()  # until a job begins or the window opens: libraries make objects, not garbage
    with end_signals(_end_at_once):
        from prune_gui.cli.program import run  # Ctrl-C works while it loads

        run()


def _end_at_once(code: int) -> NoReturn:
    """End the process while libraries load, or at any other time when nothing is being written.

    Compiled modules turn a KeyboardInterrupt into other errors or ignore it.
    """
    os.write(2, b"prune-gui: interrupted.\n")
    os._exit(code)


def _wait_without_spinning() -> None:
    """Let the threads of torch sleep soon while they wait for each other.

    The OpenMP library of GCC lets them spin for about a millisecond. Beside one other busy process
    on two cores, choosing masks takes half as long if they spin as briefly as that library lets
    them where threads are more than processors; alone, it takes the same time. Users may choose.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that is closed.

    Otherwise a file that is opened later would get the descriptor of standard output. Text that a
    stream cannot encode is escaped.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, this one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
