"""The parts of numba in use. It is imported only here, and reads no file of the working folder."""

from __future__ import annotations

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
    "CompileResultCacheImpl",
    "FunctionCache",
    "InTreeCacheLocator",
    "UserProvidedCacheLocator",
    "UserWideCacheLocator",
    "cpu_target",
    "event",
    "numba",
    "overload",
    "register_jitable",
    "types",
]
