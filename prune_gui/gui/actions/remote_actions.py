"""The actions for remote checkpoints."""

from __future__ import annotations

from typing import Final

from prune_gui.gui.actions.action_spec import ActionSpec
from prune_gui.language import deferred

REMOTE_ACTIONS: Final = (
    ActionSpec(
        "open_location",
        deferred("Open loca&tion…"),
        deferred("Open a remote checkpoint by its URL: https, s3, gs, az or hf"),
        lambda w: w.commands.open_location(),
        "Ctrl+Shift+L",
    ),
    ActionSpec(
        "fetch_all",
        deferred("Fetch whole chec&kpoint…"),
        deferred("Fetch all of a remote checkpoint, which is kept in the cache"),
        lambda w: w.commands.remote.fetch_all(),
        when=lambda w: w.commands.remote.is_open,
    ),
)
