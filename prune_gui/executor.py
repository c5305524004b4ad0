"""Where the tasks of long work run: on threads of this process, or on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol, TypeVar

from prune_gui.monitor import Monitor

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs tasks somewhere else, such as on the workers of a cluster.

    Work, tasks and results are pickled. A checkpoint in them is pickled as the path of its file,
    so that they are small; see `prune_gui.cluster`.
    """

    def map(
        self, work: Callable[[Task, Monitor], Result], tasks: Sequence[Task], monitor: Monitor
    ) -> Iterator[Result]:
        """Yield ``work(task, monitor)`` for every task, in order.

        `work` gets a monitor of its own; what it counts is added to `monitor` when the task is
        done. A task whose machine is lost runs again, so `work` may run several times for a task.
        """

    def staging_folder(self, folder: Path) -> Path:
        """Return the folder in which tasks write files, before they are moved to `folder`.

        Other machines see it at the same path. It is `folder` itself by default.
        """
        return folder


_executor: ContextVar[Executor | None] = ContextVar("executor", default=None)


def current_executor() -> Executor | None:
    """Return the executor of the innermost `use_executor` block; None: threads of this process."""
    return _executor.get()


@contextmanager
def use_executor(executor: Executor | None) -> Iterator[None]:
    """Run the tasks of `prune_gui.parallel.spread` on an executor within a block."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)
