"""Making the next pieces of something while the last one is being used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, cast

T = TypeVar("T")

DEPTH: Final = 2
"""How many items are made before they are asked for."""


def prefetch(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items in order; the next ones are made meanwhile, on a thread of their own.

    Close it when leaving early, so that the thread ends.
    """
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "prune-gui-ahead") as pool:
        waiting = deque(pool.submit(next, iterator, end) for _ in range(DEPTH))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, iterator, end))
            yield cast("T", item)
