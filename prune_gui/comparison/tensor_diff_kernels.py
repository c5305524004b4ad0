"""A compiled loop over the numbers of two tensors. It releases the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.loop import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]


@compiled
def measure(differ: NDArray[np.bool_], before: Values, after: Values) -> tuple[int, int, float]:
    """Compare numbers pairwise.

    Args:
        differ: boolean, where the bits of the two differ.
        before: float32 or float64.
        after: float32 or float64.

    Returns:
        Of the pairs with different bits, how many are the same number (0 and -0, NaN and NaN), and
        how many of the others have an infinity or NaN; the largest distance of a finite pair.
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
