"""What numba may do, and whether it compiles at this moment. numba itself is not imported.

It must not read `.numba_config.yaml` in the working folder, which can name a folder of compiled
code to run and a file to overwrite. A downloaded folder with such a file beside its checkpoint must
not have these effects. numba reads the file when `numba.core.config` is imported, and again before
each compilation, and has no option against it. Environment variables NUMBA_* keep their meaning.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final

CONFIG_MODULE: Final = "numba.core.config"
CONFIG_FILE: Final = ".numba_config.yaml"


def ignore_config_file() -> None:
    """Prevent numba from reading its configuration file when this process imports it later."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds `numba.core.config` as the import system does, but has `_Loader` load it."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != CONFIG_MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Replaces the file name in the module's code by an empty one, which no file has."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        if code is None or CONFIG_FILE not in code.co_consts:
            raise ImportError(
                f"this version of numba does not name {CONFIG_FILE} where it is expected, so that "
                "it cannot be kept from reading it. Install another version of numba"
            )
        constants = tuple(
            "" if constant == CONFIG_FILE else constant for constant in code.co_consts
        )
        return code.replace(co_consts=constants)


COMPILATIONS: Final[list[object]] = []
"""The compilations that run in this process. Loading compiled loops from the cache is none."""


class NotCompiledError(Exception):
    """The cache has no compiled code of a loop for some types."""


_thread = threading.local()


def only_loads() -> bool:
    """Return whether this thread is in a block of `only_from_cache`."""
    return getattr(_thread, "only_loads", False)


@contextmanager
def only_from_cache() -> Iterator[None]:
    """Load the compiled code of loops that are called in the block, and compile none.

    A call raises `NotCompiledError` if the cache does not have it. Without a cache, loops are
    compiled nevertheless.
    """
    _thread.only_loads = True
    try:
        yield
    finally:
        _thread.only_loads = False
