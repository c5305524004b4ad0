"""The spans in which the keys of a tensor are read."""

from __future__ import annotations

from prune_gui.pruning import parallel
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.pruning.selection.scores import TensorScores

MAX_CHUNKS_PER_SPAN, MIN_SPANS = 4, 8
"""Spans that are read without a copy may have up to `MAX_CHUNKS_PER_SPAN` chunks, as long as there
are at least `MIN_SPANS` spans. Fewer spans are faster: between two spans a thread needs the GIL,
and waits for it while the GUI thread is busy.
"""


def chunk_spans(keys: KeySource) -> list[tuple[int, int]]:
    """Return the (start, stop) of each span; the result depends on the keys alone."""
    zero_copy = (
        isinstance(keys, ScoreKeys)
        and isinstance(keys.scores, TensorScores)
        and keys.scores.dtype == keys.dtype
    )
    chunks = MAX_CHUNKS_PER_SPAN if zero_copy else 1
    limit = chunks * parallel.CHUNK_ELEMENTS
    span_elements = min(max(-(-keys.size // MIN_SPANS), parallel.CHUNK_ELEMENTS), limit)
    return list(parallel.chunks(keys.size, span_elements))
