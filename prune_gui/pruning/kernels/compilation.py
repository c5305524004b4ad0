"""Compilation of loops by numba, and the cache of compiled loops.

Compiled loops are cached in `__pycache__` beside their source; if that cannot be written, in the
user's cache folder; if neither can, they are compiled again in each process.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from platformdirs import user_cache_path

from prune_gui.pruning.kernels.compiled_powers import implement_powers
from prune_gui.pruning.kernels.compiling import COMPILATIONS, NotCompiledError, only_loads
from prune_gui.pruning.kernels.numba_api import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    cpu_target,
    event,
    numba,
)

PRIVATE_MODE: Final = 0o700

log = logging.getLogger(__name__)

cpu_target.target_context.refresh()  # imports what the first call of a loop would import otherwise


class _CompilationListener(event.Listener):
    """Counts the compilations that run."""

    def on_start(self, event: object) -> None:
        COMPILATIONS.add(1)

    def on_end(self, event: object) -> None:
        COMPILATIONS.add(-1)


event.register("numba:compile", _CompilationListener())  # type: ignore[no-untyped-call]
implement_powers()


def dispatcher(function: Callable[..., Any], *, is_cached: bool) -> Any:  # noqa: ANN401
    """Return a function of numba, which compiles `function` for the types of each call."""
    made: Any = numba.njit(nogil=True)(function)
    if is_cached:
        try:
            made._cache = _Cache(function)  # as enable_caching() does
        except RuntimeError:  # numba raises this if no folder can be written
            _log_once("Compiled loops are not kept: no cache folder can be written")
    return made


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
        if result is None and only_loads():
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
