"""Measurements of the benchmarks: time of both sides in turn, and anonymous memory."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Contender = Callable[[], Callable[[], object]]
"""Prepares one run and returns the function to time. Its result is freed after the clock stops."""

HEADINGS = ("work", "torch", "here", "ratio", "wanted", "held")
MARKS = ("<!-- figures -->", "<!-- end of figures -->")
WIDTHS = (60, 10, 12, 8, 22, 4)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Attributes:
        work: what was measured.
        here: the time or size with this program.
        torch: the time or size with torch, or "".
        ratio: torch divided by here, or another figure, or "".
        wanted: the promised bound, or "".
        held: whether the promise is kept; None without a promise.
        minor: whether `write_table` omits the row.
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
        return table_row((self.work, self.torch, self.here, self.ratio, self.wanted, held))


def table_row(cells: Sequence[str]) -> str:
    """Return one row of the table as a line of aligned cells."""
    return " ".join(f"{c:<{w}}" for c, w in zip(cells, WIDTHS, strict=True)).rstrip()


def write_table(path: Path, figures: Sequence[Figure]) -> None:
    """Write the machine and the figures with a promise between the two marks of a Markdown file."""
    promised = [figure for figure in figures if figure.held is not None and not figure.minor]
    lines = [
        " | ".join(("", *cells, "")).strip()
        for cells in (
            ("work", "torch", "here", "ratio", "wanted"),
            ("---",) * 5,
            *((f.work.strip(), f.torch, f.here, f.ratio, f.wanted) for f in promised),
        )
    ]
    replace_marked(path, f"{machine()}\n\n" + "\n".join(lines))


def machine() -> str:
    """Return a sentence that describes this machine: processor, memory, system and libraries."""
    import psutil
    import torch

    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    cores, memory = psutil.cpu_count(), psutil.virtual_memory().total / 2**30
    return (
        f"Machine: {processor}, {cores} cores, {memory:.0f} GiB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}."
    )


def replace_marked(path: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace what is between the two marks of a Markdown file."""
    before, mark, rest = path.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end:
        raise SystemExit(f"{path} has no marks for the table: {' and '.join(marks)}.")
    path.write_text(f"{before}{mark}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def seconds(duration: float) -> str:
    """Format a duration in seconds as s or ms."""
    return f"{duration:.2f} s" if duration >= 1 else f"{1000 * duration:.1f} ms"


PAUSE_S = 0.01
"""Pause before each run, after which threads of the previous contender no longer spin."""


def fastest(rounds: int, *contenders: Contender) -> list[float]:
    """Return the shortest time of each contender in seconds; the contenders take turns."""
    shortest = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for index, contender in enumerate(contenders):
            work = contender()
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            result = work()
            shortest[index] = min(shortest[index], time.perf_counter() - start)
            del result, work
    return shortest


def compare(
    work: str, torch: Contender, here: Contender, times: float | None = None, rounds: int = 3
) -> Figure:
    """Time this program and torch on the same work.

    Args:
        work: the name of the work.
        torch: the contender with torch.
        here: the contender with this program; it runs three times per round.
        times: the promised ratio of torch to here; None without a promise.
        rounds: number of rounds.
    """
    theirs, *ours = fastest(rounds, torch, here, here, here)
    ratio, wanted, held = theirs / min(ours), "", None
    if times is not None:
        wanted, held = f">= {times:g} x", ratio >= times
    return Figure(work, seconds(min(ours)), seconds(theirs), f"{ratio:.1f} x", wanted, held)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Measure the peak of the anonymous memory of this process in a block; Linux only.

    Yields:
        A list that holds the peak in bytes after the block.
    """
    result: list[int] = []
    is_over = threading.Event()
    peak = anonymous_memory()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.001):
            peak = max(peak, anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield result
    finally:
        is_over.set()
        watcher.join()
        result.append(max(peak, anonymous_memory()))


def anonymous_memory() -> int:
    """Return the resident bytes of this process that no file backs (RssAnon)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon on this system")


def run_in_new_process(
    script: str, *arguments: str, timeout_s: float | None = None
) -> dict[str, Any]:
    """Run a script in a new process and return the JSON object that it prints."""
    run = subprocess.run(
        [sys.executable, script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout_s,
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


ELEMENT_BYTES = {"BF16": 2, "F32": 4}
"""Bytes per element, by safetensors dtype name."""


def write_in_chunks(
    path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]], chunks: Iterable[Any]
) -> None:
    """Write a safetensors file of any size.

    Args:
        path: of the file.
        tensors: dtype and shape by tensor name.
        chunks: the bytes of the tensors in order, split in any way.
    """
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + ELEMENT_BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # aligns the data, as other writers do
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for chunk in chunks:
            file.write(chunk)
