"""Colours for numbers: from zero upwards, or to both sides of zero. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.raster.colours import DARK, Colours, rgb

TABLE_SIZE: Final = 255


@dataclass(frozen=True, slots=True)
class Ramp:
    """Colours for numbers between two ends.

    Both types can be read with any type of colour vision. The lightness of an unsigned ramp is
    monotonic. A signed ramp has an orange and a blue side, whose lightness changes alike.

    Attributes:
        stops: equally spaced colours, "#rrggbb"; an odd number if signed.
        signed: whether zero is in the middle; else it is at the start.
    """

    stops: tuple[str, ...]
    signed: bool

    def table(self) -> NDArray[np.uint8]:
        """Return uint8 (`TABLE_SIZE`, 4): red, green, blue, opaque."""
        return _table(self.stops)

    def indices(self, numbers: NDArray[np.float64], reach: float) -> NDArray[np.uint8]:
        """Return the table index of each number; NaN is treated as zero.

        Colours change with the square root, so that small numbers are visible beside large ones.

        Args:
            numbers: float64; numbers beyond `reach` are clipped.
            reach: distance of the ends from zero.
        """
        share = np.nan_to_num(numbers / (reach or 1.0), nan=0.0, posinf=1.0, neginf=-1.0)
        root = np.sqrt(np.clip(np.abs(share), 0, 1)) * np.sign(share)
        position = (root + 1) / 2 if self.signed else np.maximum(root, 0)
        indices: NDArray[np.uint8] = np.rint(position * (TABLE_SIZE - 1)).astype(np.uint8)
        return indices


def ramp(colours: Colours, *, signed: bool) -> Ramp:
    """Return the ramp of a theme. Colours of numbers near zero are near the background."""
    if colours == DARK:
        stops = _DARK_SIGNED if signed else _DARK_UP
    else:
        stops = _LIGHT_SIGNED if signed else _LIGHT_UP
    return Ramp(stops, signed)


def density_ramp(colours: Colours) -> Ramp:
    """Return the ramp of the pruned share of cells, which starts at the colour of kept elements."""
    return Ramp((colours.kept, *(_DARK_DENSE if colours == DARK else _LIGHT_DENSE)), signed=False)


@cache
def _table(stops: tuple[str, ...]) -> NDArray[np.uint8]:
    positions = np.linspace(0, len(stops) - 1, TABLE_SIZE)
    shades = np.array([rgb(stop) for stop in stops], np.float64)
    table = np.full((TABLE_SIZE, 4), 255, np.uint8)
    for channel in range(3):
        table[:, channel] = np.rint(np.interp(positions, range(len(stops)), shades[:, channel]))
    table.flags.writeable = False
    return table


_LIGHT_SIGNED: Final = ("#7a3300", "#c4620c", "#f0b56b", "#f4f4f2", "#84b6e0", "#2a72b5", "#0b3566")
_DARK_SIGNED: Final = ("#ffdca8", "#f59a3c", "#99581a", "#23272c", "#235b91", "#56a5ee", "#c4e2ff")
_LIGHT_UP: Final = ("#f6f5ef", "#c9dfc6", "#7fbcb0", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a")
_DARK_UP: Final = ("#191c20", "#252e57", "#2f5a8c", "#338d96", "#5dbd8a", "#b5df6c", "#fcf7a4")
_LIGHT_DENSE: Final = ("#6fb0b4", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a")
_DARK_DENSE: Final = ("#3f7f95", "#63a5a8", "#a0cbb4", "#f2f3d0")
