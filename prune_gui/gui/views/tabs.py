"""The middle of the window: what is chosen, and the views of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from prune_gui.gui.views.compare_view import CompareView
from prune_gui.gui.views.distribution_view import DistributionView
from prune_gui.gui.views.layers_view import LayersView
from prune_gui.gui.views.mask_view import MaskView
from prune_gui.gui.views.norms_view import NormsView
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.subject import Subject, facts, subject_of
from prune_gui.gui.views.view import ViewOf
from prune_gui.gui.views.weights_view import WeightsView
from prune_gui.gui.views.whereabouts import Whereabouts
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench


class ViewTabs(QWidget):
    """The views of the chosen parameter, under a line that names it. The one in front works.

    Attributes:
        mask_view: which entries are pruned.
        weights_view: the numbers, entry by entry.
        distribution_view: the values; its `cut_dragged` tells that the draft's cut is moved.
        norms_view: the channels.
        layers_view: all parameters.
        compare_view: what another moment of the stack, or another checkpoint, prunes.

    Signals:
        changed: another view is in front, or it has another picture.
    """

    changed = Signal()

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        whereabouts = Whereabouts()
        self.mask_view = MaskView(workbench, whereabouts)
        self.weights_view = WeightsView(workbench, whereabouts)
        self.distribution_view = DistributionView(workbench)
        self.norms_view = NormsView(workbench)
        self.layers_view = LayersView(workbench)
        self.compare_view = CompareView(workbench, whereabouts)
        self._tabs = QTabWidget(documentMode=True)
        self._tabs.setAccessibleName(tr("Views of the parameter"))
        self._tabs.addTab(self.mask_view, tr("&Mask"))
        self._tabs.addTab(self.weights_view, tr("Wei&ghts"))
        self._tabs.addTab(self.distribution_view, tr("&Distribution"))
        self._tabs.addTab(self.norms_view, tr("&Norms"))
        self._tabs.addTab(self.layers_view, tr("&Layers"))
        self._tabs.addTab(self.compare_view, tr("Compa&re"))
        self._name, self._facts = QLabel(), QLabel()
        self._name.setAccessibleName(tr("Chosen parameter"))
        self._facts.setAccessibleName(tr("Shape, type and sparsity"))
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
        self._tabs.currentChanged.connect(lambda _: self.changed.emit())
        for view in self._views():
            view.pictured.connect(self.changed)
        self._say()

    @property
    def current(self) -> ViewOf[Any]:
        """The view in front."""
        return self._views()[self._tabs.currentIndex()]

    def limit_memory(self, nbytes: int) -> None:
        """Keep no more bytes of pictures than these, in all views together."""
        maps = (self.mask_view, self.weights_view)
        for view in maps:
            view.limit_memory(nbytes // len(maps))

    def dismantle(self) -> None:
        """Let go of what Qt would not take along when the views are deleted."""
        self.limit_memory(0)
        for plot in self.findChildren(Plot):
            plot.close()  # of menus that belong to no widget, and of its own parent
            plot.deleteLater()

    def offer(self, actions: Sequence[QAction]) -> None:
        """Offer actions in a menu on every view."""
        for view in self._views():
            view.addActions(actions)
            view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _views(self) -> list[ViewOf[Any]]:
        tabs = (self._tabs.widget(index) for index in range(self._tabs.count()))
        return [view for view in tabs if isinstance(view, ViewOf)]

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
