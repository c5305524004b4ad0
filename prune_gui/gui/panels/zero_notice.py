"""The notice that a file has zeros that do not count as pruned, with a button that counts them."""

from __future__ import annotations

from PySide6.QtGui import QAction

from prune_gui.gui.widgets.notice import Notice
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes


class ZeroNotice(Notice):
    """Visible while many zeros do not count as pruned."""

    def __init__(self, workbench: Workbench, treat_as_pruned: QAction) -> None:
        super().__init__(tr("Treat as pruned"), treat_as_pruned.toolTip())
        self._workbench = workbench
        self.button.clicked.connect(treat_as_pruned.trigger)
        workbench.changed.connect(self._on_changed)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.reopen()
        if changes.file or changes.zeros or changes.recipe or changes.resolution:
            self._show()

    def _show(self) -> None:
        session, zeros = self._workbench.session, self._workbench.unpruned_zeros
        is_wanted = session is not None and session.recipe.start == "dense" and zeros > 0
        self.say(session.file_zeros.summary() if session is not None and is_wanted else "")
