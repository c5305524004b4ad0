"""From numbers to colours: from nothing to much, or to either side of zero. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.widgets.theme import DARK, Colours

STEPS: Final = 255


@dataclass(frozen=True, slots=True)
class Ramp:
    """Colours for numbers between two ends.

    Both kinds can be told apart with any kind of colour vision: one grows in lightness throughout,
    the other has blue and orange for its sides, which grow alike.

    Attributes:
        stops: "#rrggbb", equally spaced, an odd number.
        signed: whether the middle stands for zero; else the first does.
    """

    stops: tuple[str, ...]
    signed: bool

    def table(self) -> NDArray[np.uint8]:
        """Return the colours of `STEPS` equal parts: red, green, blue, opaque."""
        return _table(self.stops)

    def places(self, numbers: NDArray[np.float64], reach: float) -> NDArray[np.uint8]:
        """Return which part of the table each number is in; NaN is as zero.

        Colours grow with the square root, so that small numbers show beside a few large ones.

        Args:
            numbers: beyond `reach` they look as at it.
            reach: the distance from zero at which the ends are.
        """
        share = np.nan_to_num(numbers / (reach or 1.0), nan=0.0, posinf=1.0, neginf=-1.0)
        grown = np.sqrt(np.clip(np.abs(share), 0, 1)) * np.sign(share)
        place = (grown + 1) / 2 if self.signed else np.maximum(grown, 0)
        found: NDArray[np.uint8] = np.rint(place * (STEPS - 1)).astype(np.uint8)
        return found


def ramp(colours: Colours, *, signed: bool) -> Ramp:
    """Return the ramp of a theme. What is near zero is near the background."""
    if colours == DARK:
        stops = _DARK_SIGNED if signed else _DARK_UP
    else:
        stops = _LIGHT_SIGNED if signed else _LIGHT_UP
    return Ramp(stops, signed)


def parts(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of "#rrggbb"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


@cache
def _table(stops: tuple[str, ...]) -> NDArray[np.uint8]:
    at = np.linspace(0, len(stops) - 1, STEPS)
    shades = np.array([parts(stop) for stop in stops], np.float64)
    table = np.full((STEPS, 4), 255, np.uint8)
    for channel in range(3):
        table[:, channel] = np.rint(np.interp(at, range(len(stops)), shades[:, channel]))
    table.flags.writeable = False
    return table


_LIGHT_SIGNED: Final = ("#7a3300", "#c4620c", "#f0b56b", "#f4f4f2", "#84b6e0", "#2a72b5", "#0b3566")
_DARK_SIGNED: Final = ("#ffdca8", "#f59a3c", "#99581a", "#23272c", "#235b91", "#56a5ee", "#c4e2ff")
_LIGHT_UP: Final = ("#f6f5ef", "#c9dfc6", "#7fbcb0", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a")
_DARK_UP: Final = ("#191c20", "#252e57", "#2f5a8c", "#338d96", "#5dbd8a", "#b5df6c", "#fcf7a4")
