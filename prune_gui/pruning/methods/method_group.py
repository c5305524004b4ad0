"""The groups in which the window lists the methods."""

from __future__ import annotations

from typing import Final, Literal

from prune_gui.language import deferred

MethodGroup = Literal[
    "elements", "channels", "coupled", "patterns", "manual", "correction", "plugins"
]
"""What a method prunes, who selects it, or where the method comes from."""

GROUPS: Final[dict[MethodGroup, str]] = {
    "elements": deferred("Elements"),
    "channels": deferred("Channels"),
    "coupled": deferred("Coupled units"),
    "patterns": deferred("Patterns"),
    "manual": deferred("By hand"),
    "correction": deferred("Correction"),
    "plugins": deferred("Plug-ins"),
}
"""Titles of the groups in their order in the window; messages for `tr`."""
