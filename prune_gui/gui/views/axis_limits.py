"""How large and how small numbers may be along an axis. No Qt."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST: Final = 1e290
LEAST: Final = 1e-290
"""Beyond these the arithmetic of pyqtgraph overflows, or divides by zero; float64 goes farther."""


def drawable(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as near to themselves as they can be drawn."""
    return np.clip(numbers, -MOST, MOST)


def span(low: float, high: float, least: float = LEAST) -> tuple[float, float]:
    """Return from where to where an axis reaches, so that it has an end and at least a length."""
    low, high = max(low, -MOST), min(high, MOST)
    return low, max(high, low + least)
