"""Run work on chunks of tensors, on `torch.get_num_threads()` threads or on a cluster."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

from prune_gui.executor import current_executor
from prune_gui.monitor import Monitor

CHUNK_ELEMENTS = 1 << 21
"""Elements per chunk: they take some milliseconds, so that Cancel is prompt."""

THREAD_NAME_PREFIX: Final = "prune-gui-chunk"

Task = TypeVar("Task")
Result = TypeVar("Result")


def chunks(size: int, max_elements: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield spans of at most `max_elements` (`CHUNK_ELEMENTS`) that cover [0, size)."""
    max_elements = max_elements or CHUNK_ELEMENTS
    for start in range(0, size, max_elements):
        yield start, min(start + max_elements, size)


def use_threads(count: int | None) -> None:
    """Set the number of threads of torch and of `run`; None restores torch's default.

    torch keeps the number per thread: it applies to work that the calling thread starts.
    """
    import torch  # slow to import

    default = default_threads()
    torch.set_num_threads(count or default)


@cache
def default_threads() -> int:
    """Return the number of threads of torch before any call of `use_threads`."""
    import torch  # slow to import

    return torch.get_num_threads()


def thread_count() -> int:
    """Return the number of threads of torch, or of the cores while torch is not imported."""
    if threads := getattr(sys.modules.get("torch"), "get_num_threads", None):
        return int(threads())
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``work(task)`` for every task, in order, computed on `torch.get_num_threads()` threads.

    The calling thread is one of them. After the first exception no further task starts, and the
    exception is raised. Nested calls use a separate pool per nesting depth: all threads of the
    outer call may be waiting for the result of the inner one. Within a task, torch has one thread,
    or more if there are fewer tasks than threads.
    """
    pending = deque(enumerate(tasks))
    threads = _nesting.threads or thread_count()
    count, other_threads = len(pending), threads - 1
    if count == 1:  # most parameters: waking threads takes longer
        yield work(pending[0][1])
        return
    done: dict[int, Result] = {}
    depth = _nesting.depth

    def run_next() -> bool:
        try:
            index, task = pending.popleft()
        except IndexError:
            return False
        with _nested(depth, threads, max(1, threads // count)):
            done[index] = work(task)
        return True

    def run_all() -> None:
        try:
            while run_next():
                pass
        except BaseException:
            pending.clear()
            raise

    # Each thread runs in a copy of the context, where `check_cancelled` finds the same monitor.
    futures = [
        _pool(other_threads, depth).submit(copy_context().run, run_all)
        for _ in range(min(other_threads, count - 1))
    ]
    try:
        for index in range(count):
            while index not in done:
                if not run_next():
                    for future in futures:
                        if not future.cancel():
                            future.result()
            yield done.pop(index)
    finally:
        pending.clear()
        wait([future for future in futures if not future.cancel()])


def spread(
    work: Callable[[Task, Monitor], Result], tasks: Iterable[Task], monitor: Monitor
) -> Iterator[Result]:
    """Yield ``work(task, monitor)`` for every task, in order, as `run` does or on an executor.

    It is for tasks that read much and return little. On an executor (see `prune_gui.executor`),
    `work` and the tasks are pickled, so they should hold no more than one task needs. A single task
    runs here, and so do all tasks of calls within `run`, so that an executor gets its calls in the
    same order on any number of threads.
    """
    every = list(tasks)
    executor = current_executor() if len(every) > 1 and not _nesting.depth else None
    if executor is None:
        return run(lambda task: work(task, monitor), every)
    return executor.map(work, every, monitor)


class _Nesting(threading.local):
    depth = 0
    threads = 0
    """The threads of the outermost call; 0 outside of any."""


@contextmanager
def _nested(depth: int, threads: int, torch_threads: int) -> Iterator[None]:
    """Run a task: calls of `run` within it are one deeper, and torch has its share of threads."""
    before = _nesting.threads
    _nesting.depth, _nesting.threads = depth + 1, threads
    try:
        with _torch_threads(torch_threads):
            yield
    finally:
        _nesting.depth, _nesting.threads = depth, before


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "set_num_threads") or torch.get_num_threads() == count:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_nesting = _Nesting()


@lru_cache(maxsize=4)
def _pool(threads: int, depth: int) -> ThreadPoolExecutor:
    """Return a pool of idle threads: starting threads can take longer than a pass over memory.

    While they are busy, the caller of `run` runs the tasks itself.
    """
    return ThreadPoolExecutor(threads, THREAD_NAME_PREFIX)
