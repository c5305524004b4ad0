"""Channels that belong together, found by following them through a network.

The caller names the layers in the order in which they run. Every layer reads the channels of one
set and makes a new set; an addition of two sets, channel by channel, makes them one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from prune_gui.architecture.unit_values import BatchNorm, Bias, Pair, Reading, Value, activated
from prune_gui.pruning.layouts import CoupledGroup, Member, MemberRole

SPACE: Final = "channels"
COUNTER: Final = "num_batches_tracked"  # a buffer of batch norms that has no channels
STATISTICS: Final = ("running_mean", "running_var")


class MisfitError(Exception):
    """The shapes contradict the network that the caller describes."""


@dataclass(slots=True)
class _Channels:
    """A set of channels.

    Attributes:
        members: the slices of tensors, each with the number of channels that it has.
        places: channels go together if the remainders of their numbers divided by it are equal.
        output: what the last layer emits for channels of which no weights remain, before the
            activation function; None if that is not known.
        reader: the name of the weight of the layer that made the channels, if nothing follows yet.
    """

    size: int
    spatial_dims: int
    places: int
    members: dict[Member, int] = field(default_factory=dict)
    fixed: bool = False
    output: Value | None = None
    value: Value | None = None
    reader: str = ""

    def slices(self) -> Iterator[Member]:
        """Yield the slices, each with one channel of each unit."""
        for member, count in self.members.items():
            for start in range(0, count, self.places):
                yield replace(member, offset=start * member.width)

    def emit(self, output: Value | None, reader: str = "") -> None:
        """Set what is emitted before an activation function that is not known yet."""
        self.output, self.value, self.reader = output, None, reader


def fits(size: int, spatial_dims: int, shape: tuple[int, ...]) -> bool:
    """Return whether a layer with a weight (out, in, *kernel) can read, or flatten, channels."""
    outputs, inputs, *kernel = shape
    if not kernel:
        return inputs % size == 0 if spatial_dims else inputs == size
    groups = size // inputs
    return len(kernel) == spatial_dims and size == groups * inputs and outputs % groups == 0


def is_grouped(size: int, shape: tuple[int, ...]) -> bool:
    """Return whether a layer that fits is a grouped convolution, but not a depthwise one."""
    return len(shape) > 2 and shape[1] != size and not _is_depthwise(size, shape)


def _is_depthwise(size: int, shape: tuple[int, ...]) -> bool:
    return len(shape) > 2 and shape[:2] == (size, 1) and size > 1


class ChannelFlow:
    """The sets of channels of a network, each known by a handle.

    Every tensor is used at most once; `groups` wants all to have been used.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], prefix: str = "") -> None:
        self._shapes = {name: shape for name, shape in shapes.items() if not is_counter(name)}
        self._prefix = prefix
        self._sets: list[_Channels] = []
        self._merged_into: list[int] = []
        self.readings: dict[str, Reading] = {}
        """How the layers read their channels, by the name of their weight."""

    def step(self, module: str, inputs: int | None = None) -> int:
        """Let a layer or a batch norm take some channels; see `layer` and `norm`."""
        if inputs is not None and self._has(module, STATISTICS[0]):
            return self.norm(module, inputs)
        return self.layer(module, inputs)

    def layer(self, module: str, inputs: int | None = None) -> int:
        """Let a linear layer or convolution read some channels, and return those that it makes.

        A depthwise convolution keeps the channels of its input. Those at the same place of each
        group of another grouped convolution go together, so that all groups keep equally many.
        """
        shape = self._take(module, "weight")
        if len(shape) < 2 or 0 in shape:
            raise MisfitError(module)
        if inputs is None:
            inputs = self._add_set(_Channels(shape[1], len(shape) - 2, shape[1], fixed=True))
        source = self._set(inputs)
        if not fits(source.size, source.spatial_dims, shape):
            raise MisfitError(module)
        if _is_depthwise(source.size, shape):
            outputs = inputs
        else:
            groups = source.size // shape[1] if is_grouped(source.size, shape) else 1
            places = shape[0] // groups
            fixed = groups > 1 and 1 in (shape[1], places)
            outputs = self._add_set(_Channels(shape[0], len(shape) - 2, places, fixed=fixed))
            source.fixed |= fixed
            source.places = math.gcd(source.places, shape[1])
            width = max(1, shape[1] // source.size)
            read = self._member(module, "weight", "consumes", dim=1, width=width)
            source.members[read] = shape[1] // width
        target, weight = self._set(outputs), self._name(module, "weight")
        target.members[self._member(module, "weight", "produces")] = shape[0]
        bias = None
        if self._has(module, "bias"):
            bias = self._name(module, "bias")
            self._take_vector(module, "bias", shape[0])
            target.members[self._member(module, "bias", "bias")] = shape[0]
        if target is not source:
            is_padded = any(size > 1 for size in shape[2:])
            self.readings[weight] = Reading(source.value, bias, padded=is_padded)
        target.emit(Bias(bias), weight)
        return outputs

    def norm(self, module: str, channels: int) -> int:
        """Let a batch norm scale and shift some channels, and return them."""
        target, names = self._set(channels), dict.fromkeys(("weight", "bias"), "")
        for leaf in ("weight", "bias", *STATISTICS):
            if leaf in STATISTICS or self._has(module, leaf):
                self._take_vector(module, leaf, target.size)
                target.members[self._member(module, leaf, "norm")] = target.size
                names[leaf] = self._name(module, leaf)
        mean, variance = (names[leaf] for leaf in STATISTICS)
        if target.reader in self.readings:
            self.readings[target.reader] = replace(self.readings[target.reader], mean=mean)
        before = target.output
        scale, shift = names["weight"] or None, names["bias"] or None
        target.emit(before and BatchNorm(before, scale, shift, mean, variance))
        return channels

    def activate(self, channels: int, function: str | None) -> None:
        """Let an activation function follow the last layer or batch norm of some channels."""
        target = self._set(channels)
        target.value, target.reader = activated(target.output, function), ""

    def add(self, first: int, second: int, operation: Literal["sum", "product"] = "sum") -> int:
        """Make two sets one, as their channels are added or multiplied, and return it."""
        older, newer = sorted((self._root(first), self._root(second)))
        kept, gone = self._sets[older], self._sets[newer]
        if older == newer:  # what the other summand was is no longer known
            kept.emit(None)
            return older
        both = kept.value and gone.value and Pair(operation, kept.value, gone.value)
        kept.emit(both)
        if (kept.size, kept.spatial_dims) != (gone.size, gone.spatial_dims):
            raise MisfitError
        kept.members |= gone.members
        kept.places = math.gcd(kept.places, gone.places)
        kept.fixed |= gone.fixed
        self._merged_into[newer] = older
        return older

    def add_if_equal(self, first: int, second: int) -> int:
        """Return the sum of two sets of equal size, which a network may not add, or the second."""
        if self._set(first).size != self._set(second).size:
            return second
        joined = self.add(first, second)
        self._set(joined).emit(None)
        return joined

    def fix(self, channels: int) -> None:
        """Keep all of some channels."""
        self._set(channels).fixed = True

    def fix_sizes(self, sizes: Set[int]) -> None:
        """Keep all channels of the sets that have some number of channels."""
        for found in self._sets:
            found.fixed |= found.size in sizes

    def groups(self) -> tuple[CoupledGroup, ...]:
        """Return the groups of channels that are not fixed; call it after the last layer."""
        if self._shapes:
            raise MisfitError(next(iter(self._shapes)))
        roots = (self._sets[i] for i, parent in enumerate(self._merged_into) if i == parent)
        return tuple(
            CoupledGroup(SPACE, _label(found.members), found.places, tuple(found.slices()))
            for found in roots
            if not found.fixed and (found.places > 1 or found.size == 1)
        )

    def _add_set(self, channels: _Channels) -> int:
        self._sets.append(channels)
        self._merged_into.append(len(self._sets) - 1)
        return len(self._sets) - 1

    def _root(self, channels: int) -> int:
        while (parent := self._merged_into[channels]) != channels:
            channels = parent
        return channels

    def _set(self, channels: int) -> _Channels:
        return self._sets[self._root(channels)]

    def _name(self, module: str, leaf: str) -> str:
        return f"{self._prefix}{module}.{leaf}" if self._prefix + module else leaf

    def _has(self, module: str, leaf: str) -> bool:
        return self._name(module, leaf) in self._shapes

    def _take(self, module: str, leaf: str) -> tuple[int, ...]:
        """Return the shape of a tensor, which no layer may have used before."""
        shape = self._shapes.pop(self._name(module, leaf), None)
        if shape is None:
            raise MisfitError(module)
        return shape

    def _take_vector(self, module: str, leaf: str, size: int) -> None:
        if self._take(module, leaf) != (size,):
            raise MisfitError(module)

    def _member(
        self, module: str, leaf: str, role: MemberRole, dim: int = 0, width: int = 1
    ) -> Member:
        return Member(self._name(module, leaf), dim, width=width, role=role)


def is_counter(name: str) -> bool:
    """Return whether a tensor counts the batches of a batch norm."""
    return name.rpartition(".")[2] == COUNTER


def _label(members: Iterable[Member]) -> str:
    """Return the path of the first layer that makes the channels."""
    return next(m.name for m in members if m.role == "produces").removesuffix(".weight")
