"""Compilation of loops by numba, which is imported only here.

numba reads no file of the working folder.

Compiled loops are cached in `__pycache__` beside their source; if that cannot be written, in the
user's cache folder; if neither can, they are compiled again in each process.

Until a loop is compiled, Python itself runs it on small arrays: a second passes before numba has
compiled a loop for the types of its arguments, but a small network needs only milliseconds.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np
from platformdirs import user_cache_path

from prune_gui.pruning.kernels.compiling import COMPILATIONS
from prune_gui.pruning.kernels.numba_config import ignore_config_file

ignore_config_file()

import numba  # noqa: E402 - its configuration comes first
from numba import types  # noqa: E402
from numba.core import event  # noqa: E402
from numba.core.caching import (  # noqa: E402
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.registry import cpu_target  # noqa: E402
from numba.extending import overload, register_jitable  # noqa: E402

__all__ = [
    "NotCompiledError",
    "compiled",
    "compiled_within",
    "interpret_up_to",
    "only_from_cache",
    "overload",
    "read_cache_again",
    "register_jitable",
    "types",
]

F = TypeVar("F", bound="Callable[..., Any]")

PRIVATE_MODE: Final = 0o700
INTERPRETED_IN_CALL: Final = 1 << 17
"""Elements of the first array of a call up to which an uncompiled loop is interpreted."""
INTERPRETED: Final = 1 << 21
"""The same for all calls of a loop, which together take about as long as its compilation."""

log = logging.getLogger(__name__)

cpu_target.target_context.refresh()  # imports what the first call of a loop would import otherwise


class _CompilationListener(event.Listener):
    """Counts the compilations that run."""

    def on_start(self, event: object) -> None:
        COMPILATIONS.add(1)

    def on_end(self, event: object) -> None:
        COMPILATIONS.add(-1)


event.register("numba:compile", _CompilationListener())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile a loop on first use, and cache the compiled code for the next process."""
    dispatcher: Any = compiled_within(function)
    try:
        dispatcher._cache = _Cache(function)  # as enable_caching() does
    except RuntimeError:  # numba raises this if no folder can be written
        _log_once("Compiled loops are not kept: no cache folder can be written")
    return cast("F", dispatcher)


def compiled_within(function: F, *, interpretable: bool = True) -> F:
    """Compile a loop on first use; it is cached with the `compiled` loops that call it.

    Args:
        function: the loop.
        interpretable: whether Python computes exactly the same.
    """
    dispatcher: Any = numba.njit(nogil=True)(function)
    if interpretable:
        dispatcher._compile_for_args = _FirstCall(dispatcher)  # numba calls it for new types
    return cast("F", dispatcher)


def interpret_up_to(elements: int) -> None:
    """Set how many elements an uncompiled loop may process before it is compiled; 0 for none."""
    _FirstCall.limit = elements


def read_cache_again() -> None:
    """Let the next calls find compiled code that another process has added to the cache."""
    _FirstCall.not_cached.clear()


class NotCompiledError(Exception):
    """The cache has no compiled code of a loop for some types."""


class _ThreadState(threading.local):
    """Whether the thread only loads compiled code."""

    loads_only = False


_thread = _ThreadState()


@contextmanager
def only_from_cache() -> Iterator[None]:
    """Load the compiled code of loops that are called in the block, and compile none.

    Raises:
        NotCompiledError: (the call of a loop) the cache does not have it. Without a cache, loops
            are compiled nevertheless.
    """
    _thread.loads_only = True
    try:
        yield
    finally:
        _thread.loads_only = False


class _FirstCall:
    """Returns what runs a loop for arguments of new types: compiled code, or the function itself.

    Args:
        dispatcher: the loop, an object of numba without types.
    """

    limit: ClassVar = INTERPRETED
    not_cached: ClassVar[set[Hashable]] = set()

    def __init__(self, dispatcher: Any) -> None:  # noqa: ANN401
        self._dispatcher = dispatcher
        self._compile: Callable[..., Callable[..., object]] = dispatcher._compile_for_args
        self._interpreted = 0

    def __call__(self, *arguments: object) -> Callable[..., object]:
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        if _thread.loads_only or not arrays:
            return self._compile(*arguments)
        elements = arrays[0].size
        if elements > INTERPRETED_IN_CALL or self._interpreted + elements > self.limit:
            return self._compile(*arguments)
        types_of_call = (self, *((each.dtype, each.ndim) for each in arrays))
        if isinstance(self._dispatcher._cache, _Cache) and types_of_call not in self.not_cached:
            with suppress(NotCompiledError), only_from_cache():
                return self._compile(*arguments)
            self.not_cached.add(types_of_call)
        self._interpreted += elements
        return self._interpret

    def _interpret(self, *arguments: object) -> object:
        with np.errstate(all="ignore"):  # as in compiled code
            return _boxed(self._dispatcher.py_func(*arguments))


def _boxed(result: object) -> object:
    """Return numbers of Python instead of those of numpy, as compiled code does."""
    if isinstance(result, tuple):
        return tuple(map(_boxed, result))
    return result.item() if isinstance(result, np.generic) else result


class _PrivateFolder(UserWideCacheLocator):  # type: ignore[misc] # numba has no types
    """The user's cache folder of this program, if no other user can write to it.

    Code in this folder is executed, so a folder that another user can write to would run that
    user's code. numba's own locator checks neither the owner nor that the path is absolute.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        folder = user_cache_path("prune-gui", appauthor=False) / "compiled"
        self._cache_path = str(folder / self.get_suitable_cache_subpath(file))

    def ensure_cache_path(self) -> None:
        path = Path(self._cache_path)
        if not path.is_absolute():
            raise PermissionError(f"{path} depends on the working folder")
        path.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
        if sys.platform != "win32":
            status = path.lstat()
            writable = stat.S_IWGRP | stat.S_IWOTH
            if status.st_uid != os.geteuid() or status.st_mode & writable or path.is_symlink():
                raise PermissionError(f"{path} can be written by other users")
        super().ensure_cache_path()


class _CacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (UserProvidedCacheLocator, InTreeCacheLocator, _PrivateFolder)


class _Cache(FunctionCache):  # type: ignore[misc]
    """A cache that never fails: a loop that cannot be read or written is compiled in memory."""

    _impl_class = _CacheFiles

    def load_overload(self, sig: object, target_context: object) -> object:
        result = self._load(sig, target_context)
        if result is None and _thread.loads_only:
            raise NotCompiledError
        return result

    def _load(self, sig: object, target_context: object) -> object:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged pickle raises anything
            _log_once(f"Compiled loops in {self.cache_path} cannot be read: {error!r}")
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _log_once(f"Compiled loops cannot be kept in {self.cache_path}: {error}")


@cache
def _log_once(message: str) -> None:
    log.warning(message)
