"""The colours of the views, for a light and for a dark window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO

LIGHT_SHARE: Final = 0.55


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of the views, each as "#rrggbb".

    The colours of successive steps differ in lightness as well as in hue, so that they can be
    distinguished with any kind of colour vision. Fills have 0.72 of the chroma of badges in OKLCH,
    at equal lightness and hue: large saturated areas tire the eye.

    Attributes:
        foreground: text, axes and important outlines.
        kept: elements that no step prunes.
        steps: elements pruned by step 1, 2, ...; the colours repeat after the last one.
        badges: the colours of `steps` with more chroma, for small areas such as numbers of steps.
        draft, in_file: elements pruned by the draft, or in the file already.
        zero: elements that are zero in the file and that no step prunes.
        cut: the line below which a step prunes.
        box: inside of a check box.
        scale: shares from 0 to 1, at equal distances. The colours differ in lightness.
        signed, unsigned: stops of ramps. Colours of numbers near zero are near the background.
        dense: stops of the ramp of the pruned share of cells.
    """

    background: str
    foreground: str
    grid: str
    kept: str
    steps: tuple[str, ...]
    badges: tuple[str, ...]
    draft: str
    in_file: str
    zero: str
    cut: str
    box: str
    warning: str
    scale: tuple[str, ...]
    signed: tuple[str, ...]
    unsigned: tuple[str, ...]
    dense: tuple[str, ...]

    def share(self, share: float) -> str:
        """Return the colour of a share in [0, 1], interpolated linearly in RGB."""
        position = min(max(share, 0.0), 1.0) * (len(self.scale) - 1)
        low = min(int(position), len(self.scale) - 2)
        return mixed(self.scale[low], self.scale[low + 1], position - low)

    def of(self, code: int, draft: int | None = None) -> str:
        """Return the colour of elements pruned by step `code`, which may be the draft."""
        named = {draft: self.draft, KEPT: self.kept, IN_FILE: self.in_file, ZERO: self.zero}
        return named.get(code) or self.steps[(code - 1) % len(self.steps)]

    def badge(self, number: int) -> str:
        """Return the colour of the badge of step `number`, which starts at 1."""
        return self.badges[(number - 1) % len(self.badges)]

    def light_of(self, code: int, draft: int | None = None) -> str:
        """Return a light shade of the colour of a code, mixed with the background."""
        return mixed(self.background, self.of(code, draft), LIGHT_SHARE)


def mixed(start: str, end: str, fraction: float) -> str:
    """Return a colour between two, interpolated linearly in RGB."""
    pairs = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]), strict=True)
    return f"#{bytes(round(a + fraction * (b - a)) for a, b in pairs).hex()}"


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of "#rrggbb"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


LIGHT: Final = Colours(
    background="#ffffff",
    foreground="#22262b",
    grid="#d5dae0",
    kept="#b7c5d6",
    steps=("#c27644", "#3b7a68", "#785baa", "#a18843", "#2f5288", "#8d483b", "#66883f", "#4890aa"),
    badges=("#d5690b", "#0b7f66", "#7d4fc0", "#a98600", "#1c4f9c", "#9c3b2a", "#5d8c12", "#0e93b8"),
    draft="#ce4b88",
    in_file="#8b8f95",
    zero="#e0ddd6",
    cut="#22262b",
    box="#ffffff",
    warning="#b42318",
    scale=("#eaf1f8", "#bcd5ea", "#80b1d8", "#3f83bb", "#175493", "#08264f"),
    signed=("#7a3300", "#c4620c", "#f0b56b", "#f4f4f2", "#84b6e0", "#2a72b5", "#0b3566"),
    unsigned=("#f6f5ef", "#c9dfc6", "#7fbcb0", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a"),
    dense=("#b7c5d6", "#6fb0b4", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a"),
)
DARK: Final = Colours(
    background="#191c20",
    foreground="#dfe3e8",
    grid="#363c44",
    kept="#425870",
    steps=("#e4a267", "#66bd9e", "#b199e0", "#e1d47d", "#85beeb", "#d19281", "#a4c76b", "#6ecdda"),
    badges=("#f59a3c", "#35c49a", "#b592f5", "#e8d44d", "#6cc0ff", "#e08a72", "#9ccc3c", "#2fd3e6"),
    draft="#e86eab",
    in_file="#7d838b",
    zero="#383b40",
    cut="#f4f6f8",
    box="#4a525b",
    warning="#ff8a75",
    scale=("#273039", "#2c4a66", "#34699a", "#4f92c8", "#8dc0ea", "#e0f1ff"),
    signed=("#ffdca8", "#f59a3c", "#99581a", "#23272c", "#235b91", "#56a5ee", "#c4e2ff"),
    unsigned=("#191c20", "#252e57", "#2f5a8c", "#338d96", "#5dbd8a", "#b5df6c", "#fcf7a4"),
    dense=("#425870", "#3f7f95", "#63a5a8", "#a0cbb4", "#f2f3d0"),
)


TABLE_SIZE: Final = 255


@dataclass(frozen=True, slots=True)
class Ramp:
    """Equally spaced colours for numbers between two ends; zero is in the middle if it is signed.

    Both types can be read with any type of colour vision. The lightness of an unsigned ramp is
    monotonic. A signed ramp has an orange and a blue side, whose lightness changes alike.
    """

    stops: tuple[str, ...]
    signed: bool

    def table(self) -> NDArray[np.uint8]:
        """Return uint8 (`TABLE_SIZE`, 4): red, green, blue, opaque."""
        return _table(self.stops)

    def indices(self, numbers: NDArray[np.float64], reach: float) -> NDArray[np.uint8]:
        """Return the table index of each number up to `reach` from zero; NaN is treated as zero.

        Colours change with the square root, so that small numbers are visible beside large ones.
        """
        share = np.nan_to_num(numbers / (reach or 1.0), nan=0.0, posinf=1.0, neginf=-1.0)
        root = np.sqrt(np.clip(np.abs(share), 0, 1)) * np.sign(share)
        position = (root + 1) / 2 if self.signed else np.maximum(root, 0)
        indices: NDArray[np.uint8] = np.rint(position * (TABLE_SIZE - 1)).astype(np.uint8)
        return indices


def ramp(colours: Colours, *, signed: bool) -> Ramp:
    """Return the ramp of a theme."""
    return Ramp(colours.signed if signed else colours.unsigned, signed)


@cache
def _table(stops: tuple[str, ...]) -> NDArray[np.uint8]:
    positions = np.linspace(0, len(stops) - 1, TABLE_SIZE)
    shades = np.array([rgb(stop) for stop in stops], np.float64)
    table = np.full((TABLE_SIZE, 4), 255, np.uint8)
    for channel in range(3):
        table[:, channel] = np.rint(np.interp(positions, range(len(stops)), shades[:, channel]))
    table.flags.writeable = False
    return table
