"""A value that is computed on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is computed once, on first use; thread-safe.

    If the computation raises, the next call computes the value again.
    """

    _value: T

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self.is_computed = False

    @classmethod
    def of_value(cls, value: T) -> Lazy[T]:
        """Return a lazy value that is already computed."""
        lazy = cls(lambda: value)
        lazy()
        return lazy

    def __reduce__(self) -> tuple[Callable[..., Lazy[T]], tuple[object]]:
        """Pickle the value, or what computes it."""
        return (Lazy.of_value, (self._value,)) if self.is_computed else (Lazy, (self._work,))

    def set(self, value: T) -> None:
        """Take a value that was computed elsewhere, such as in another process."""
        with self._lock:
            if not self.is_computed:
                self._value = value
                self.is_computed = True

    def __call__(self) -> T:
        """Return the value; compute it on first use."""
        if not self.is_computed:
            with self._lock:
                if not self.is_computed:
                    self._value = self._work()
                    self.is_computed = True  # last, because readers do not take the lock
        return self._value
