"""Limits of the numbers along an axis."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_MAGNITUDE: Final = 1e290
MIN_LENGTH: Final = 1e-290
"""Beyond these limits, the arithmetic of a plot overflows or divides by zero, although float64 does
not."""


def drawable(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers, clipped to the range that can be drawn."""
    return np.clip(numbers, -MAX_MAGNITUDE, MAX_MAGNITUDE)


def span(low: float, high: float, min_length: float = MIN_LENGTH) -> tuple[float, float]:
    """Return the range of an axis, clipped to what can be drawn and at least `min_length` long."""
    low, high = max(low, -MAX_MAGNITUDE), min(high, MAX_MAGNITUDE)
    return low, max(high, low + min_length)
