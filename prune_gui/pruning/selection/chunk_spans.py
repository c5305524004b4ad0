"""The spans in which the keys of a tensor are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prune_gui.pruning import parallel
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.pruning.selection.scores import TensorScores

BLOCK_ELEMENTS: Final = 1 << 18
"""Keys that are computed are read in blocks of this many, which fit in the L2 cache."""
MAX_CHUNKS_PER_SPAN, MIN_SPANS = 4, 8
"""Spans that are read without a copy may have up to `MAX_CHUNKS_PER_SPAN` chunks, as long as there
are at least `MIN_SPANS` spans. Fewer spans are faster: between two spans a thread needs the GIL,
and waits for it while the GUI thread is busy.
"""


def chunk_spans(keys: KeySource) -> list[tuple[int, int]]:
    """Return the (start, stop) of each span; the result depends on the keys alone."""
    chunks = MAX_CHUNKS_PER_SPAN if _are_stored(keys) else 1
    limit = chunks * parallel.CHUNK_ELEMENTS
    span_elements = min(max(-(-keys.size // MIN_SPANS), parallel.CHUNK_ELEMENTS), limit)
    return list(parallel.chunks(keys.size, span_elements))


def blocks(keys: KeySource, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans in which to read the keys in [start, stop) on one thread."""
    step = stop - start if _are_stored(keys) else BLOCK_ELEMENTS
    for first in range(start, stop, max(step, 1)):
        yield first, min(first + step, stop)


def _are_stored(keys: KeySource) -> bool:
    """Return whether keys are read without a copy."""
    return (
        isinstance(keys, ScoreKeys)
        and isinstance(keys.scores, TensorScores)
        and keys.scores.dtype == keys.dtype
    )
