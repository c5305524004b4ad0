"""What remains of each channel: its norm, and how much of it each step pruned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.raster.code_index import CodeIndex
from prune_gui.audit.statistics import values
from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.norms.channels import channel_norms
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import PrunedChannels
from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a parameter along one dimension. The arrays are read-only.

    Attributes:
        codes: what each row of `counts` is about: 0 kept, then steps, then 255, in the file.
        counts: int64 (codes, channels), how many entries.
        remaining_mask: boolean (channels,), False where all weights are zero or pruned: the output
            of such a dead channel does not depend on the input.
    """

    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    remaining_mask: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Entries per channel."""
        return int(self.counts[:, 0].sum())

    @property
    def pruned(self) -> NDArray[np.int64]:
        """How many entries of each channel are pruned."""
        pruned: NDArray[np.int64] = self.counts[1:].sum(0)
        return pruned

    @property
    def share(self) -> NDArray[np.float64]:
        """Which share of each channel is pruned."""
        return self.pruned / self.size

    @property
    def whole(self) -> NDArray[np.uint8]:
        """The step that pruned all entries of the channel by itself; 0 where none did."""
        found = np.zeros(len(self.remaining_mask), np.uint8)
        for code, counts in zip(self.codes[1:], self.counts[1:], strict=True):
            found[counts == self.size] = code
        return found


def norms(
    checkpoint: Checkpoint, name: str, dim: int, n: float, monitor: Monitor
) -> NDArray[np.float64]:
    """Return the n-norm of each channel along `dim`, of the weights as they are in the file.

    A parameter without dimensions is one channel.

    Raises:
        Cancelled: the monitor said so.
    """
    weights = checkpoint.view(name)
    found: NDArray[np.float64] = (
        channel_norms(weights.reshape(weights.shape or (1,)), n, dim, monitor=monitor)
        .double()
        .numpy()
    )
    found.flags.writeable = False
    return found


def ranks(chosen: PrunedChannels) -> tuple[NDArray[np.float64], float]:
    """Return what a step ranked channels by, and the greatest rank that it prunes; 0.0 if none.

    Args:
        chosen: by a step that ranks.
    """
    assert chosen.ranks is not None
    found = chosen.ranks.astype(np.float64)
    found.flags.writeable = False
    return found, float(np.max(found, where=chosen.pruned & np.isfinite(found), initial=0.0))


def channels_up_to(every: Sequence[PrunedChannels], rank: float) -> tuple[int, int, int]:
    """Return how many channels a cut at `rank` would prune, and out of how many.

    Args:
        every: the channels of each parameter that is cut there, as a step ranked them.
        rank: channels of at most this rank would go.

    Returns:
        (channels at or below, channels that have an entry left, all channels).
    """
    below = remaining = total = 0
    for chosen in every:
        assert chosen.ranks is not None
        there = chosen.there > 0
        below += int(np.count_nonzero(there & (chosen.ranks <= rank)))
        remaining += int(np.count_nonzero(there))
        total += len(there)
    return below, remaining, total


def channels(resolution: Resolution, name: str, dim: int, monitor: Monitor) -> Channels:
    """Count the entries of each channel along `dim` by the step that pruned them.

    A parameter without dimensions is one channel.

    Raises:
        Cancelled: the monitor said so.
    """
    shape = resolution.checkpoint.tensors[name].shape or (1,)
    inner = math.prod(shape[dim + 1 :])
    slots = CodeIndex.of(resolution, name)
    read = values.reader(resolution.checkpoint, name)

    def look(
        span: tuple[int, int],
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]:
        start, stop = span
        monitor.advance(stop - start)
        first = start // inner
        touched = min((stop - 1) // inner - first + 1, shape[dim])
        counts = np.zeros((len(slots.codes), touched), np.int64)
        remaining_mask = np.zeros(touched, np.bool_)
        kernels.count_channel_steps(
            resolution.pruned_by_within(name, start, stop),
            read(start, stop),
            slots.lookup,
            inner,
            start % inner,
            counts,
            remaining_mask,
        )
        return (first + np.arange(touched)) % shape[dim], counts, remaining_mask

    size = math.prod(shape)
    monitor.expect(size)
    counts = np.zeros((len(slots.codes), shape[dim]), np.int64)
    remaining_mask = np.zeros(shape[dim], np.bool_)
    for where, more, more_alive in run(look, chunks(size)):
        counts[:, where] += more
        remaining_mask[where] |= more_alive
    counts.flags.writeable = remaining_mask.flags.writeable = False
    return Channels(slots.codes, counts, remaining_mask)
