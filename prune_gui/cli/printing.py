"""What commands print: lines, tables, JSON, and progress on standard error.

Names from files may hold anything: line ends that forge a line, sequences that a terminal obeys.
All output goes through here, where they are spelled out.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from prune_gui.errors import one_line

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
    """Print one JSON object. What does not print in its texts is escaped, as JSON allows."""
    for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
        if line.isprintable():
            click.echo(line)
        else:
            click.echo("".join(s if s.isprintable() else json.dumps(s)[1:-1] for s in line))


@contextmanager
def job(title: str) -> Iterator[tuple[Progress | None, threading.Event]]:
    """Give what shows progress on standard error, if that is a terminal, and what Ctrl-C sets.

    Ctrl-C a second time stops the program wherever it is.
    """
    stop = threading.Event()

    def interrupt(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        if sys.stderr.isatty():
            with click.progressbar(
                length=1, label=one_line(title, LONGEST_NAME), file=sys.stderr, width=0
            ) as bar:

                def show(done: int, total: int) -> None:
                    bar.length = total
                    bar.update(done - bar.pos)

                yield show, stop
        else:
            yield None, stop
    finally:
        signal.signal(signal.SIGINT, before)
