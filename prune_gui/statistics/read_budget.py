"""A time limit for reading weights, so that a view is updated and other jobs can run meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prune_gui.checkpoint import TensorInfo
from prune_gui.executor import current_executor

READ_SLICE_S: Final = 0.15
"""Time for which parameters are read before the view is updated and other jobs can run."""
ROUND_BYTES: Final = 1 << 30
"""Bytes that an executor reads before the view is updated and other jobs can run."""
EARLY_READ_LIMIT_BYTES: Final = 1 << 24
"""Size limit of a parameter that may be read before the counts are shown."""


def read_budget(*, counted: bool, seconds: float | None = None) -> Callable[[TensorInfo], bool]:
    """Return a predicate that is true while there is time left to read a parameter.

    On an executor, whose speed is not known, it is true for `ROUND_BYTES`.

    Args:
        counted: whether the counts are shown already. Before that, parameters larger than
            `EARLY_READ_LIMIT_BYTES` are not read, and an executor reads nothing.
        seconds: the time; None for `READ_SLICE_S`.
    """
    if current_executor() is not None:
        return _byte_budget(ROUND_BYTES if counted else 0)
    end = time.monotonic() + (READ_SLICE_S if seconds is None else seconds)
    return lambda info: (
        time.monotonic() < end and (counted or info.nbytes <= EARLY_READ_LIMIT_BYTES)
    )


def _byte_budget(nbytes: int) -> Callable[[TensorInfo], bool]:
    def wanted(info: TensorInfo) -> bool:
        nonlocal nbytes
        is_wanted = nbytes > 0
        nbytes -= info.nbytes
        return is_wanted

    return wanted
