"""A value that is computed on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is computed once, on first use; thread-safe.

    If the computation raises, the next call computes the value again.

    Args:
        work: computes the value.

    Attributes:
        last_computation: replaced by a new object each time that any lazy value is computed.
    """

    last_computation: ClassVar[object] = object()

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._values: list[T] = []

    @classmethod
    def of_value(cls, value: T) -> Lazy[T]:
        """Return a lazy value that is already computed."""
        lazy = cls(lambda: value)
        lazy._values.append(value)
        return lazy

    @property
    def is_computed(self) -> bool:
        """Whether the value is already computed."""
        return bool(self._values)

    def __call__(self) -> T:
        """Return the value; compute it on first use."""
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values.append(self._work())
                    Lazy.last_computation = object()
        return self._values[0]
