"""Bars of coloured segments: heights from counts and norms. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.statistics.axis_limits import drawable

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
