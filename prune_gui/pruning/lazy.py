"""A value that is worked out when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Works a value out once, whichever threads ask for it; a failure is tried again.

    Args:
        work: returns the value.

    Attributes:
        latest: another object whenever any value has been worked out.
    """

    latest: ClassVar[object] = object()

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._found: list[T] = []

    @classmethod
    def known(cls, value: T) -> Lazy[T]:
        """Return a value that needs no work."""
        made = cls(lambda: value)
        made._found.append(value)
        return made

    @property
    def is_known(self) -> bool:
        """Whether it has been worked out."""
        return bool(self._found)

    def __call__(self) -> T:
        """Return the value, and work it out if nobody has yet."""
        if not self._found:
            with self._lock:
                if not self._found:
                    self._found.append(self._work())
                    Lazy.latest = object()
        return self._found[0]
