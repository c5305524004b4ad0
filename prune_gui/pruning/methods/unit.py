"""The units in which methods prune, and numbers of them in words."""

from __future__ import annotations

from typing import Final, Literal

from prune_gui.language import deferred, trn

Unit = Literal["entry", "channel", "block", "unit"]
"""What a method prunes as a whole."""

UNITS: Final[dict[Unit, str]] = {
    "entry": deferred("weights"),
    "channel": deferred("channels"),
    "block": deferred("blocks"),
    "unit": deferred("units"),
}
"""Names of the units; messages for `tr`."""


def count_in_words(unit: Unit, count: int) -> str:
    """Return a number of units: "1,200 weights"."""
    match unit:
        case "channel":
            return trn("{count:,} channel", "{count:,} channels", count)
        case "block":
            return trn("{count:,} block", "{count:,} blocks", count)
        case "unit":
            return trn("{count:,} unit", "{count:,} units", count)
        case "entry":
            return trn("{count:,} weight", "{count:,} weights", count)
