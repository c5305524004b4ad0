"""Bars: what they stand for, their heights, and the limits of their axes. No Qt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.statistics.channel_statistics import ChannelStatistics

FLOOR: Final = float(np.log10(0.5))
"""Baseline of bars on a logarithmic axis, so that the bar of a single element has a height."""
INNER_QUANTILE: Final = 0.999
"""Share of the numbers that an axis shows at first: a few outliers would flatten the others."""
MIN_STRETCH: Final = 1.5
"""An axis leaves out outliers only if it is at least this many times as long with them."""
MIN_PEAK: Final = 3
"""A bar goes beyond its axis if it is at least this many times as high as the next one: the zeros
of a pruned parameter would flatten the others.
"""
MIN_NUMBERS: Final = 100
MAX_MAGNITUDE: Final = 1e290
MIN_LENGTH: Final = 1e-290
"""Beyond these limits, the arithmetic of a plot overflows or divides by zero, although float64 does
not."""


@dataclass(frozen=True, slots=True)
class ScoreOf:
    """The scores by which a step ranks channels; the draft has a number, too."""

    step: int


NormOrScore = float | ScoreOf
"""The order of a norm, or the step whose scores take its place."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelData:
    """The channels of a parameter along one dimension, or the units of a group.

    Attributes:
        norms: float64 (channels,), the norms in the file, or the scores of the step.
        parts: float64 (codes, channels), what each step leaves of the norm; see `norms_by_step`. Of
            scores, row 0 has those of the channels that the step keeps, and zeros.
        cut: score up to which the step prunes, 0.0 if it prunes nothing; None for norms.
        shared_cut: score up to which the step prunes other targets, where its maximum sparsity
            stops it earlier in this parameter; else None.
    """

    subject: Subject
    dim: int
    by: NormOrScore
    norms: NDArray[np.float64]
    channels: ChannelStatistics
    parts: NDArray[np.float64]
    cut: float | None = None
    shared_cut: float | None = None

    @property
    def highest(self) -> float:
        """The largest finite norm; 1.0 if none is above zero."""
        highest = float(np.max(self.norms, where=np.isfinite(self.norms), initial=0.0))
        return span(0.0, highest or 1.0)[1]

    @property
    def inner_limit(self) -> float:
        """Upper end of an axis that leaves out a few outliers, but not the cut."""
        inner = inner_limit(self.norms[np.isfinite(self.norms)])
        return span(0.0, max(inner, self.cut or 0.0, self.shared_cut or 0.0) or 1.0)[1]

    def is_about(self, subject: Subject, dim: int) -> bool:
        """Return whether it is about these channels, regardless of what is pruned of them."""
        return self.dim == dim and self.subject.same_parameter(subject)


@dataclass(frozen=True, slots=True)
class ChannelBars:
    """A bar per channel, or per few adjacent channels if there are more channels than pixels.

    Attributes:
        edges: int64 (bars + 1,): bar i covers the positions from ``edges[i]`` to ``edges[i + 1]``.
        tops: (codes + 1, bars): segment i of a bar extends from row i to row i + 1. The first is
            the largest norm of the kept elements of a channel; each step adds the rest up to what
            it found, and the whole bar is as high as its largest finite norm.
        minimum: the smallest finite norm in each bar; equal to the height of a bar of one channel.
        dead, non_finite: whether a channel in the bar is dead, or its norm non-finite.
    """

    edges: NDArray[np.int64]
    tops: NDArray[np.float64]
    minimum: NDArray[np.float64]
    dead: NDArray[np.bool_]
    non_finite: NDArray[np.bool_]

    @property
    def max_channels(self) -> int:
        return int(np.diff(self.edges).max())

    def any_of(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether a channel of each bar is marked, given a bool per position."""
        within = marked[self.edges[0] : self.edges[-1]]
        result: NDArray[np.bool_] = np.logical_or.reduceat(within, self.edges[:-1] - self.edges[0])
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRow:
    """The channels in the order on the screen, and the bars of the visible ones, up to `top`.

    `point_codes`, uint8 (channels,), are the codes of points in place of bars; None for bars.
    """

    measured: ChannelData
    order: NDArray[np.intp]
    bars: ChannelBars
    top: float
    point_codes: NDArray[np.uint8] | None = None

    def position_of(self, channel: int) -> int:
        return int(np.flatnonzero(self.order == channel)[0])

    def positions_of(self, channels: frozenset[int]) -> NDArray[np.bool_]:
        """Return a bool per position along the axis: whether its channel is among some."""
        by_channel = np.zeros(len(self.order), np.bool_)
        by_channel[np.fromiter(channels, np.intp, len(channels))] = True
        selected: NDArray[np.bool_] = by_channel[self.order]
        return selected


def visible_positions(visible: Sequence[float], size: int) -> range:
    """Return the positions of 0 ... size - 1 in a range of an axis; at least the nearest one."""
    low, high = visible
    first = min(max(0, math.floor(low + 0.5)), size - 1)
    return range(first, max(first + 1, min(size, math.ceil(high + 0.5))))


def stacked(counts: NDArray[np.int64], *, log: bool) -> NDArray[np.float64]:
    """Return the ends of the segments of each bar, given their counts, int64 (segments, bars).

    Segment i extends from row i to row i + 1 of the result, or of its decimal logarithm.
    """
    sums = np.zeros((len(counts) + 1, counts.shape[1]))
    np.cumsum(counts, axis=0, out=sums[1:])
    return np.maximum(np.log10(np.maximum(sums, 0.5)), FLOOR) if log else sums


def channel_bars(
    parts: NDArray[np.float64],
    is_dead: NDArray[np.bool_],
    order: NDArray[np.intp],
    positions: range,
    max_bars: int,
) -> ChannelBars:
    """Return the bars of the channels at some positions, at least one.

    See `ChannelData` for `parts`. A non-finite norm has no height.
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

    It has `INNER_QUANTILE` of the elements, with as many outliers left out at either end; it is the
    whole axis if that is not much longer. There are `counts` int64 (bins,) between `positions`
    (bins + 1,), which are symmetric if the range is to be.
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

    That is the second-largest count; or the largest, at least 1, if it is not much larger.
    """
    second, highest = (int(count) for count in np.sort(np.append(counts, [0, 0]))[-2:])
    return second if 0 < second * MIN_PEAK <= highest else max(1, highest)


def count_beyond(
    positions: NDArray[np.float64], counts: NDArray[np.int64], low: float, high: float
) -> tuple[int, int]:
    """Return the number of elements in the bins whose middle is below a range, and above it.

    See `inner_range` for the shapes.
    """
    middles = (positions[:-1] + positions[1:]) / 2
    return int(counts[middles < low].sum()), int(counts[middles > high].sum())
