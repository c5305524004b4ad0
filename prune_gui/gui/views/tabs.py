"""The middle of the window: what is chosen, and the views of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from prune_gui.gui.panels.wording import sparsity
from prune_gui.gui.views.axes import TIMES
from prune_gui.gui.views.compare_view import CompareView
from prune_gui.gui.views.distribution_view import DistributionView
from prune_gui.gui.views.mask_view import MaskView
from prune_gui.gui.views.norms_view import NormsView
from prune_gui.gui.views.subject import Subject, subject_of

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench


class ViewTabs(QWidget):
    """The views of the chosen parameter, under a line that names it. The one in front works.

    Attributes:
        mask_view: which entries are pruned.
        distribution_view: the values; its `cut_dragged` tells that the draft's cut is moved.
        norms_view: the channels.
        compare_view: what another moment of the stack, or another checkpoint, prunes.
    """

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self.mask_view = MaskView(workbench)
        self.distribution_view = DistributionView(workbench)
        self.norms_view = NormsView(workbench)
        self.compare_view = CompareView(workbench)
        self._tabs = QTabWidget(documentMode=True)
        self._tabs.setAccessibleName("Views of the parameter")
        self._tabs.addTab(self.mask_view, "&Mask")
        self._tabs.addTab(self.distribution_view, "&Distribution")
        self._tabs.addTab(self.norms_view, "&Norms")
        self._tabs.addTab(self.compare_view, "&Compare")
        self._name, self._facts = QLabel(), QLabel()
        self._name.setAccessibleName("Chosen parameter")
        self._facts.setAccessibleName("Shape, type and sparsity")
        bold = self._name.font()
        bold.setBold(True)
        self._name.setFont(bold)
        self._name.setMinimumWidth(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for label in (self._name, self._facts):
            label.setContentsMargins(8, 3, 8, 0)
            layout.addWidget(label)
        layout.addWidget(self._tabs, 1)
        for signal in (workbench.opened, workbench.chosen_changed, workbench.resolved_changed):
            signal.connect(self._say)
        self._say()

    def _say(self) -> None:
        found = subject_of(self._workbench)
        known = isinstance(found, Subject)
        self._name.setVisible(known)
        self._facts.setVisible(known)
        if isinstance(found, Subject):
            self._facts.setText(facts(found))
            self._name.setToolTip(found.name)
        self._elide()

    def _elide(self) -> None:
        """Shorten a name that is too long in its middle: both of its ends tell it from others."""
        margins = self._name.contentsMargins()
        room = self.width() - margins.left() - margins.right()
        name = self._workbench.chosen or ""
        metrics = self._name.fontMetrics()
        self._name.setText(metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, room))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show as much of the name as there is room for."""
        super().resizeEvent(event)
        self._elide()


def facts(subject: Subject) -> str:
    """Say what a parameter is: "(384, 1536) · float32 · 294,912 of 589,824 pruned (50.0 %)"."""
    pruned, total = subject.resolution.counts[subject.name]
    shape = f" {TIMES} ".join(map(str, subject.info.shape)) or "a single number"
    return (
        f"{shape} · {subject.info.dtype} · "
        f"{pruned:,} of {total:,} pruned ({sparsity(pruned, total)})"
    )
