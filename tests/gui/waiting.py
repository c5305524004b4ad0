"""Waiting for a change of a workbench."""

from __future__ import annotations

from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

from prune_gui.gui.workbench import Workbench
from prune_gui.recipe import Step
from prune_gui.session import Session
from prune_gui.session.history import DraftState


def change(qtbot: QtBot, workbench: Workbench, field: str) -> SignalBlocker:
    """Return a context manager that waits until a field of `Changes` is set."""
    return qtbot.waitSignal(
        workbench.changed, timeout=60_000, check_params_cb=lambda changes: getattr(changes, field)
    )


def draft_step(workbench: Workbench, step: Step | None) -> None:
    """Make a step the draft, and preview it; None to end the preview."""

    def change(session: Session) -> None:
        if step is not None:
            session.note_draft(DraftState.of(step))
        elif session.draft is not None:
            session.note_draft(session.draft.done())

    workbench.draft.change(change)
