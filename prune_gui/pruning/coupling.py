"""Coupled groups: units of a network that go as a whole, each a slice of several tensors.

A unit is, for example, a neuron of a feed-forward layer: a row of one matrix, an element of its
bias, and a column of the next matrix. All units of one kind in one layer are a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MemberRole = Literal["produces", "consumes", "bias", "norm"]
"""What a tensor does with a unit: computes it, reads it, or shifts or scales it per channel."""


@dataclass(frozen=True, slots=True)
class Member:
    """A tensor of a group, and the slice of it that belongs to each unit.

    Attributes:
        dim: the dimension that is divided into units, not negative; None if the whole tensor
            belongs to one unit.
        offset: the first channel of the first unit; if `dim` is None, the index of the unit.
        width: number of adjacent channels of each unit.
        number_at: if `dim` is None, the dot-separated component of `name` that is the number of the
            unit, counted from 0; it changes if earlier units are removed.
    """

    name: str
    dim: int | None
    offset: int = 0
    width: int = 1
    role: MemberRole = "produces"
    number_at: int | None = None


@dataclass(frozen=True, slots=True)
class CoupledGroup:
    """The units of one kind in one layer, which every member has.

    Attributes:
        space: the kind of the units, such as "ffn".
        label: the path of the layer, or another name that is unique in the space.
        members: their slices; a tensor may occur several times, with different channels.
    """

    space: str
    label: str
    size: int
    members: tuple[Member, ...]

    @property
    def key(self) -> str:
        """The name of its scores in a file: "encoder.layer.0.ffn"; of layers, "encoder.layer"."""
        return self.label if self.space.endswith("layers") else f"{self.label}.{self.space}"

    @property
    def producers(self) -> list[str]:
        """The names of the tensors that have the units as outputs; of all if none has."""
        producers = [member.name for member in self.members if member.role == "produces"]
        return producers or [member.name for member in self.members]

    @property
    def is_sliced(self) -> bool:
        """Whether no unit has a whole tensor of its own, as layers have."""
        return all(member.dim is not None for member in self.members)

    def channels(
        self, name: str, dim: int, length: int, units: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which channels of a tensor belong to some units."""
        marked = np.zeros(length, np.bool_)
        for member in self.members:
            if (member.name, member.dim) == (name, dim):
                end = member.offset + self.size * member.width
                marked[member.offset : end] |= np.repeat(units, member.width)
        return marked
