"""Output of the commands: lines, tables, JSON, and progress on standard error.

Names from files may contain line ends that forge a line, or control sequences of terminals. All
output goes through this module, which escapes them.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from prune_gui.errors import Cancelled, PruneGuiError, one_line
from prune_gui.monitor import Monitor
from prune_gui.number_formats import short_bytes
from prune_gui.session.end_signals import end_signals

if TYPE_CHECKING:
    from prune_gui.isolated.watching import Status
    from prune_gui.monitor import Progress

MAX_NAME_LENGTH: Final = 200
MAX_LINE_LENGTH: Final = 2000


def print_line(line: str = "", *, err: bool = False) -> None:
    """Print one line; characters that do not print are escaped."""
    click.echo(one_line(line, MAX_LINE_LENGTH), err=err)


def print_lines(lines: Iterable[str]) -> None:
    """Print some lines; see `print_line`."""
    for line in lines:
        print_line(line)


def and_more(names: Sequence[str]) -> str:
    """Return the first name, and how many follow it."""
    name = one_line(names[0], MAX_NAME_LENGTH)
    return f"{name} and {len(names) - 1:,} more" if len(names) > 1 else name


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of a table: the first column is left-aligned, the others are right-aligned."""
    lines = [[one_line(cell, MAX_LINE_LENGTH) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]
        yield "  ".join(cells).rstrip()


def number_of(count: int, thing: str) -> str:
    """Return a number of things: "1 tensor", "2,000 tensors"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as "384 x 1536"."""
    return " x ".join(map(str, shape))


def print_json(value: object) -> None:
    """Print one JSON object. Characters that do not print are escaped, as JSON allows.

    If the encoding of standard output lacks a character of the object, all of it is ASCII.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding if sys.stdout else "utf-8")
    except UnicodeEncodeError:  # lone surrogates, as in undecodable file names, raise it too
        text = json.dumps(value, indent=2)
    for line in text.split("\n"):
        if line.isprintable():
            click.echo(line)
        else:
            click.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line))


class Interrupted(PruneGuiError):  # noqa: N818 - an outcome, not an error
    """The program received a signal to end."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def job(title: str, *, with_bar: bool = True) -> Iterator[tuple[Progress | None, threading.Event]]:
    """Run a block as a job with progress and cancellation."""
    if not gc.isenabled():
        gc.freeze()  # what libraries have made stays
        gc.enable()
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
            with (
                _progress_bar(title) if with_bar else nullcontext() as progress,
                Monitor(cancel=stop).in_charge(),
            ):
                yield progress, stop
        except (Cancelled, KeyboardInterrupt, ImportError) as error:
            if isinstance(error, ImportError) and not stop.is_set():
                raise
            # a module may replace the interrupt that ends its import
            raise Interrupted(code, str(Cancelled())) from None
        if stop.is_set():
            raise Interrupted(code, f"Interrupted after this was completed: {title}.")


class StatusLine:
    """A line on the terminal: what is done now, for how long, and the memory it takes."""

    def __init__(self) -> None:
        self._is_shown = bool(sys.stderr and sys.stderr.isatty())
        self._length = 0
        self.label = ""

    def show(self, status: Status) -> None:
        """Show the time and the memory after the label."""
        self._replace(f"{self.label}  {status.seconds:.0f} s, {short_bytes(status.memory)}")

    @contextmanager
    def shown(self, label: str) -> Iterator[None]:
        """Show the line during a block."""
        self.begin(label)
        try:
            yield
        finally:
            self._replace("")

    def begin(self, label: str) -> None:
        """Show what begins now."""
        self.label = label
        self._replace(label)

    def _replace(self, text: str) -> None:
        if self._is_shown:
            line = one_line(text, MAX_LINE_LENGTH)[: shutil.get_terminal_size().columns - 1]
            end = "" if line else "\r"
            click.echo(f"\r{line.ljust(self._length)}{end}", err=True, nl=False)
            self._length = len(line)


@contextmanager
def _progress_bar(title: str) -> Iterator[Progress | None]:
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    label = one_line(title, MAX_NAME_LENGTH)
    with click.progressbar(length=1, label=label, file=sys.stderr, width=0) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show
