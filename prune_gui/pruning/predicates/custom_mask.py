"""Masks that were made elsewhere."""

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
    """Prunes where a mask that was made elsewhere is zero.

    Attributes:
        mask: any type, every value 0 or 1.
    """

    mask: Scores
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        part = self.mask.part(start, start + codes.size)
        if part.dtype not in _COMPARABLE:
            part = part.to(torch.float64)
        key_kernels.mark_where((part == 0).numpy(), np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return what the mask says of the entry of that flat index."""
        return ElementRank(bool(self.prunes(flat, flat + 1)[0]))


_COMPARABLE = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float32}
)
"""Types that torch compares as they are; it does not compare fp8 at all."""
