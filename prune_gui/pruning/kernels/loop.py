"""Functions that loop over arrays: compiled by numba for large arrays, run by Python on small ones.

A second passes before numba has compiled a loop for the types of its arguments, and its import
alone takes 0.3 s, but a small network needs only milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.kernels.numba_control import NotCompiledError, only_from_cache, only_loads
from prune_gui.pruning.lazy import Lazy

F = TypeVar("F", bound="Callable[..., Any]")

INTERPRETED_IN_CALL: Final = 1 << 17
"""Elements of the largest array of a call up to which an uncompiled loop is interpreted."""
INTERPRETED: Final = 1 << 21
"""The same for all calls of a loop, which together take about as long as its compilation.

A loop that has a version in numpy is compiled only for a larger array than `INTERPRETED_IN_CALL`.
"""
NUMBA_IMPORT_S: Final = 0.3
"""Time to import numba, about. It is imported when loops have been interpreted for as long."""
COMPILATION: Final = "prune_gui.pruning.kernels.compilation"
"""The module that imports numba."""


def compiled(function: F) -> F:
    """Compile a loop on first use, and cache the compiled code for the next process."""
    return cast("F", Loop(function, is_cached=True))


def compiled_unless_small(in_numpy: F) -> Callable[[F], F]:
    """Return a decorator as `compiled`, for a loop that is slow where Python runs it.

    `in_numpy` does the same in few calls of numpy, and is called until the loop is compiled.
    Without it, the first preview of the demo after an installation takes more than twice as long,
    and its overview a second instead of 40 ms (`benchmarks/first_start.py`).
    """
    return lambda function: cast("F", Loop(function, is_cached=True, in_numpy=in_numpy))


def compiled_within(function: F, *, interpretable: bool = True) -> F:
    """Compile a loop on first use; it is cached with the `compiled` loops that call it."""
    return cast("F", Loop(function, is_cached=False, is_interpretable=interpretable))


def interpret_up_to(elements: int) -> None:
    """Set how many elements an uncompiled loop may process before it is compiled; 0 for none."""
    Loop.limit = elements


def read_cache_again() -> None:
    """Let the next calls find compiled code that another process has added to the cache."""
    Loop.not_cached.clear()


class Loop:
    """A loop, which is interpreted or compiled when it is called."""

    limit: ClassVar = INTERPRETED
    not_cached: ClassVar[set[Hashable]] = set()
    seconds_without_numba: ClassVar = 0.0

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        is_cached: bool,
        is_interpretable: bool = True,
        in_numpy: Callable[..., Any] | None = None,
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._in_numpy = in_numpy
        self._is_cached = is_cached
        self._is_interpretable = is_interpretable
        self._interpreted = 0
        self._compiled_for: set[Hashable] = set()
        self._lazy_dispatcher = Lazy(self._make_dispatcher)

    @property
    def dispatcher(self) -> Any:  # noqa: ANN401
        """The function of numba that compiles the loop; numba is imported."""
        return self._lazy_dispatcher()

    @property
    def _numba_type_(self) -> object:
        """The type that compiled loops use when they call this one."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: object) -> object:
        """Run the loop: compiled for the types of the arguments, or interpreted if they are few."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        types = (self, *[(each.dtype, each.ndim) for each in arrays])
        if types not in self._compiled_for and self._may_interpret(arrays):
            if not self._uses_numba():
                start = time.thread_time()
                result = self._interpret(*arguments)
                Loop.seconds_without_numba += time.thread_time() - start
                return result
            if not self._is_cached or types in self.not_cached:
                return self._count_and_interpret(arrays, arguments)
            try:
                with only_from_cache():
                    result = self.dispatcher(*arguments)
            except NotCompiledError:
                self.not_cached.add(types)
                return self._count_and_interpret(arrays, arguments)
        else:
            result = self.dispatcher(*arguments)
        self._compiled_for.add(types)
        return result

    def _make_dispatcher(self) -> object:
        from prune_gui.pruning.kernels.compilation import dispatcher  # numba: slow to import

        made = dispatcher(self._function, is_cached=self._is_cached)
        self._is_cached = made._cache.cache_path is not None  # None if no folder can be written
        return made

    def _may_interpret(self, arrays: Sequence[NDArray[Any]]) -> bool:
        if not self._is_interpretable or only_loads():
            return False
        elements = _elements(arrays)
        return elements <= min(INTERPRETED_IN_CALL, self.limit - self._interpreted)

    def _uses_numba(self) -> bool:
        """Return whether numba is imported, or should be now; then the cache can be read."""
        if not self._lazy_dispatcher.is_computed and COMPILATION not in sys.modules:
            return Loop.seconds_without_numba >= NUMBA_IMPORT_S
        self.dispatcher  # noqa: B018 - knows whether there is a cache
        return True

    def _count_and_interpret(
        self, arrays: Sequence[NDArray[Any]], arguments: tuple[object, ...]
    ) -> object:
        self._interpreted += _elements(arrays) if self._in_numpy is None else 0
        return self._interpret(*arguments)

    def _interpret(self, *arguments: object) -> object:
        with np.errstate(all="ignore"):  # as in compiled code
            return _boxed((self._in_numpy or self._function)(*arguments))


def _elements(arrays: Sequence[NDArray[Any]]) -> int:
    return max((each.size for each in arrays), default=1)


def _boxed(result: object) -> object:
    """Return numbers of Python instead of those of numpy, as compiled code does."""
    if isinstance(result, tuple):
        return tuple(map(_boxed, result))
    return result.item() if isinstance(result, np.generic) else result
