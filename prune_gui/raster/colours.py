"""The colours of the views, for a light and for a dark window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO

LIGHT_SHARE: Final = 0.55
"""Share of a colour in its light shade; the rest is the background."""


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of the views, each as "#rrggbb".

    The colours of successive steps differ in lightness as well as in hue, so that they can be
    distinguished with any kind of colour vision. Fills have 0.72 of the chroma of badges in OKLCH,
    at equal lightness and hue: large saturated areas tire the eye.

    Attributes:
        background: background of every picture.
        foreground: text, axes and important outlines.
        kept: elements that no step prunes.
        steps: elements pruned by step 1, 2, ...; the colours repeat after the last one.
        badges: the colours of `steps` with more chroma, for small areas such as numbers of steps.
        draft: elements pruned by the draft.
        in_file: elements that were pruned in the file already.
        zero: elements that are zero in the file and that no step prunes.
        cut: the line below which a step prunes.
        box: inside of a check box.
        scale: shares from 0 to 1, at equal distances. The colours differ in lightness.
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

    def share(self, share: float) -> str:
        """Return the colour of a share in [0, 1], interpolated linearly in RGB."""
        position = min(max(share, 0.0), 1.0) * (len(self.scale) - 1)
        low = min(int(position), len(self.scale) - 2)
        return mixed(self.scale[low], self.scale[low + 1], position - low)

    def of(self, code: int, draft: int | None = None) -> str:
        """Return the colour of elements pruned by step `code`, which may be the draft."""
        if code == KEPT:
            return self.kept
        if code == IN_FILE:
            return self.in_file
        if code == ZERO:
            return self.zero
        return self.draft if code == draft else self.steps[(code - 1) % len(self.steps)]

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
)
