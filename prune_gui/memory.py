"""Whether what has to be held at once fits into memory, before it is asked for."""

from __future__ import annotations

from prune_gui.byte_counts import short_bytes
from prune_gui.language import tr


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
