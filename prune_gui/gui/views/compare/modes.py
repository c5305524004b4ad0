"""The kinds of comparison, and the switch that chooses one."""

from __future__ import annotations

from typing import Final, Literal

from prune_gui.gui.views.compare.picture_pair import Arrangement
from prune_gui.gui.widgets.segmented_switch import SegmentedSwitch
from prune_gui.language import deferred, tr

Mode = Literal["sides", "swipe", "blink", "difference", "film"]
ARRANGEMENTS: Final[dict[Mode, Arrangement]] = {
    "sides": "sides",
    "swipe": "swipe",
    "blink": "blink",
    "difference": "single",
    "film": "single",
}
MODES: Final[dict[Mode, tuple[str, str]]] = {
    "sides": (deferred("Side by side"), deferred("Both sides beside each other")),
    "swipe": (deferred("Swipe"), deferred("One side on each side of a divider")),
    "blink": (deferred("Blink"), deferred("Both sides in turn")),
    "difference": (deferred("Difference"), deferred("What only one side prunes, in one picture")),
    "film": (deferred("Film"), deferred("The mask after each step")),
}
"""Text and tool tip of each mode."""


def mode_switch() -> SegmentedSwitch[Mode]:
    """Return the switch."""
    texts = {mode: tr(text) for mode, (text, _) in MODES.items()}
    tips = {mode: tr(tip) for mode, (_, tip) in MODES.items()}
    return SegmentedSwitch(tr("Kind of comparison"), texts, tips)
