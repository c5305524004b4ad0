"""Work on many parameters, on the executor or here, and on the chunks of one, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from prune_gui.checkpoint import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.executor import current_executor, use_executor
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run, spread

MIN_SPREAD_BYTES: Final = 1 << 26
"""Less is read here, in about the time that messages to a cluster take."""
READ_SLICE_S: Final = 0.15
"""Time for which parameters are read before the view is updated and other jobs can run."""
ROUND_BYTES: Final = 1 << 30
"""Bytes that an executor reads before the view is updated and other jobs can run."""
EARLY_READ_LIMIT_BYTES: Final = 1 << 24
"""Size limit of a parameter that may be read before the counts are shown."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_chunks(work: Callable[[int, int], Result], size: int, monitor: Monitor) -> Iterator[Result]:
    """Yield ``work(start, stop)`` for the chunks of `size` elements, on all threads."""

    def advance_and_work(span: tuple[int, int]) -> Result:
        monitor.advance(span[1] - span[0])
        return work(*span)

    monitor.expect(size)
    return run(advance_and_work, chunks(size))


def uses_executor(nbytes: int) -> bool:
    """Return whether work that reads this much runs on the current executor."""
    return current_executor() is not None and nbytes >= MIN_SPREAD_BYTES


def map_parameters(
    work: Callable[[Task, Monitor], Result], tasks: Iterable[Task], nbytes: int, monitor: Monitor
) -> Iterator[Result]:
    """Yield ``work(task, monitor)`` for every task, in order.

    On an executor, `work` and the tasks are pickled. Here, `work` uses all threads.
    """
    if not uses_executor(nbytes):
        yield from (_run_here(work, task, monitor) for task in tasks)
        return
    every = list(tasks)
    results = spread(partial(_run_here, work), every, monitor)
    try:
        done = list(islice(results, 1))
    except RecipeError:  # masks of a plug-in cannot be pickled
        yield from (_run_here(work, task, monitor) for task in every)
        return
    yield from done
    yield from results


def _run_here(work: Callable[[Task, Monitor], Result], task: Task, monitor: Monitor) -> Result:
    with use_executor(None):
        return work(task, monitor)


def read_budget(*, counted: bool, seconds: float = READ_SLICE_S) -> Callable[[TensorInfo], bool]:
    """Return a predicate that is true while there is time left to read a parameter.

    On an executor, whose speed is not known, it is true for `ROUND_BYTES`. Before the counts are
    shown (`counted`), large parameters are not read, and an executor reads nothing.
    """
    if current_executor() is None:
        end = time.monotonic() + seconds
        return lambda info: (
            time.monotonic() < end and (counted or info.nbytes <= EARLY_READ_LIMIT_BYTES)
        )
    left = ROUND_BYTES if counted else 0

    def is_wanted(info: TensorInfo) -> bool:
        nonlocal left
        left -= info.nbytes
        return left + info.nbytes > 0

    return is_wanted
