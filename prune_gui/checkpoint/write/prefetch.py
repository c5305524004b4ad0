"""Computing the next items of an iterable on another thread while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar, cast

T = TypeVar("T")

MAX_PREFETCHED: Final = 2
"""Items that are computed in advance."""


def prefetch(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items in order, computing the next ones on a background thread.

    Close the generator when leaving early, so that the thread ends.
    """
    iterator, end = iter(items), object()
    compute_next = partial(copy_context().run, next, iterator, end)
    with ThreadPoolExecutor(1, "prune-gui-prefetch") as pool:
        futures = deque(pool.submit(compute_next) for _ in range(MAX_PREFETCHED))
        while (item := futures.popleft().result()) is not end:
            futures.append(pool.submit(compute_next))
            yield cast("T", item)
