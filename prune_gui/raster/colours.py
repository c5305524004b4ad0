"""The colours of the views, for a light and for a dark window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of the views, each as "#rrggbb".

    Kept is pale, and what is pruned is strong: each colour of pruned elements has a contrast of
    at least 4.5 with that of kept ones (WCAG 2.2). The dark theme mirrors the scale: kept is dim,
    pruned is bright. The colours of pruned elements can be distinguished from each other with any
    kind of colour vision, as can those of curves, and both from each other.

    Attributes:
        foreground: text, axes and important outlines.
        kept: elements that no step prunes.
        steps: elements pruned by step 1, 2, ..., and the badges of these steps; the colours repeat
            after the last one.
        draft, in_file: elements pruned by the draft, or in the file already.
        zero: elements that are zero in the file and that no step prunes.
        curves: curves of a plot, which are of no step; the colours repeat after the last one.
        cut: the line below which a step prunes.
        box: inside of a check box.
        warning, caution: texts about errors, and about what has no effect.
        scale: shares from 0 to 1, at equal distances. The colours differ in lightness.
        signed, unsigned: stops of ramps. Colours of numbers near zero are near the background.
    """

    background: str
    foreground: str
    grid: str
    kept: str
    steps: tuple[str, ...]
    draft: str
    in_file: str
    zero: str
    curves: tuple[str, ...]
    cut: str
    box: str
    warning: str
    caution: str
    scale: tuple[str, ...]
    signed: tuple[str, ...]
    unsigned: tuple[str, ...]

    def share(self, share: float) -> str:
        """Return the colour of a share in [0, 1]."""
        return between(self.scale, share)

    def of(self, code: int, draft: int | None = None) -> str:
        """Return the colour of elements pruned by step `code`, which may be the draft."""
        named = {draft: self.draft, KEPT: self.kept, IN_FILE: self.in_file, ZERO: self.zero}
        return named.get(code) or self.steps[(code - 1) % len(self.steps)]


def mixed(start: str, end: str, fraction: float) -> str:
    """Return a colour between two, interpolated linearly in RGB."""
    pairs = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]), strict=True)
    return f"#{bytes(round(a + fraction * (b - a)) for a, b in pairs).hex()}"


@lru_cache(maxsize=1 << 13)
def between(stops: tuple[str, ...], share: float) -> str:
    """Return the colour at a share in [0, 1] of equally spaced colours."""
    position = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(position), len(stops) - 2)
    return mixed(stops[low], stops[low + 1], position - low)


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of "#rrggbb"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def is_bright(pixels: NDArray[np.uint8 | np.uint16]) -> NDArray[np.bool_]:
    """Return whether black contrasts more than white with each sRGB pixel (..., 3 or 4).

    Both have a contrast of 4.6 with a luminance of 0.179 (WCAG 2.2).
    """
    shares = np.arange(256) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    bright: NDArray[np.bool_] = linear[pixels[..., :3]] @ (0.2126, 0.7152, 0.0722) > 0.179
    return bright


def readable_on(fill: str) -> str:
    """Return black or white, whichever contrasts more with a colour."""
    return "#101418" if is_bright(np.array(rgb(fill), np.uint8)) else "#ffffff"


LIGHT: Final = Colours(
    background="#ffffff",
    foreground="#22262b",
    grid="#d5dae0",
    kept="#e2e8ef",
    steps=("#b83b00", "#02756a", "#7b39cc", "#446e20", "#124dff", "#703852", "#014677", "#434701"),
    draft="#a601a3",
    in_file="#0a0c0f",
    zero="#6c5448",
    curves=("#598dfe", "#96790c", "#fb1bc0", "#1e82a9", "#c7796f", "#b04978", "#9d9706", "#f837fa"),
    cut="#22262b",
    box="#ffffff",
    warning="#b42318",
    caution="#8f5600",
    scale=("#eaf1f8", "#bcd5ea", "#80b1d8", "#3f83bb", "#175493", "#08264f"),
    signed=("#7a3300", "#c4620c", "#f0b56b", "#f4f4f2", "#84b6e0", "#2a72b5", "#0b3566"),
    unsigned=("#f6f5ef", "#c9dfc6", "#7fbcb0", "#3a8aa3", "#265a8f", "#1f2f63", "#14123a"),
)
DARK: Final = Colours(
    background="#191c20",
    foreground="#dfe3e8",
    grid="#363c44",
    kept="#2b343e",
    steps=("#ff9a3d", "#5aad78", "#9d8ef2", "#a3faa8", "#86b4ff", "#f5abad", "#67d6fd", "#f4d055"),
    draft="#ff70b8",
    in_file="#ffffff",
    zero="#c0b484",
    curves=("#2587cc", "#21cf4c", "#fb03c0", "#af736f", "#f20013", "#9509fa", "#a54a75", "#048310"),
    cut="#f4f6f8",
    box="#4a525b",
    warning="#ff8a75",
    caution="#f2b134",
    scale=("#273039", "#2c4a66", "#34699a", "#4f92c8", "#8dc0ea", "#e0f1ff"),
    signed=("#ffdca8", "#f59a3c", "#99581a", "#23272c", "#235b91", "#56a5ee", "#c4e2ff"),
    unsigned=("#191c20", "#252e57", "#2f5a8c", "#338d96", "#5dbd8a", "#b5df6c", "#fcf7a4"),
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
        return ramp_table(self.stops, TABLE_SIZE)

    def indices(self, numbers: NDArray[np.float64], reach: float) -> NDArray[np.uint8]:
        """Return the table index of each number up to `reach` from zero; NaN is treated as zero.

        Colours change with the square root, so that small numbers are visible beside large ones.
        """
        share = np.nan_to_num(numbers / (reach or 1.0), nan=0.0, posinf=1.0, neginf=-1.0)
        root = np.sqrt(np.clip(np.abs(share), 0, 1)) * np.sign(share)
        position = (root + 1) / 2 if self.signed else np.maximum(root, 0)
        indices: NDArray[np.uint8] = np.rint(position * (TABLE_SIZE - 1)).astype(np.uint8)
        return indices


def pruned_ramps(colours: Colours, weights: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the colours of cells, uint8 (codes, weights, 4), mixed from kept at 0 to pruned at 1.

    The codes are kept, each step, the draft, in the file, and zero.
    """
    shades = (colours.kept, *colours.steps, colours.draft, colours.in_file, colours.zero)
    ends = np.array([rgb(shade) for shade in shades], np.float64)
    kept = ends[0]
    table = np.full((len(shades), len(weights), 4), 255, np.uint8)
    table[..., :3] = np.rint(kept + weights[:, None] * (ends - kept)[:, None])
    return table


def ramp(colours: Colours, *, signed: bool) -> Ramp:
    """Return the ramp of a theme."""
    return Ramp(colours.signed if signed else colours.unsigned, signed)


@cache
def ramp_table(stops: tuple[str, ...], size: int) -> NDArray[np.uint8]:
    """Return uint8 (size, 4): colours between equally spaced stops; red, green, blue, opaque."""
    positions = np.linspace(0, len(stops) - 1, size)
    shades = np.array([rgb(stop) for stop in stops], np.float64)
    table = np.full((size, 4), 255, np.uint8)
    for channel in range(3):
        table[:, channel] = np.rint(np.interp(positions, range(len(stops)), shades[:, channel]))
    table.flags.writeable = False
    return table
