"""Work over chunks of tensors, on as many threads as torch is set to use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

CHUNK = 1 << 20
"""Entries per piece of work: some milliseconds, so that Cancel is prompt."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def chunks(size: int) -> Iterator[tuple[int, int]]:
    """Cut the indices [0, size) into stretches (start, stop) of at most `CHUNK`."""
    for start in range(0, size, CHUNK):
        yield start, min(start + CHUNK, size)


def run(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``work(task)`` for every task, in order, computed on `torch.get_num_threads()` threads.

    The first exception ends it; tasks not begun by then are dropped.
    """
    tasks = list(tasks)
    if len(tasks) == 1:  # as for most parameters; to start threads takes longer
        yield work(tasks[0])
        return
    with ThreadPoolExecutor(torch.get_num_threads(), "prune-gui-chunk") as pool:
        yield from pool.map(work, tasks)
