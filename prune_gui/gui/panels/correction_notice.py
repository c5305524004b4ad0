"""The notice that a recording lies beside the checkpoint, with a button that uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import Signal

from prune_gui.errors import one_line
from prune_gui.gui.widgets.notice import Notice
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import StepRequest

MAX_NAME_CHARS: Final = 40
"""Limit of a shown file name."""


class CorrectionNotice(Notice):
    """Visible while the stack prunes, has no correction, and a recording for one is at hand.

    Signals:
        draft_wanted: (request) the user wants this `StepRequest` as the draft.
    """

    draft_wanted = Signal(object)

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(
            tr("Draft correction"),
            tr("Draft a step that corrects the kept weights with the recorded inputs of layers"),
        )
        self._workbench = workbench
        self.button.clicked.connect(self._draft)
        workbench.changed.connect(self._on_changed)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.reopen()
        if changes.file or changes.recipe or changes.resolution:
            self.say(self._message())

    def _message(self) -> str:
        """Return what the notice says now; "" for nothing."""
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None or session.correction is None or resolved is None:
            return ""
        steps, drafted = session.steps, self._workbench.draft.current
        planned = (*steps, drafted.step) if drafted is not None else steps
        is_corrected = any(step.method.corrects for step in planned)
        if is_corrected or not resolved.resolution.total[0]:
            return ""
        method = session.correction.method
        [path] = method.files.values()
        return tr(
            "{name} is a recording of this model: {method} can correct kept weights.",
            name=one_line(Path(path).name, MAX_NAME_CHARS),
            method=tr(method.title),
        )

    def _draft(self) -> None:
        session = self._workbench.session
        if session is not None and session.correction is not None:
            self.draft_wanted.emit(StepRequest(session.correction))
