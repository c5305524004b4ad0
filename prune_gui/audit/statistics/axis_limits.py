"""Limits of the numbers along an axis."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

INNER_QUANTILE: Final = 0.999
"""Share of the numbers that an axis shows at first: a few outliers would flatten the others."""
MIN_STRETCH: Final = 1.5
"""An axis leaves out outliers only if it is at least this many times as long with them."""
MIN_PEAK: Final = 3
"""A bar goes beyond its axis if it is at least this many times as high as the next one: the zeros
of a pruned parameter would flatten the others.
"""
MIN_NUMBERS: Final = 100
"""An axis of fewer numbers shows all of them."""
MAX_MAGNITUDE: Final = 1e290
MIN_LENGTH: Final = 1e-290
"""Beyond these limits, the arithmetic of a plot overflows or divides by zero, although float64 does
not."""


def drawable(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers, clipped to the range that can be drawn."""
    return np.clip(numbers, -MAX_MAGNITUDE, MAX_MAGNITUDE)


def span(low: float, high: float, min_length: float = MIN_LENGTH) -> tuple[float, float]:
    """Return the range of an axis, clipped to what can be drawn and at least `min_length` long."""
    low, high = max(low, -MAX_MAGNITUDE), min(high, MAX_MAGNITUDE)
    return low, max(high, low + min_length)


def inner_limit(numbers: NDArray[np.float64]) -> float:
    """Return the upper limit of an axis from zero that shows all numbers but a few outliers."""
    highest = float(np.max(numbers, initial=0.0))
    if len(numbers) < MIN_NUMBERS:
        return highest
    inner = float(np.quantile(numbers, INNER_QUANTILE, method="lower"))
    return inner if 0 < inner * MIN_STRETCH <= highest else highest


def inner_range(
    positions: NDArray[np.float64], counts: NDArray[np.int64], *, symmetric: bool
) -> tuple[float, float]:
    """Return the range of an axis of bins that shows all bins but those of a few outliers.

    Args:
        positions: float64 (bins + 1,), ascending: the ends of the bins along the axis.
        counts: int64 (bins,), number of elements in each bin.
        symmetric: whether the range is symmetric about zero; then the positions are.

    Returns:
        The range of the bins with `INNER_QUANTILE` of the elements, with as many outliers left out
        at either end; the whole axis if that is not much longer.
    """
    low, high = float(positions[0]), float(positions[-1])
    reached = np.cumsum(counts)
    total = int(reached[-1])
    if total < MIN_NUMBERS:
        return low, high
    outliers = total * (1 - INNER_QUANTILE) / 2
    first, last = np.searchsorted(reached, [outliers, total - outliers])
    start, stop = float(positions[first]), float(positions[last + 1])
    if symmetric:
        stop = max(abs(start), abs(stop))
        start = -stop
    return (start, stop) if (stop - start) * MIN_STRETCH <= high - low else (low, high)


def peak_limit(counts: NDArray[np.int64]) -> int:
    """Return the upper limit of an axis of counts that shows all bars but a much higher one.

    Args:
        counts: int64 (bars,).

    Returns:
        The second-largest count; the largest, at least 1, if that is not much larger.
    """
    second, highest = (int(count) for count in np.sort(np.append(counts, [0, 0]))[-2:])
    return second if 0 < second * MIN_PEAK <= highest else max(1, highest)


def count_beyond(
    positions: NDArray[np.float64], counts: NDArray[np.int64], low: float, high: float
) -> tuple[int, int]:
    """Return the number of elements in the bins whose middle is below a range, and above it.

    Args:
        positions: float64 (bins + 1,), ascending: the ends of the bins along the axis.
        counts: int64 (bins,), number of elements in each bin.
        low: lower end of the range.
        high: upper end of the range.
    """
    middles = (positions[:-1] + positions[1:]) / 2
    return int(counts[middles < low].sum()), int(counts[middles > high].sum())
