"""Whether what has to be held at once fits into memory, and what is said if it does not."""

from __future__ import annotations

from prune_gui.byte_counts import short_bytes
from prune_gui.errors import PruneGuiError
from prune_gui.language import tr


class OutOfMemoryError(PruneGuiError):
    """The system gave no memory; everything is as it was before the work began."""

    def __init__(self) -> None:
        super().__init__(
            tr(
                "There is not enough memory; nothing was changed. Close other programs, or choose "
                "fewer parameters at once."
            )
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that there is no memory. torch has no class of its own for that.

    See `c10/core/impl/alloc_cpu.cpp` of PyTorch for the words.
    """
    if isinstance(error, RuntimeError):
        return "can't allocate memory" in str(error)
    return isinstance(error, MemoryError)


def shortage(nbytes: int) -> str | None:
    """Return None if there is room for so many bytes, else both figures, as the end of a sentence.

    A system that runs out of memory ends the program, or stands still; what is not begun does no
    harm. What other programs need a moment later is not known, so that work can run short even so.

    Example:
        >>> shortage(10**15)
        '1 PB of memory at once, and 12.3 GB are free'
    """
    import psutil

    free = psutil.virtual_memory().available
    if nbytes <= free:
        return None
    return tr(
        "{needed} of memory at once, and {free} are free",
        needed=short_bytes(nbytes),
        free=short_bytes(free),
    )
