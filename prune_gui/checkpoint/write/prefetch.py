"""Computing the next items of an iterable on another thread while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, cast

T = TypeVar("T")

MAX_PREFETCHED: Final = 2
"""Items that are computed in advance."""


def prefetch(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items in order, computing the next ones on a background thread.

    Close the generator when leaving early, so that the thread ends.
    """
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "prune-gui-prefetch") as pool:
        futures = deque(pool.submit(next, iterator, end) for _ in range(MAX_PREFETCHED))
        while (item := futures.popleft().result()) is not end:
            futures.append(pool.submit(next, iterator, end))
            yield cast("T", item)
