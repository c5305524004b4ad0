"""The notice that a file has zeros that do not count as pruned, with a button that counts them."""

from __future__ import annotations

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget

from prune_gui.audit.statistics.file_zeros import zeros_text
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes


class ZeroNotice(QWidget):
    """A line above the views, visible while many zeros do not count as pruned, or until closed.

    Args:
        workbench: provides the zeros and the recipe.
        treat_as_pruned: the action of the button.
    """

    def __init__(self, workbench: Workbench, treat_as_pruned: QAction) -> None:
        super().__init__()
        self._workbench = workbench
        self._is_closed = False
        self._text = QLabel()
        self._button = QPushButton(tr("Treat as pruned"))
        self._button.setToolTip(treat_as_pruned.toolTip())
        self._button.clicked.connect(treat_as_pruned.trigger)
        self._close = QToolButton(autoRaise=True)
        self._close.setIcon(icon("cancel"))
        self._close.setToolTip(tr("Hide this notice until the file is opened again"))
        self._close.setAccessibleName(tr("Hide this notice"))
        self._close.clicked.connect(self._hide_for_good)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 4, 8, 4)
        layout.addWidget(self._text)
        layout.addWidget(self._button)
        layout.addStretch()
        layout.addWidget(self._close)
        workbench.changed.connect(self._on_changed)
        self.hide()

    @property
    def text(self) -> str:
        """The text of the notice; "" while it is hidden."""
        return "" if self.isHidden() else self._text.text()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._is_closed = False
        if changes.file or changes.zeros or changes.recipe or changes.resolution:
            self._show()

    def _show(self) -> None:
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None or resolved is None or session.recipe.start == "zeros":
            self.hide()
            return
        zeros, in_file = session.file_zeros, resolved.before.counts
        is_current = resolved.before.checkpoint is session.checkpoint
        if not is_current or self._is_closed or not zeros.is_noticeable(in_file):
            self.hide()
            return
        left = sum(zeros.unpruned(in_file).values())
        self._text.setText(tr("{zeros}.", zeros=zeros_text(zeros, left)))
        self.show()

    def _hide_for_good(self) -> None:
        self._is_closed = True
        self.hide()
