"""What remains of each channel: its norm, and how much of it each step pruned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels, values
from prune_gui.audit.slots import Slots
from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.norms import channel_norms
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import Chosen
from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a parameter along one dimension. The arrays are read-only.

    Attributes:
        codes: what each row of `counts` is about: 0 kept, then steps, then 255, in the file.
        counts: int64 (codes, channels), how many entries.
        alive: boolean, where an entry other than zero is kept. The others are dead: they put out
            the same whatever comes in.
    """

    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    alive: NDArray[np.bool_]

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
        found = np.zeros(len(self.alive), np.uint8)
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


def ranks(chosen: Chosen) -> tuple[NDArray[np.float64], float]:
    """Return what a step ranked channels by, and the greatest rank that it prunes; 0.0 if none.

    Args:
        chosen: by a step that ranks.
    """
    assert chosen.ranks is not None
    found = chosen.ranks.astype(np.float64)
    found.flags.writeable = False
    return found, float(np.max(found, where=chosen.pruned & np.isfinite(found), initial=0.0))


def channels_up_to(every: Sequence[Chosen], rank: float) -> tuple[int, int, int]:
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
    slots = Slots.of(resolution, name)
    read = values.reader(resolution.checkpoint, name)

    def look(
        stretch: tuple[int, int],
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]:
        start, stop = stretch
        monitor.advance(stop - start)
        first = start // inner
        touched = min((stop - 1) // inner - first + 1, shape[dim])
        counts = np.zeros((len(slots.codes), touched), np.int64)
        alive = np.zeros(touched, np.bool_)
        kernels.count_channel_steps(
            resolution.pruned_by_within(name, start, stop),
            read(start, stop),
            slots.lookup,
            inner,
            start % inner,
            counts,
            alive,
        )
        return (first + np.arange(touched)) % shape[dim], counts, alive

    size = math.prod(shape)
    monitor.expect(size)
    counts = np.zeros((len(slots.codes), shape[dim]), np.int64)
    alive = np.zeros(shape[dim], np.bool_)
    for where, more, more_alive in run(look, chunks(size)):
        counts[:, where] += more
        alive[where] |= more_alive
    counts.flags.writeable = alive.flags.writeable = False
    return Channels(slots.codes, counts, alive)
