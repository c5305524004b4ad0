"""Compilation of loops by numba, which only this module imports, and the cache of compiled loops.

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

import numpy as np
from platformdirs import user_cache_path

from prune_gui.pruning.kernels import powers
from prune_gui.pruning.kernels.numba_control import (
    COMPILATIONS,
    NotCompiledError,
    ignore_config_file,
    only_loads,
)

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

PRIVATE_MODE: Final = 0o700
INVERSE_ROOT_BITS: Final = np.uint32(0x5F378100)
"""Minus the halved bits of a float32 x, these are the bits of 1 / sqrt(x) within 3.5 %."""
INVERSE_ROOT_COEFFICIENTS: Final = tuple(
    np.float32(c) for c in (2.46107077, -3.28033218, 2.9495743, -1.40243684, 0.27212395)
)
"""Of the minimax polynomial of 1 / sqrt(t), lowest power first.

Its error is at most 2.4e-8 for t in [0.9336, 1.0711].
"""

log = logging.getLogger(__name__)

cpu_target.target_context.refresh()  # imports what the first call of a loop would import otherwise


class _CompilationListener(event.Listener):
    def on_start(self, event: object) -> None:
        COMPILATIONS.append(event)

    def on_end(self, event: object) -> None:
        COMPILATIONS.pop()


event.register("numba:compile", _CompilationListener())  # type: ignore[no-untyped-call]


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


def _implement_powers() -> None:
    _implement(powers.value, _value)
    _implement(powers.root_by_products, _root_by_products, fastmath={"contract"})
    for function in (powers.one, powers.root, powers.square, powers.cube, powers.power_of_kind):
        register_jitable(function)


def _implement(
    function: Callable[..., Any], choose: Callable[..., Any], **options: set[str]
) -> None:
    untyped_overload: Any = overload
    untyped_overload(function, strict=False, jit_options=options)(choose)


def _value(element: types.Type) -> Callable[..., Any]:
    if isinstance(element, types.Float):
        return lambda element: abs(element)
    return lambda element: abs(np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32))


def _root_by_products(element: types.Type) -> Callable[..., Any]:
    """Return an implementation of the root.

    A constant minus the halved bits of x gives the bits of y, within 4 % of 1 / sqrt(x). With
    t = x y y, near 1, the root is x y / sqrt(t), and a polynomial gives 1 / sqrt(t).
    `kernels.norm_loops.MIN_ROOT_MEAN` covers subnormal elements.
    """
    if isinstance(element, types.Float):
        return lambda element: np.sqrt(abs(element))
    c0, c1, c2, c3, c4 = INVERSE_ROOT_COEFFICIENTS

    def by_products(element: Any) -> Any:  # noqa: ANN401 - only the compiler knows the type
        x = powers.value(element)
        halved = np.float32(x).view(np.uint32) >> np.uint32(1)
        y = np.uint32(INVERSE_ROOT_BITS - np.uint32(halved)).view(np.float32)
        xy = x * y
        t = xy * y
        return xy * (c0 + t * (c1 + t * (c2 + t * (c3 + t * c4))))

    return by_products


_implement_powers()
