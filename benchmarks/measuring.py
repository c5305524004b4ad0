"""How the benchmarks measure: time, both sides in turn, and memory that no file backs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Contender = Callable[[], Callable[[], object]]
"""Gets one run ready; what it returns is timed. What that returns goes when the clock stands."""

HEADINGS = ("work", "torch", "here", "ratio", "wanted", "held")
MARKS = ("<!-- figures -->", "<!-- end of figures -->")
WIDTHS = (60, 10, 12, 8, 22, 4)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        work: what was done.
        here: what it took this program.
        torch: what it took torch, or "".
        ratio: how many times less that is, or "".
        wanted: what is promised, or "".
        held: whether it is kept; None where nothing is promised.
        minor: whether `write_table` leaves it out: others say as much.
    """

    work: str
    here: str
    torch: str = ""
    ratio: str = ""
    wanted: str = ""
    held: bool | None = None
    minor: bool = False

    def __str__(self) -> str:
        held = {None: "", True: "yes", False: "NO"}[self.held]
        return laid_out((self.work, self.torch, self.here, self.ratio, self.wanted, held))


def laid_out(cells: Sequence[str]) -> str:
    """Return one line of the table."""
    return " ".join(f"{c:<{w}}" for c, w in zip(cells, WIDTHS, strict=True)).rstrip()


def write_table(path: Path, figures: Sequence[Figure]) -> None:
    """Put the promises among some figures, as a table, between the two marks in a Markdown file."""
    promised = [figure for figure in figures if figure.held is not None and not figure.minor]
    lines = [
        " | ".join(("", *cells, "")).strip()
        for cells in (
            ("work", "torch", "here", "ratio", "wanted"),
            ("---",) * 5,
            *((one.work.strip(), one.torch, one.here, one.ratio, one.wanted) for one in promised),
        )
    ]
    before, mark, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise SystemExit(f"{path} has no place for the table: {' and '.join(MARKS)}.")
    table = "\n".join(("", "", *lines, "", ""))
    path.write_text(before + mark + table + end + after, encoding="utf-8")


def seconds(text: float) -> str:
    """Say how long something took."""
    return f"{text:.2f} s" if text >= 1 else f"{1000 * text:.1f} ms"


CALM = 0.01
"""Seconds after which the threads of who came before no longer spin, waiting for more to do."""


def fastest(rounds: int, *contenders: Contender) -> list[float]:
    """Return the least time that each contender needed, in seconds; they take turns."""
    least = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for place, contender in enumerate(contenders):
            work = contender()
            time.sleep(CALM)
            began = time.perf_counter()
            made = work()
            least[place] = min(least[place], time.perf_counter() - began)
            del made, work
    return least


def compare(
    work: str, torch: Contender, here: Contender, times: float | None = None, rounds: int = 3
) -> Figure:
    """Time two ways to do the same.

    Args:
        work: what they do.
        torch: the one of torch.
        here: ours; it gets three turns for each of torch's.
        times: how many times faster than torch it should be; None: nothing is promised.
        rounds: how many turns torch gets.
    """
    one, *ours = fastest(rounds, torch, here, here, here)
    ratio, wanted, held = one / min(ours), "", None
    if times is not None:
        wanted, held = f">= {times:g} x", ratio >= times
    return Figure(work, seconds(min(ours)), seconds(one), f"{ratio:.1f} x", wanted, held)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Watch the memory of this process that no file backs; Linux only.

    Yields:
        A list that holds, when the block has ended, the most there was, in bytes.
    """
    found: list[int] = []
    over = threading.Event()
    most = anonymous_memory()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.001):
            most = max(most, anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
        found.append(max(most, anonymous_memory()))


def anonymous_memory() -> int:
    """Return how many bytes of this process are resident and backed by no file."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("RssAnon:"):
            return int(entry.split()[1]) * 1024
    raise OSError("this system does not say how much memory a process has of its own")


def in_a_new_process(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script, and return the JSON object that it prints."""
    run = subprocess.run(
        [sys.executable, script, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


WIDTH = {"BF16": 2, "F32": 4}
"""Bytes per entry, by the name that safetensors gives a type."""


def write_in_parts(
    path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]], parts: Iterable[Any]
) -> None:
    """Write a safetensors file of any size.

    Args:
        path: of the file.
        tensors: the type and the shape of each, by name.
        parts: their bytes, one after another; each in as many parts as one likes.
    """
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + WIDTH[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # as every writer does, so that entries are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part)
