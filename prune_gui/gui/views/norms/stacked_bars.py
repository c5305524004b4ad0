"""Bars made of coloured parts: from counts and norms to where each part begins and ends. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.axis_limits import drawable

if TYPE_CHECKING:
    from prune_gui.audit.statistics.norms import Channels

FLOOR = float(np.log10(0.5))
"""Where bars stand on a logarithmic axis, so that a single entry still has a height."""


def stacked(counts: NDArray[np.int64], *, log: bool) -> NDArray[np.float64]:
    """Return where the parts of each bar begin and end, one above the other.

    Args:
        counts: (parts, bars).
        log: whether heights are decimal logarithms of the sums.

    Returns:
        (parts + 1, bars): part i reaches from row i to row i + 1.
    """
    sums = np.zeros((len(counts) + 1, counts.shape[1]))
    np.cumsum(counts, axis=0, out=sums[1:])
    return np.maximum(np.log10(np.maximum(sums, 0.5)), FLOOR) if log else sums


@dataclass(frozen=True, slots=True)
class ChannelBars:
    """A bar per channel, or per few neighbours where there are more of them than pixels.

    Attributes:
        edges: (bars + 1), in places along the axis: a bar covers the channels at the places from
            ``edges[i]`` up to ``edges[i + 1]``.
        tops: (codes + 1, bars): part i of a bar reaches from row i to row i + 1; the whole bar is
            as high as the largest finite norm in it.
        least: the least finite norm in each bar; equal to its height if it is of one channel.
        dead: boolean, whether a channel in it is dead.
        odd: boolean, whether a norm in it is NaN or infinite.
    """

    edges: NDArray[np.int64]
    tops: NDArray[np.float64]
    least: NDArray[np.float64]
    dead: NDArray[np.bool_]
    odd: NDArray[np.bool_]

    @property
    def most(self) -> int:
        """How many channels share a bar, at most."""
        return int(np.diff(self.edges).max())

    def any_of(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell of each bar whether one of its channels is marked.

        Args:
            marked: one per place along the axis.
        """
        within = marked[self.edges[0] : self.edges[-1]]
        found: NDArray[np.bool_] = np.logical_or.reduceat(within, self.edges[:-1] - self.edges[0])
        return found


def channel_bars(
    norms: NDArray[np.float64],
    channels: Channels,
    order: NDArray[np.intp],
    places: range,
    most: int,
) -> ChannelBars:
    """Return the bars of some channels.

    Args:
        norms: of each channel; one that is not finite has no height.
        channels: what is pruned of each.
        order: the channel at each place along the axis.
        places: that are in sight; not empty.
        most: how many bars, at most.
    """
    bars = min(most, len(places))
    starts = np.arange(bars + 1, dtype=np.int64) * len(places) // bars
    shown = order[places.start : places.stop]
    finite, drawn = np.isfinite(norms[shown]), drawable(norms[shown])
    heights = np.maximum.reduceat(np.where(finite, drawn, 0.0), starts[:-1])
    least = np.minimum.reduceat(np.where(finite, drawn, np.inf), starts[:-1])
    counts = np.add.reduceat(channels.counts[:, shown], starts[:-1], axis=1)
    parts = stacked(counts, log=False)
    dead, odd = (
        np.logical_or.reduceat(marked, starts[:-1])
        for marked in (~channels.remaining_mask[shown], ~finite)
    )
    tops = heights * (parts / parts[-1])
    return ChannelBars(starts + places.start, tops, np.minimum(least, heights), dead, odd)


def in_order(norms: NDArray[np.floating[Any]], *, ascending: bool) -> NDArray[np.intp]:
    """Return the channel at each place along the axis: by index, or by norm with NaN last."""
    return np.argsort(norms, stable=True) if ascending else np.arange(len(norms))
