"""Statistics of each channel: its norm, and the number of elements that each step pruned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.arrays import Flags, Ints, Numbers
from prune_gui.pruning.methods.base import UnitCounts
from prune_gui.pruning.norms.unit_norms import channel_norms, score_norms
from prune_gui.pruning.predicates import PrunedUnits
from prune_gui.pruning.selection.scores import Scores, TensorScores
from prune_gui.recipe import Resolution
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.statistics import kernels, weight_values
from prune_gui.statistics.dispatch import map_chunks
from prune_gui.statistics.kernels import CodeIndex


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """The channels of a parameter along one dimension. The arrays are read-only.

    Attributes:
        codes: of each row of `counts`, int64 (codes, channels), which has numbers of elements.
        dead: whether all weights are zero or pruned: then the output is independent of the input.
    """

    codes: tuple[int, ...]
    counts: Ints
    dead: Flags

    @property
    def size(self) -> int:
        """The number of elements per channel."""
        return int(self.counts[:, 0].sum())

    @property
    def pruned(self) -> Ints:
        pruned: Ints = self.counts[1:].sum(0)
        return pruned


def norms(checkpoint: Checkpoint, name: str, dim: int, n: float, monitor: Monitor) -> Numbers:
    """Return the n-norm of each channel along `dim`, of the weights in the file.

    A 0-d parameter is one channel.
    """
    info = checkpoint.tensors[name]
    if info.scale is not None:
        found = score_norms(weight_reader(checkpoint, info), None, n, dim, monitor=monitor)
    else:
        weights = checkpoint.view(name)
        found = channel_norms(weights.reshape(info.shape or (1,)), n, dim, monitor=monitor)
    result: Numbers = found.double().numpy()
    result.flags.writeable = False
    return result


def norms_by_step(
    resolution: Resolution, name: str, dim: int, n: float, whole: Numbers, monitor: Monitor
) -> Numbers:
    """Return float64 (codes, channels), how much of the norm of each channel each step leaves.

    Row i is the norm of the elements of the first i + 1 codes of `channels`: row 0 is that of the
    kept elements, and the last is `whole`.
    """
    codes = CodeIndex.of(resolution.layers.get(name, ())).codes
    checkpoint, info = resolution.checkpoint, resolution.checkpoint.tensors[name]
    scores: Scores = weight_reader(checkpoint, info)
    if info.scale is None:
        weights = checkpoint.view(name)
        scores = TensorScores.of(weights.reshape(info.shape or (1,)).contiguous())
    rows = []
    for last in codes[:-1]:

        def mask(start: int, stop: int, last: int = last) -> Flags:
            return resolution.pruned_by_within(name, start, stop) <= last  # codes ascend

        left = score_norms(scores, mask, n, dim, monitor=monitor).double().numpy()
        rows.append(np.fmin(left, whole))  # sums of float32 are rounded
    return np.stack([*rows, whole])


def ranks(chosen: PrunedUnits) -> tuple[Numbers, float]:
    """Return the ranks of the channels, and the maximum rank that is pruned; 0.0 if none is."""
    assert chosen.ranks is not None
    values = chosen.ranks.astype(np.float64)
    values.flags.writeable = False
    return values, float(np.max(values, where=chosen.pruned & np.isfinite(values), initial=0.0))


def shared_rank(chosen: PrunedUnits, every: Iterable[PrunedUnits]) -> float | None:
    """Return the maximum rank that a step prunes in any target, if it prunes less in another."""
    shared = max(ranks(one)[1] for one in every)
    assert chosen.ranks is not None
    is_kept = ~chosen.pruned & (chosen.remaining > 0)
    return shared if bool((is_kept & (chosen.ranks < shared)).any()) else None


def channels_up_to(every: Sequence[PrunedUnits], rank: float) -> UnitCounts:
    """Return how many of the ranked channels of all parameters have at most this rank."""
    below = remaining = total = 0
    for chosen in every:
        assert chosen.ranks is not None
        has_remaining = chosen.remaining > 0
        below += int(np.count_nonzero(has_remaining & (chosen.ranks <= rank)))
        remaining += int(np.count_nonzero(has_remaining))
        total += len(has_remaining)
    return UnitCounts(below, remaining, total)


def channels(resolution: Resolution, name: str, dim: int, monitor: Monitor) -> ChannelStatistics:
    """Count the elements of each channel along `dim` by the step that pruned them.

    A 0-d parameter is one channel.
    """
    shape = resolution.checkpoint.tensors[name].shape or (1,)
    inner = math.prod(shape[dim + 1 :])
    codes, slots = CodeIndex.of(resolution.layers.get(name, ()))
    read = weight_values.reader(resolution.checkpoint, name)

    def count(start: int, stop: int) -> tuple[NDArray[np.intp], Ints, Flags]:
        first, offset = divmod(start, inner)
        touched = min((stop - 1) // inner - first + 1, shape[dim])
        counts, has_weights = np.zeros((len(codes), touched), np.int64), np.zeros(touched, np.bool_)
        pruned_by, weights = resolution.pruned_by_within(name, start, stop), read(start, stop)
        kernels.count_channel_steps(pruned_by, weights, slots, inner, offset, counts, has_weights)
        return (first + np.arange(touched)) % shape[dim], counts, has_weights

    counts = np.zeros((len(codes), shape[dim]), np.int64)
    dead = np.ones(shape[dim], np.bool_)
    for where, more, has_weights in map_chunks(count, math.prod(shape), monitor):
        counts[:, where] += more
        dead[where] &= ~has_weights
    counts.flags.writeable = dead.flags.writeable = False
    return ChannelStatistics(codes, counts, dead)
