"""The steps that can have pruned an entry of one parameter, and where each is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT


@dataclass(frozen=True, slots=True)
class CodeIndex:
    """Codes of `Resolution.pruned_by` in ascending order: slot 0 is "kept".

    Attributes:
        codes: `KEPT`, then those that layers of the parameter can give.
        lookup: uint8, from any code to its slot.
    """

    codes: tuple[int, ...]
    lookup: NDArray[np.uint8]

    @classmethod
    def of(cls, resolution: Resolution, name: str) -> CodeIndex:
        """Return the slots of a parameter; a recipe may have far more steps than touch it."""
        steps = sorted({layer.step for layer in resolution.layers.get(name, ())})
        lookup = np.zeros(256, np.uint8)
        lookup[steps] = np.arange(1, len(steps) + 1)
        return cls((KEPT, *steps), lookup)
