"""The notice that a file has zeros that do not count as pruned, with a button that counts them."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget

from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.spacing import GAP_PX, TIGHT_PX
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
        layout.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        layout.addWidget(self._text)
        layout.addStretch()  # the button does not move while the text grows
        layout.addWidget(self._button)
        layout.addWidget(self._close)
        workbench.changed.connect(self._on_changed)
        self.hide()

    @property
    def text(self) -> str:
        """The text of the notice; "" while it is hidden."""
        return "" if self.isHidden() else self._text.text()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._close.setIcon(icon("cancel"))
        super().changeEvent(event)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._is_closed = False
        if changes.file or changes.zeros or changes.recipe or changes.resolution:
            self._show()

    def _show(self) -> None:
        session, zeros = self._workbench.session, self._workbench.unpruned_zeros
        is_wanted = session is not None and session.recipe.start == "dense" and zeros > 0
        if session is not None:
            self._text.setText(session.file_zeros.summary())
        self.setVisible(is_wanted and not self._is_closed)

    def _hide_for_good(self) -> None:
        self._is_closed = True
        self.hide()
