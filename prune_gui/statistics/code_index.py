"""The codes that occur in one parameter, and the slot in which each is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT


@dataclass(frozen=True, slots=True)
class CodeIndex:
    """Codes of `Resolution.pruned_by` in ascending order, numbered as slots; slot 0 is `KEPT`.

    Attributes:
        codes: the code of each slot: `KEPT`, then the steps that target the parameter.
        lookup: uint8 (256,), the slot of each code.
    """

    codes: tuple[int, ...]
    lookup: NDArray[np.uint8]

    @classmethod
    def of(cls, resolution: Resolution, name: str) -> CodeIndex:
        """Return the code index of a parameter; it has only the steps that target it."""
        steps = sorted({applied.step for applied in resolution.layers.get(name, ())})
        lookup = np.zeros(256, np.uint8)
        lookup[steps] = np.arange(1, len(steps) + 1)
        return cls((KEPT, *steps), lookup)
