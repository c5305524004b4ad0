"""The actions that try something without changing the stack."""

from __future__ import annotations

from typing import Final

from prune_gui.gui.actions.action_spec import ActionSpec, is_open
from prune_gui.language import deferred

TRIAL_ACTIONS: Final = (
    ActionSpec(
        "evaluate",
        deferred("Evaluate…"),
        deferred("See what the file and the stack are worth by your own measure"),
        lambda w: w.show_evaluation(),
        "Ctrl+Shift+E",
        when=is_open,
    ),
    ActionSpec(
        "sweep",
        deferred("&Sweep…"),
        deferred("Try several amounts of a step, side by side"),
        lambda w: w.show_sweep(),
        when=is_open,
    ),
    ActionSpec(
        "batch",
        deferred("&Batch…"),
        deferred("Apply the stack to several checkpoints, one after the other"),
        lambda w: w.show_batch(),
        when=is_open,
    ),
)
