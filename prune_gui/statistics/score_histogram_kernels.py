"""The compiled loop that computes a score histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.loop import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Codes = NDArray[np.uint8]


@compiled
def count_groups(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    shift: np.unsignedinteger[Any],
    codes: Codes,
    slots: Codes,
    weights: NDArray[np.floating[Any]],
    counts: NDArray[np.uint32],
    energy: NDArray[np.float64],
) -> None:
    """Count elements by the leading bits of their keys, and sum the squared remaining weights.

    Args:
        bits: raw bits of the scores.
        magnitude: bit mask of a key.
        shift: number of trailing bits of a key that are ignored.
        counts: (slots, groups).
    """
    for i in range(bits.size):
        group = (bits[i] & magnitude) >> shift
        slot = slots[codes[i]]
        counts[slot, group] += np.uint32(1)
        if slot == 0:
            weight = np.float64(weights[i])
            if np.isfinite(weight):
                energy[group] += weight * weight


def warm_up() -> None:
    """Compile the loop, or load it from the cache, for the most frequent dtypes."""
    codes, slots = np.zeros(1, np.uint8), np.zeros(256, np.uint8)
    counts, energy = np.zeros((1, 1), np.uint32), np.zeros(1)
    for uint, weights in (
        (np.uint32, np.float32),
        (np.uint16, np.float32),
        (np.uint64, np.float64),
    ):
        count_groups(
            np.zeros(1, uint), uint(0), uint(0), codes, slots, np.zeros(1, weights), counts, energy
        )
