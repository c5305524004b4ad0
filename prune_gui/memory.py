"""Memory: lack of it, before work begins and from errors; returning it; pausing its collector."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from prune_gui.errors import PruneGuiError
from prune_gui.language import tr
from prune_gui.number_formats import short_bytes

M_MMAP_THRESHOLD: Final = -3  # of glibc's malloc.h
LARGE_BYTES: Final = 1 << 22


class OutOfMemoryError(PruneGuiError):
    """A memory allocation failed; nothing was changed.

    Args:
        error: what reported it, see `is_out_of_memory`.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            tr(
                "The graphics card has not enough memory. Close other programs that use it, or "
                "compute on the processor: with --device cpu, or by the settings."
            )
            if _is_of_a_card(error)
            else tr(
                "There is not enough memory; nothing was changed. Close other programs, or choose "
                "fewer parameters at once."
            )
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports a failed allocation.

    torch raises a plain RuntimeError for the memory of the processor; its text is defined in
    PyTorch's `c10/core/impl/alloc_cpu.cpp`.
    """
    if isinstance(error, RuntimeError):
        return "can't allocate memory" in str(error) or _is_of_a_card(error)
    return isinstance(error, MemoryError)


def _is_of_a_card(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and "out of memory" in str(error)


def shortage(nbytes: int) -> str | None:
    """Return None if `nbytes` bytes of memory are free, else the end of a sentence with both sizes.

    A system that runs out of memory kills the program or stops responding, so the check is made
    before the work begins. Other programs may allocate memory later, so work can still run out.

    Example:
        >>> shortage(10**15)
        '1 PB of memory at once, and 12.3 GB are free'
    """
    import psutil  # slow to import

    free = psutil.virtual_memory().available
    if nbytes <= free:
        return None
    return tr(
        "{needed} of memory, and only {free} are free",
        needed=short_bytes(nbytes),
        free=short_bytes(free),
    )


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector during the block.

    Its runs take as long as the creation of 100,000 objects does.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def address_space_is_limited() -> bool:
    """Return whether the system limits what this process may map."""
    try:
        import resource  # not on Windows
    except ImportError:
        return False
    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def return_freed_memory() -> None:
    """Return freed memory that glibc keeps to the system: pieces of its heap would pile up."""
    _call_c_library("malloc_trim", 0)


def map_large_allocations() -> None:
    """Let glibc map each large piece of memory, and so return its addresses when it is freed.

    The system then clears its pages each time, which takes a tenth of the time of a reconstruction.
    """
    _call_c_library("mallopt", M_MMAP_THRESHOLD, LARGE_BYTES)


def _call_c_library(name: str, *args: int) -> None:
    function = getattr(_c_library(), name, None)
    if function is not None:  # it is of glibc
        function(*args)


@cache
def _c_library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if os.name == "posix" else None
