"""Compiled loops over packed masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Bits
from prune_gui.pruning.kernels.loop import compiled_unless_small


def _clear_in_numpy(packed: NDArray[np.uint8], values: Bits) -> None:
    values[np.unpackbits(packed, count=values.size, bitorder="little").view(np.bool_)] = 0


@compiled_unless_small(_clear_in_numpy)
def clear(packed: NDArray[np.uint8], values: Bits) -> None:
    """Set the values to 0 whose bit is 1; the bits of a byte count from the least significant.

    Without a branch, so that the loop is vectorized: ``bit - 1`` is 0 or has all bits.
    """
    as_value = values.dtype.type
    one, whole = as_value(1), values.size // 8
    for i in range(whole):
        octet = as_value(packed[i])
        for j in range(8):
            values[8 * i + j] &= ((octet >> as_value(j)) & one) - one
    for i in range(8 * whole, values.size):
        if packed[i // 8] >> (i % 8) & 1:
            values[i] = 0
