"""The predicate of masks that the user provides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.selection.scores import Scores


@dataclass(frozen=True, slots=True, eq=False)
class CustomMask(Predicate):
    """Prunes where a given mask is 0.

    Attributes:
        mask: any dtype, every value 0 or 1.
    """

    mask: Scores
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        values = self.mask.part(start, start + codes.size)
        if values.dtype not in _COMPARABLE_DTYPES:
            values = values.to(torch.float64)
        key_kernels.mark_where((values == 0).numpy(), np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return whether the mask prunes the element at a flat index; it has no score."""
        return ElementRank(bool(self.prunes(flat, flat + 1)[0]))


_COMPARABLE_DTYPES = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float32}
)
"""Dtypes that are compared without conversion; torch does not compare fp8 at all."""
