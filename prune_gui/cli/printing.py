"""What commands print: lines, tables, JSON, and progress on standard error.

Names from files may hold anything: line ends that forge a line, sequences that a terminal obeys.
All output goes through here, where they are spelled out.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from prune_gui.errors import Cancelled, PruneGuiError, one_line
from prune_gui.session.end_signals import end_signals

if TYPE_CHECKING:
    from prune_gui.monitor import Progress

LONGEST_NAME: Final = 200
LONGEST_LINE: Final = 2000


def say(line: str = "", *, err: bool = False) -> None:
    """Print one line, whatever is in it."""
    click.echo(one_line(line, LONGEST_LINE), err=err)


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines with the first column to the left and the others to the right."""
    lines = [[one_line(cell, LONGEST_LINE) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]
        yield "  ".join(cells).rstrip()


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as "384 x 1536"."""
    return " x ".join(map(str, shape))


def print_json(value: object) -> None:
    """Print one JSON object. What does not print in its texts is escaped, as JSON allows.

    Where standard output cannot show every character of it, all of it is in ASCII.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding if sys.stdout else "utf-8")
    except UnicodeEncodeError:  # or the name of a file is no text
        text = json.dumps(value, indent=2)
    for line in text.split("\n"):
        if line.isprintable():
            click.echo(line)
        else:
            click.echo("".join(s if s.isprintable() else json.dumps(s)[1:-1] for s in line))


class Interrupted(PruneGuiError):  # noqa: N818 - what happened, and no mistake
    """A signal asked the program to end.

    Attributes:
        exit_code: of the program: 130 for Ctrl-C.
    """

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def job(title: str) -> Iterator[tuple[Progress | None, threading.Event]]:
    """Give what shows progress on standard error, if that is a terminal, and what Ctrl-C sets.

    `kill` and a closed terminal set it too. A second signal raises KeyboardInterrupt wherever the
    program is.

    Raises:
        Interrupted: there was such a signal.
    """
    stop = threading.Event()
    code = 0

    def interrupt(exit_code: int) -> None:
        nonlocal code
        if stop.is_set():
            raise KeyboardInterrupt
        code = exit_code
        stop.set()

    with end_signals(interrupt):
        try:
            with _shown(title) as progress:
                yield progress, stop
        except (Cancelled, KeyboardInterrupt):
            raise Interrupted(code, str(Cancelled())) from None
        if stop.is_set():
            raise Interrupted(code, f"Interrupted; this was done by then: {title}.")


@contextmanager
def _shown(title: str) -> Iterator[Progress | None]:
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    label = one_line(title, LONGEST_NAME)
    with click.progressbar(length=1, label=label, file=sys.stderr, width=0) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show
