"""In which pieces all keys of a tensor are looked at."""

from __future__ import annotations

from prune_gui.pruning import parallel
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.pruning.selection.scores import TensorScores

LONGER, PIECES = 4, 8
"""Times as long as others may stretches be that are read without a copy, but so many there are to
be. Between two of them a thread needs Python's lock, for which it waits while the window is busy.
"""


def chunk_spans(keys: KeySource) -> list[tuple[int, int]]:
    """Return the (start, stop) of each piece of work; the same each time."""
    as_they_are = (
        isinstance(keys, ScoreKeys)
        and isinstance(keys.scores, TensorScores)
        and keys.scores.dtype == keys.dtype
    )
    longest = LONGER * parallel.CHUNK_ELEMENTS if as_they_are else parallel.CHUNK_ELEMENTS
    most = min(max(-(-keys.size // PIECES), parallel.CHUNK_ELEMENTS), longest)
    return list(parallel.chunks(keys.size, most))
