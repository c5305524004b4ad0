"""Where the channels of a layer, and the units of coupled groups, lie in tensors.

A unit goes as a whole, with a slice of each of several tensors: a neuron of a feed-forward layer,
for example, is a row of one matrix, an element of its bias, and a column of the next matrix. All
units of one kind in one layer are a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from prune_gui.language import tr
from prune_gui.pruning.arrays import Flags, Ints

MemberRole = Literal["produces", "consumes", "bias", "norm"]
"""What a tensor does with a unit: computes it, reads it, or shifts or scales it per channel."""


@dataclass(frozen=True, slots=True)
class Member:
    """A tensor of a group, and the slice of it that belongs to each unit.

    Unit i has `width` channels along `dim`, from ``starts[i]`` on, or from ``offset + i * width``
    on if there are no `starts`. If `dim` is None, the whole tensor belongs to the unit `offset`,
    and `number_at` is the dot-separated component of `name` with its number, which changes if
    earlier units are removed.
    """

    name: str
    dim: int | None
    offset: int = 0
    width: int = 1
    role: MemberRole = "produces"
    number_at: int | None = None
    starts: tuple[int, ...] = ()

    def channels(self, size: int) -> Ints:
        """Return the channels of each of `size` units along `dim`, int64 (size, width)."""
        starts = self.starts or self.offset + self.width * np.arange(size)
        return np.asarray(starts)[:, None] + np.arange(self.width)


@dataclass(frozen=True, slots=True)
class CoupledGroup:
    """The units of one kind (`space`, such as "ffn") in one layer, whose path is the `label`.

    `attributes` are the paths of integers of the modules in proportion to the number of units,
    such as "blocks.0.attn.num_heads", as far as no shape of a tensor tells them.
    """

    space: str
    label: str
    size: int
    members: tuple[Member, ...]
    attributes: tuple[str, ...] = ()

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

    def channels(self, name: str, dim: int, length: int, units: Flags) -> Flags:
        """Return which channels of a tensor belong to some units."""
        marked = np.zeros(length, np.bool_)
        for member in self.members:
            if (member.name, member.dim) == (name, dim):
                marked[member.channels(self.size)[units]] = True
        return marked


class WeightLayout(NamedTuple):
    """Which dimensions of a weight have the output and the input channels of its layer."""

    output_dim: int = 0
    input_dim: int = 1
    reason: str = ""  # how this is known, if it is not usual; a message for `tr`

    @property
    def is_usual(self) -> bool:
        """Whether the weight is (out, in, ...), as those of `Linear` and `Conv` of torch."""
        return self.output_dim == 0

    def around(self, dim: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the elements before, along and after a dimension; the product is their number."""
        return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])

    def describe(self, shape: tuple[int, ...]) -> str:
        """Return the layout in words: "(in, out), as Conv1D of GPT-2"."""
        names = {self.output_dim: tr("out"), self.input_dim: tr("in")}
        dims = ", ".join(names.get(dim, tr("kernel")) for dim in range(len(shape)))
        return tr("({dims}), {reason}", dims=dims, reason=tr(self.reason))


USUAL = WeightLayout()
