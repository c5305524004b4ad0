"""A time limit for reading weights, so that a view is updated and other jobs can run meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prune_gui.checkpoint import TensorInfo

READ_SLICE_S: Final = 0.15
"""Time for which parameters are read before the view is updated and other jobs can run."""
EARLY_READ_LIMIT_BYTES: Final = 1 << 24
"""Size limit of a parameter that may be read before the counts are shown."""


def read_budget(*, counted: bool) -> Callable[[TensorInfo], bool]:
    """Return a predicate that is true while there is time left to read a parameter.

    Args:
        counted: whether the counts are shown already. Before that, parameters larger than
            `EARLY_READ_LIMIT_BYTES` are not read.
    """
    end = time.monotonic() + READ_SLICE_S
    return lambda info: (
        time.monotonic() < end and (counted or info.nbytes <= EARLY_READ_LIMIT_BYTES)
    )
