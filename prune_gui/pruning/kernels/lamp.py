"""The compiled loop of `prune_gui.pruning.selection.lamp`; see `kernels.keys`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.loop import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prune_gui.pruning.kernels.keys import Bits, RemainingMask


@compiled
def add_squares(
    bits: Bits,
    values: NDArray[np.floating[Any]] | None,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    shift: np.unsignedinteger[Any],
    digit: np.unsignedinteger[Any],
    above: np.unsignedinteger[Any],
    prefix: np.unsignedinteger[Any],
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    scale: float,
) -> None:
    """Count each value of ``(key >> shift) & digit``, for keys with ``key >> above == prefix``.

    ``values`` are the numbers of those bits, or None. Each is multiplied by ``scale`` and squared;
    the squares are added to ``sums`` by the same digit.
    """
    for i in range(bits.size):
        key = bits[i] & magnitude
        if key >> above == prefix and (remaining_mask is None or remaining_mask[i]):
            index = (key >> shift) & digit
            counts[index] += 1
            if values is not None:
                value = np.float64(values[i]) * scale
                sums[index] += value * value
