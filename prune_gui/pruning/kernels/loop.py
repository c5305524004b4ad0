"""Functions that loop over arrays: compiled by numba for large arrays, run by Python on small ones.

A second passes before numba has compiled a loop for the types of its arguments, and its import
alone takes 0.3 s, but a small network needs only milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import update_wrapper
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np

from prune_gui.pruning.kernels.compiling import NotCompiledError, only_from_cache, only_loads
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

    Args:
        in_numpy: does the same in few calls of numpy. It is called instead until the loop is
            compiled.
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
        """Run the loop."""
        if self._lazy_dispatcher.is_computed or not self._runs_without_numba(arguments):
            return self.dispatcher(*arguments)
        start = time.thread_time()
        result = self._interpret(*arguments)
        Loop.seconds_without_numba += time.thread_time() - start
        return result

    def _make_dispatcher(self) -> object:
        from prune_gui.pruning.kernels.compilation import dispatcher  # numba: slow to import

        made = dispatcher(self._function, is_cached=self._is_cached)
        self._is_cached = made._cache.cache_path is not None  # None if no folder can be written
        if self._is_interpretable:
            self._compile: Callable[..., Callable[..., object]] = made._compile_for_args
            made._compile_for_args = self._first_call  # numba calls it for new types
        return made

    def _runs_without_numba(self, arguments: tuple[object, ...]) -> bool:
        if not self._is_interpretable or only_loads() or COMPILATION in sys.modules:
            return False
        is_small = _elements(arguments) <= min(INTERPRETED_IN_CALL, self.limit)
        return is_small and Loop.seconds_without_numba < NUMBA_IMPORT_S

    def _first_call(self, *arguments: object) -> Callable[..., object]:
        """Return what runs the loop for arguments of new types."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        if only_loads() or not arrays:
            return self._compile(*arguments)
        elements = _elements(arguments)
        if elements > INTERPRETED_IN_CALL or self._interpreted + elements > self.limit:
            return self._compile(*arguments)
        types_of_call = (self, *((each.dtype, each.ndim) for each in arrays))
        if self._is_cached and types_of_call not in self.not_cached:
            with suppress(NotCompiledError), only_from_cache():
                return self._compile(*arguments)
            self.not_cached.add(types_of_call)
        self._interpreted += elements if self._in_numpy is None else 0
        return self._interpret

    def _interpret(self, *arguments: object) -> object:
        with np.errstate(all="ignore"):  # as in compiled code
            return _boxed((self._in_numpy or self._function)(*arguments))


def _elements(arguments: tuple[object, ...]) -> int:
    """Return the number of elements of the largest array."""
    return max((each.size for each in arguments if isinstance(each, np.ndarray)), default=1)


def _boxed(result: object) -> object:
    """Return numbers of Python instead of those of numpy, as compiled code does."""
    if isinstance(result, tuple):
        return tuple(map(_boxed, result))
    return result.item() if isinstance(result, np.generic) else result
