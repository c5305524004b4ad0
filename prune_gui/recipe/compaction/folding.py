"""Units that emit a constant: their removal, and the constants that the next layers take over.

A unit emits a constant if its weights are pruned, and a bias or a norm of it is not. It can be
removed if all layers that read it add the constant themselves: W[:, units] @ constants is added to
the bias of a layer, or subtracted from the running mean of the batch norm that follows a layer
without a bias. What is added is computed in float64, and the sum is rounded once. Masks stay as
they are: the finalized form keeps such units, and computes the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from prune_gui.architecture.unit_values import (
    Activation,
    BatchNorm,
    Bias,
    Pair,
    Reading,
    Value,
    parts_of,
)
from prune_gui.checkpoint import TensorInfo
from prune_gui.language import deferred, listed, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.recipe.compaction.network import (
    Architecture,
    GroupUnits,
    PrunedChannels,
    Units,
    pruned_units,
)
from prune_gui.recipe.form_tensors import Kept, sliced, sliced_shape
from prune_gui.recipe.resolution import Resolution

DTYPES: Final = frozenset({"float64", "float32", "float16", "bfloat16"})
UNKNOWN: Final = deferred("the activation function is not known")
SHARED: Final = deferred("a tensor is shared with other layers")
BATCH_NORM_EPSILON: Final = 1e-5
"""The default of `torch.nn.BatchNorm2d`, which torchvision's networks use."""
_gelu_tanh = partial(functional.gelu, approximate="tanh")
ACTIVATIONS: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "gelu": functional.gelu,
    "gelu_python": functional.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "leaky_relu": functional.leaky_relu,
    "linear": lambda x: x,
    "mish": functional.mish,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "swish": functional.silu,
    "tanh": torch.tanh,
}
"""Activation functions by the names that transformers gives them."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A tensor that takes over the constants of some units, and how many of its elements change."""

    name: str
    units: int
    changed: int


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Units that emit a constant and stay, for a reason in a few words."""

    reason: str
    units: int
    example: str


@dataclass(slots=True)
class Folding:
    """What folding changes; `tensors` have slices that are removed but not pruned."""

    shifts: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)
    folded: tuple[Folded, ...] = ()
    unfolded: tuple[Unfolded, ...] = ()


class _KeptError(Exception):
    """Units that must stay; the message is the reason."""


def fold_constants(
    resolution: Resolution,
    architecture: Architecture,
    groups: Sequence[GroupUnits],
    monitor: Monitor,
) -> Folding:
    """Mark units with constants as removed where possible, of targets of `DeadUnits` that folds."""
    targeted = [
        outcome.pruned.keys()
        for step, outcome in zip(resolution.recipe.steps, resolution.outcomes, strict=True)
        if isinstance(step.method, DeadUnits) and step.method.fold_constants and step.enabled
    ]
    folder = _Folder(resolution, architecture, groups)
    pruned = PrunedChannels(resolution, monitor)
    for group, units in groups:
        names = {member.name for member in group.members}
        if group.is_sliced and any(names <= targets for targets in targeted):
            producers = [member for member in group.members if member.role == "produces"]
            monitor.advance(0)  # can cancel
            folder.fold(group, units, pruned_units(group.size, producers, pruned) & ~units)
    return folder.result()


def unfolded_notes(unfolded: Sequence[Unfolded]) -> list[str]:
    """Return a sentence for each reason why units that emit a constant stay."""
    return [
        trn(
            "{count:,} unit without weights emits a constant and stays, because {reason} "
            "({example}).",
            "{count:,} units without weights emit a constant and stay, because {reason} "
            "(for example {example}).",
            one.units,
            reason=one.reason,
            example=one.example,
        )
        for one in unfolded
    ]


class _Reader(NamedTuple):
    member: Member
    value: Value
    target: str
    sign: int


class _Folder:
    def __init__(
        self, resolution: Resolution, architecture: Architecture, groups: Sequence[GroupUnits]
    ) -> None:
        self._resolution = resolution
        self._architecture = architecture
        slices = (
            {(group.space, member.name, member.dim) for member in group.members}
            for group, _ in groups
        )
        self._claims = Counter(one for of_group in slices for one in of_group)
        self._folding = Folding()
        self._units: Counter[str] = Counter()
        self._unfolded: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def fold(self, group: CoupledGroup, removed: Units, units: Units) -> None:
        """Fold the constants of some units of a group, and mark them as removed."""
        rule = self._architecture.spaces[group.space]
        minimum = max(1, self._architecture.counts.get(rule.minimum, 1))
        numbers = np.flatnonzero(units)
        if not numbers.size:
            return
        try:
            readers = list(self._readers(group))
            excess = max(0, min(len(numbers), minimum - int((~removed & ~units).sum())))
            self._keep(group, numbers[:excess], tr("the layer would keep too few units"))
            numbers = numbers[excess:]
            shifts = self._shifts(group, readers, numbers) if numbers.size else {}
        except _KeptError as reason:
            self._keep(group, numbers, str(reason))
            return
        changed = {target: shift for target, shift in shifts.items() if shift.any()}
        self._folding.shifts.update(changed)
        self._units.update(dict.fromkeys(changed, len(numbers)))
        self._folding.tensors |= {member.name for member in group.members}
        removed[numbers] = True

    def result(self) -> Folding:
        """Return what changes, after the last group."""
        self._folding.folded = tuple(
            Folded(name, self._units[name], int(np.count_nonzero(shift)))
            for name, shift in self._folding.shifts.items()
        )
        self._folding.unfolded = tuple(
            Unfolded(reason, len(units), tr("{layer}, unit {unit}", layer=layer, unit=unit))
            for reason, units in self._unfolded.items()
            for layer, unit in units[:1]
        )
        return self._folding

    def _keep(self, group: CoupledGroup, numbers: NDArray[np.intp], reason: str) -> None:
        if numbers.size:
            self._unfolded[reason] += [(group.label, int(number)) for number in numbers]

    def _readers(self, group: CoupledGroup) -> Iterator[_Reader]:
        consumers = [member for member in group.members if member.role == "consumes"]
        if not consumers:
            raise _KeptError(tr(UNKNOWN))
        for member in group.members:
            if self._claims[group.space, member.name, member.dim] > 1:
                raise _KeptError(tr(SHARED))
            self._check(member.name)
        for member in consumers:
            reading = self._architecture.readings.get(member.name)
            if reading is None or reading.value is None:
                raise _KeptError(tr(UNKNOWN))
            yield self._reader(group, member, reading, reading.value)

    def _reader(
        self, group: CoupledGroup, member: Member, reading: Reading, value: Value
    ) -> _Reader:
        functions = {one.function for one in parts_of(value) if isinstance(one, Activation)}
        if unknown := functions - ACTIVATIONS.keys():
            raise _KeptError(
                tr(
                    "the activation function {names} is not supported",
                    names=listed(sorted(unknown)),
                )
            )
        vectors = Counter(
            one.name for one in group.members if (one.dim, one.width, one.starts) == (0, 1, ())
        )
        if any(vectors[name] != 1 for name in tensors_of(value)):
            raise _KeptError(tr(UNKNOWN))
        if reading.padded:
            raise _KeptError(tr("a convolution that reads them may pad its input with zeros"))
        target = reading.bias or reading.mean
        if target is None:
            raise _KeptError(tr("a layer that reads them has neither a bias nor a batch norm"))
        self._check(target)
        if target in self._resolution.protected:
            raise _KeptError(tr("the bias to change is protected"))
        return _Reader(member, value, target, 1 if reading.bias else -1)

    def _check(self, name: str) -> None:
        info = self._info(name)
        if info.aliases:
            raise _KeptError(tr(SHARED))
        if info.not_prunable or info.dtype not in DTYPES:
            raise _KeptError(tr("a tensor is not a plain one of 16, 32 or 64 bits"))

    def _shifts(
        self, group: CoupledGroup, readers: Sequence[_Reader], numbers: NDArray[np.intp]
    ) -> dict[str, NDArray[np.float64]]:
        offsets = {
            one.name: one.offset
            for one in group.members
            if (one.dim, one.width, one.starts) == (0, 1, ())
        }

        @cache
        def vector(name: str) -> torch.Tensor:
            return self._read(name, {0: offsets[name] + numbers})

        shifts: dict[str, NDArray[np.float64]] = {}
        for member, value, target, sign in readers:
            emitted = constants(value, vector, len(numbers))
            added = sign * self._consumed(member, numbers, emitted).numpy()
            if added.shape != self._info(target).shape:
                raise _KeptError(tr(UNKNOWN))
            before = shifts.get(target, self._folding.shifts.get(target))
            shifts[target] = added if before is None else before + added
        for target, shift in shifts.items():
            old, dtype = self._read(target, {}), getattr(torch, self._info(target).dtype)
            new = (old + torch.from_numpy(shift)).to(dtype)
            if not new.isfinite().all():
                raise _KeptError(tr("the result would not be finite"))
            shift[(new == old).numpy()] = 0  # no change that the dtype can hold
        return shifts

    def _consumed(
        self, member: Member, numbers: NDArray[np.intp], emitted: torch.Tensor
    ) -> torch.Tensor:
        """Return the constants that a layer adds up, float64 (outputs,)."""
        assert member.dim is not None
        channels = member.channels(int(numbers.max()) + 1)[numbers].reshape(-1)
        columns = self._read(member.name, {member.dim: channels}).movedim(member.dim, 0)
        return emitted.repeat_interleave(member.width) @ columns.reshape(len(channels), -1)

    def _info(self, name: str) -> TensorInfo:
        return self._resolution.checkpoint.tensors[name]

    def _read(self, name: str, kept: Kept) -> torch.Tensor:
        info = self._info(name)
        flat = self._resolution.values(name).reshape(-1)
        shape = sliced_shape(info.shape, kept)
        steps = self._resolution.layers.get(name, ())
        spans = chunks(math.prod(shape))
        parts = [one.double() for one in sliced(flat, info.shape, kept, steps, spans)]
        self._resolution.checkpoint.check()
        return torch.cat(parts).reshape(shape) if parts else torch.empty(shape).double()


def constants(value: Value, vector: Callable[[str], torch.Tensor], count: int) -> torch.Tensor:
    """Return what units emit, float64 (count,).

    A batch norm in evaluation mode computes (x - mean) / sqrt(variance + epsilon) * weight + bias
    (Ioffe and Szegedy 2015).
    """
    inner = partial(constants, vector=vector, count=count)
    match value:
        case Bias(name):
            return torch.zeros(count, dtype=torch.float64) if name is None else vector(name)
        case BatchNorm(before, weight, bias, mean, variance):
            centred = inner(before) - vector(mean)
            result = centred / (vector(variance) + BATCH_NORM_EPSILON).sqrt()
            result = result if weight is None else result * vector(weight)
            return result if bias is None else result + vector(bias)
        case Activation(before, function):
            return ACTIVATIONS[function](inner(before))
        case Pair(operation, first, second):
            join = torch.add if operation == "sum" else torch.mul
            return join(inner(first), inner(second))


def tensors_of(value: Value) -> set[str]:
    """Return the names of the tensors in an expression."""
    names: set[str | None] = set()
    for part in parts_of(value):
        match part:
            case Bias(name):
                names.add(name)
            case BatchNorm(_, weight, bias, mean, variance):
                names |= {weight, bias, mean, variance}
    return {name for name in names if name is not None}
