"""Masks that were made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.predicates.base import Standing
from prune_gui.pruning.sources import Scores


@dataclass(frozen=True, slots=True, eq=False)
class GivenMask:
    """Prunes where a mask that was made elsewhere is zero.

    Attributes:
        mask: any type, every value 0 or 1.
    """

    mask: Scores
    note: str = ""

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        part = self.mask.part(start, stop)
        if part.dtype not in _COMPARABLE:
            part = part.to(torch.float64)
        pruned: NDArray[np.bool_] = (part == 0).numpy()
        return pruned

    def standing(self, flat: int) -> Standing:
        """Return what the mask says of the entry of that flat index."""
        return Standing(bool(self.prunes(flat, flat + 1)[0]))


_COMPARABLE = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float32}
)
"""Types that torch compares as they are; it does not compare fp8 at all."""
