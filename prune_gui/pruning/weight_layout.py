"""Which dimensions of a weight have the output and the input channels of its layer."""

from __future__ import annotations

import math
from typing import NamedTuple

from prune_gui.language import tr


class WeightLayout(NamedTuple):
    """Which dimensions of a weight have the output and the input channels of its layer.

    Attributes:
        reason: how this is known, if the dimensions are not 0 and 1; a message for `tr`.
    """

    output_dim: int = 0
    input_dim: int = 1
    reason: str = ""

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
