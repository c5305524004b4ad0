"""Work over chunks of tensors, on as many threads as torch is set to use."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache
from typing import Final, TypeVar

import torch

CHUNK_ELEMENTS = 1 << 21
"""Entries per piece of work: some milliseconds, so that Cancel is prompt."""
_USUAL = torch.get_num_threads()

NAME: Final = "prune-gui-chunk"
"""What the names of the threads begin with."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def chunks(size: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield spans (start, stop) of `most` or `CHUNK_ELEMENTS` indices that cover [0, size)."""
    most = most or CHUNK_ELEMENTS
    for start in range(0, size, most):
        yield start, min(start + most, size)


def use_threads(count: int | None) -> None:
    """Have torch, and `run`, use so many threads; None for as many as torch takes by itself.

    torch keeps the number by thread: it counts for work that is begun on the calling one.
    """
    torch.set_num_threads(count or _USUAL)


def run(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``work(task)`` for every task, in order, computed on `torch.get_num_threads()` threads.

    The calling thread is one of them. The first exception ends it; tasks not begun by then are
    dropped. Work that calls this in turn has threads of its own, since those of the work around it
    may all wait for what it finds.
    """
    left = deque(enumerate(tasks))
    count, others = len(left), torch.get_num_threads() - 1
    if count == 1 or not others:  # as for most parameters; to wake threads takes longer
        yield from (work(task) for _, task in left)
        return
    done: dict[int, Result] = {}
    depth = _here.depth

    def do_one() -> bool:
        """Do a task if one is left."""
        try:
            place, task = left.popleft()
        except IndexError:
            return False
        _here.depth = depth + 1
        try:
            done[place] = work(task)
        finally:
            _here.depth = depth
        return True

    def do_all() -> None:
        try:
            while do_one():
                pass
        except BaseException:
            left.clear()
            raise

    # Each in a copy of the context: `check_cancelled` asks there what it asks here.
    helpers = [
        _pool(others, depth).submit(copy_context().run, do_all)
        for _ in range(min(others, count - 1))
    ]
    try:
        for place in range(count):
            while place not in done:
                if not do_one():
                    for helper in helpers:
                        if not helper.cancel():
                            helper.result()
            yield done.pop(place)
    finally:
        left.clear()
        wait([helper for helper in helpers if not helper.cancel()])


class _Here(threading.local):
    """How many calls of `run` the calling thread works for."""

    depth = 0


_here = _Here()


@lru_cache(maxsize=4)
def _pool(threads: int, depth: int) -> ThreadPoolExecutor:
    """Return threads that wait for work: to start them takes longer than many a pass over memory.

    Whoever calls `run` does the work itself while they are busy.
    """
    return ThreadPoolExecutor(threads, NAME)
