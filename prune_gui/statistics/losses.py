"""What a parameter loses from one state to another: energy, and elements that become zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run
from prune_gui.pruning.arrays import Ints, Numbers, Values
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.statistics import kernels, weight_values
from prune_gui.statistics.kept_slices import StoredTensor, find_kept, whole_reader
from prune_gui.statistics.weight_values import Reader

LOSSES: Final = np.dtype(
    [
        ("known", np.bool_),
        ("energy", np.float64),
        ("lost", np.float64),
        ("change", np.float64),
        ("left", np.int64),
        ("right", np.int64),
        ("both", np.int64),
    ]
)
"""Of a parameter in two states, whose pruned elements are zeros.

`energy` is the sum of the squares of the finite weights on the left, and `lost` of those that are
zero on the right; `change` is the sum of the squares of the finite differences. `left`, `right` and
`both` are numbers of zeros.
"""


def energy_share(part: Numbers, energy: Numbers) -> Numbers:
    """Return a part of the energy as a share of all; NaN where all is zero, infinite or unknown."""
    share = np.full(np.shape(energy), np.nan)
    np.divide(part, energy, out=share, where=np.isfinite(energy) & (energy > 0))
    return share


@dataclass(frozen=True, slots=True)
class WeightState:
    """The values of a parameter, and the steps that prune elements which are not zero.

    `stored` are its values in the file, which say what a compact file keeps of another one.
    """

    stored: StoredTensor
    read: Reader
    applied: Sequence[stack.AppliedStep] = ()

    @classmethod
    def of(cls, resolution: Resolution, name: str) -> WeightState:
        applied = resolution.layers.get(name, ())
        if resolution.checkpoint.tensors[name].pair is None:  # all that is pruned in it is zero
            applied = tuple(one for one in applied if one.step != IN_FILE)
        state = cls.in_file(resolution.checkpoint, name, applied)
        return replace(state, read=weight_values.shown(resolution, name))

    @classmethod
    def in_file(
        cls, checkpoint: Checkpoint, name: str, applied: Sequence[stack.AppliedStep] = ()
    ) -> WeightState:
        read = weight_values.reader(checkpoint, name)
        return cls(StoredTensor(checkpoint.tensors[name].shape, read), read, applied)

    def remaining(self, start: int, stop: int) -> Values:
        values = self.read(start, stop)
        if not self.applied:
            return values
        remaining: Values = np.where(stack.kept(self.applied, start, stop), values, 0)
        return remaining


def loss(
    left: WeightState, right: WeightState, info: TensorInfo, monitor: Monitor
) -> NDArray[np.void] | None:
    """Return the `LOSSES` of a parameter, whose larger shape is that of `info`.

    A parameter that is smaller in one state counts as zero there where it lacks slices. None is for
    one whose values are not slices of the other.
    """
    if left.stored.shape != right.stored.shape:
        whole, part = (left, right) if left.stored.shape == info.shape else (right, left)
        kept = find_kept(whole.stored, part.stored)
        if kept is None:
            return None
        filled = WeightState(whole.stored, whole_reader(info.shape, kept, part.remaining))
        left, right = (whole, filled) if whole is left else (filled, whole)

    def add_up(span: tuple[int, int]) -> tuple[Numbers, Ints]:
        monitor.advance((span[1] - span[0]) * info.nbytes // info.numel)
        before, after = left.remaining(*span), right.remaining(*span)
        if before.dtype != after.dtype:
            before, after = before.astype(np.float64), after.astype(np.float64)
        sums, zeros = np.zeros(3), np.zeros(3, np.int64)
        kernels.add_losses(before, after, sums, zeros)
        return sums, zeros

    sums, zeros = np.zeros(3), np.zeros(3, np.int64)
    for more, more_zeros in run(add_up, chunks(info.numel)):
        sums += more
        zeros += more_zeros
    return np.array((True, *sums, *zeros), LOSSES)
