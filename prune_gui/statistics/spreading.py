"""Figures of many parameters: on the executor if they read much, or one after the other here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from prune_gui.errors import RecipeError
from prune_gui.executor import current_executor, use_executor
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import spread

MIN_SPREAD_BYTES: Final = 1 << 26
"""Less is read here, in about the time that messages to a cluster take."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def uses_executor(nbytes: int) -> bool:
    """Return whether work that reads this much runs on the current executor."""
    return current_executor() is not None and nbytes >= MIN_SPREAD_BYTES


def map_parameters(
    work: Callable[[Task, Monitor], Result], tasks: Iterable[Task], nbytes: int, monitor: Monitor
) -> Iterator[Result]:
    """Yield ``work(task, monitor)`` for every task, in order.

    On an executor, `work` and the tasks are pickled, so they should hold no more than one task
    needs. Here, the tasks are taken one after the other, and `work` uses all threads.
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
    """Run a task, with all calls within it, on threads of this process."""
    with use_executor(None):
        return work(task, monitor)
