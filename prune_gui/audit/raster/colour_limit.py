"""The number at which a colour scale ends, so that a few outliers do not fade all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prune_gui.audit.statistics.axis_limits import inner_limit
from prune_gui.audit.statistics.element_values import Measure
from prune_gui.monitor import Monitor

SAMPLED_SPANS: Final = 256
SPAN_ELEMENTS: Final = 1 << 10
"""A larger parameter is sampled in equally distant spans: to read all of it would delay the
picture, and the end of a colour scale need not be exact.
"""


FEW_SPANS: Final = 8
FEW_SPAN_ELEMENTS: Final = 1 << 15
"""Fewer and longer spans, of parameters that are not fetched yet."""


def colour_limit(
    measure: Measure, size: int, monitor: Monitor, *, few_spans: bool = False
) -> float:
    """Return the magnitude at which a colour scale ends: that of about 99.9 % of the numbers."""
    samples = []
    spans = (FEW_SPANS, FEW_SPAN_ELEMENTS) if few_spans else (SAMPLED_SPANS, SPAN_ELEMENTS)
    for start, stop in _spans(size, *spans):
        monitor.advance(0)
        numbers, is_defined = measure(start, stop)
        magnitudes = np.abs(
            (numbers[is_defined] if is_defined.size else numbers).astype(np.float64)
        )
        samples.append(magnitudes[np.isfinite(magnitudes)])
    return inner_limit(np.concatenate(samples)) if samples else 0.0


def _spans(size: int, count: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of flat indices to sample: all, or equally distant ones."""
    if size <= count * length:
        starts = np.arange(0, size, length)
    else:
        starts = np.linspace(0, size - length, count).astype(np.int64)
    for start in starts.tolist():
        yield start, min(start + length, size)
