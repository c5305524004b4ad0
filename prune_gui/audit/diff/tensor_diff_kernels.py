"""A compiled loop over the numbers of two tensors. It holds no lock of Python's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]


@compiled
def measure(differ: NDArray[np.bool_], before: Values, after: Values) -> tuple[int, int, float]:
    """Measure how far numbers are from others.

    Args:
        differ: where the bits of the two differ.
        before: float32 or float64.
        after: likewise.

    Returns:
        Of those with other bits, how many are the same number (0 and -0, NaN and NaN), and how many
        of the rest are infinite or NaN on either side; the largest distance between finite ones.
    """
    same_number, non_finite, largest = 0, 0, 0.0
    for i in range(differ.size):
        x, y = np.float64(before[i]), np.float64(after[i])
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        finite = np.isfinite(x) & np.isfinite(y)
        same_number += differ[i] & same
        non_finite += differ[i] & ~same & ~finite
        largest = max(largest, abs(y - x) if finite else 0.0)
    return same_number, non_finite, largest
