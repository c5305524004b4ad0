"""Bars of coloured segments: heights from counts and norms. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FLOOR = float(np.log10(0.5))
"""Baseline of bars on a logarithmic axis, so that the bar of a single element has a height."""


def stacked(counts: NDArray[np.int64], *, log: bool) -> NDArray[np.float64]:
    """Return the ends of the segments of each bar.

    Args:
        counts: int64 (segments, bars).
        log: whether heights are decimal logarithms of the sums.

    Returns:
        float64 (segments + 1, bars): segment i extends from row i to row i + 1.
    """
    sums = np.zeros((len(counts) + 1, counts.shape[1]))
    np.cumsum(counts, axis=0, out=sums[1:])
    return np.maximum(np.log10(np.maximum(sums, 0.5)), FLOOR) if log else sums


@dataclass(frozen=True, slots=True)
class ChannelBars:
    """A bar per channel, or per few adjacent channels if there are more channels than pixels.

    Attributes:
        edges: int64 (bars + 1,): bar i covers the channels at the positions from ``edges[i]`` up to
            ``edges[i + 1]``.
        tops: (codes + 1, bars): segment i of a bar extends from row i to row i + 1. The first is
            the largest norm of the kept elements of a channel; each step adds the rest up to what
            it found, and the whole bar is as high as its largest finite norm.
        minimum: the smallest finite norm in each bar; equal to the height of a bar of one channel.
        dead: bool, whether a channel in the bar is dead.
        non_finite: bool, whether a norm in the bar is non-finite.
    """

    edges: NDArray[np.int64]
    tops: NDArray[np.float64]
    minimum: NDArray[np.float64]
    dead: NDArray[np.bool_]
    non_finite: NDArray[np.bool_]

    @property
    def max_channels(self) -> int:
        """Maximum number of channels in one bar."""
        return int(np.diff(self.edges).max())

    def any_of(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a bool per bar: whether one of its channels is marked.

        Args:
            marked: bool, one per position along the axis.
        """
        within = marked[self.edges[0] : self.edges[-1]]
        result: NDArray[np.bool_] = np.logical_or.reduceat(within, self.edges[:-1] - self.edges[0])
        return result


def channel_bars(
    parts: NDArray[np.float64],
    is_dead: NDArray[np.bool_],
    order: NDArray[np.intp],
    positions: range,
    max_bars: int,
) -> ChannelBars:
    """Return the bars of some channels.

    Args:
        parts: (codes, channels), what each step leaves of the norm, ascending; the last row has
            the norms. A non-finite norm has no height.
        is_dead: whether a channel is dead.
        order: the channel at each position along the axis.
        positions: the visible positions; not empty.
        max_bars: maximum number of bars.
    """
    bars = min(max_bars, len(positions))
    starts = np.arange(bars + 1, dtype=np.int64) * len(positions) // bars
    visible = order[positions.start : positions.stop]
    clipped = drawable(parts[:, visible])
    finite = np.isfinite(parts[-1, visible])
    heights = np.maximum.reduceat(np.where(finite, clipped, 0.0), starts[:-1], axis=1)
    minimum = np.minimum.reduceat(np.where(finite, clipped[-1], np.inf), starts[:-1])
    dead, non_finite = (
        np.logical_or.reduceat(marked, starts[:-1]) for marked in (is_dead[visible], ~finite)
    )
    tops = np.concatenate([np.zeros((1, bars)), heights])
    return ChannelBars(
        starts + positions.start, tops, np.minimum(minimum, heights[-1]), dead, non_finite
    )


def in_order(norms: NDArray[np.floating[Any]], *, ascending: bool) -> NDArray[np.intp]:
    """Return the channel at each position along the axis: by index, or by norm with NaN last."""
    return np.argsort(norms, stable=True) if ascending else np.arange(len(norms))


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
