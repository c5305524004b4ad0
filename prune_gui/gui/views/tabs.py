"""The central widget of the window: the chosen parameter and its views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from prune_gui.audit.view_data.subject import Subject, bare_facts, facts
from prune_gui.errors import one_line
from prune_gui.gui.actions.pane_navigation import order_tabs
from prune_gui.gui.runtime.qt_classes import make_classes
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import ViewOf
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.gui.views.compare.compare_view import CompareView
    from prune_gui.gui.views.distribution.distribution_view import DistributionView
    from prune_gui.gui.views.layers.layers_view import LayersView
    from prune_gui.gui.views.maps.map_view import MapView
    from prune_gui.gui.views.maps.mask_view import MaskView
    from prune_gui.gui.views.maps.weights_view import WeightsView
    from prune_gui.gui.views.norms.norms_view import NormsView
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session.changes import Changes

TITLES: Final = {
    "mask_view": deferred("&Mask"),
    "weights_view": deferred("Wei&ghts"),
    "distribution_view": deferred("&Distribution"),
    "norms_view": deferred("&Norms"),
    "layers_view": deferred("&Layers"),
    "compare_view": deferred("Compa&re"),
}
"""Tab title of each view, by its attribute name."""
MODULES: Final = (
    "compare.compare_view",
    "distribution.distribution_view",
    "layers.layers_view",
    "maps.mask_view",
    "maps.weights_view",
    "norms.norms_view",
)
"""The modules of the views, below this package."""
MAPS: Final = ("mask_view", "weights_view")
"""The views that cache tiles."""

AnyView = TypeVar("AnyView", bound=ViewOf[Any])


class ViewTabs(QWidget):
    """The views of the chosen parameter, below a header. Only the view in front does any work.

    A view is created on first use: when it comes to the front, or when its attribute is read. The
    window appears sooner this way, because the plotting library takes long to load.

    Attributes:
        mask_view: which elements are pruned.
        weights_view: the weights, element by element.
        distribution_view: the distribution of values.
        norms_view: the channels.
        layers_view: all parameters.
        compare_view: what another state of the stack, or another checkpoint, prunes.

    Signals:
        changed: another view is in front, or it has another picture.
        cut_dragged, score_cut_dragged: of the distribution.
        rank_cut_dragged, prune_wanted, protect_wanted: of the norms.
    """

    changed = Signal()
    cut_dragged = Signal(float)
    score_cut_dragged = Signal(float)
    rank_cut_dragged = Signal(float)
    prune_wanted = Signal(int, object)
    protect_wanted = Signal(int, object)

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._viewport = Viewport()
        self._actions: Sequence[QAction] = ()
        self._memory: int | None = None
        self._tabs = QTabWidget(documentMode=True)
        # In the tab order, only the tab bar counts, not the tab widget.
        self._tabs.setFocusProxy(None)  # type: ignore[arg-type]  # it may be None
        self._tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for widget in (self._tabs, self._tabs.tabBar()):
            widget.setAccessibleName(tr("Views of the parameter"))
        for title in TITLES.values():
            self._tabs.addTab(QWidget(), tr(title))
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
        workbench.changed.connect(self._on_changed)
        self._tabs.currentChanged.connect(self._tab_changed)
        self._update_header()

    @cached_property
    def mask_view(self) -> MaskView:  # noqa: D102
        from prune_gui.gui.views.maps.mask_view import MaskView

        view = MaskView(self._workbench, self._viewport)
        self._limit_view(view)
        return self._add("mask_view", view)

    @cached_property
    def weights_view(self) -> WeightsView:  # noqa: D102
        from prune_gui.gui.views.maps.weights_view import WeightsView

        view = WeightsView(self._workbench, self._viewport)
        self._limit_view(view)
        return self._add("weights_view", view)

    @cached_property
    def distribution_view(self) -> DistributionView:  # noqa: D102
        from prune_gui.gui.views.distribution.distribution_view import DistributionView

        view = DistributionView(self._workbench)
        view.cut_dragged.connect(self.cut_dragged)
        view.score_cut_dragged.connect(self.score_cut_dragged)
        return self._add("distribution_view", view)

    @cached_property
    def norms_view(self) -> NormsView:  # noqa: D102
        from prune_gui.gui.views.norms.norms_view import NormsView

        view = NormsView(self._workbench)
        view.cut_dragged.connect(self.rank_cut_dragged)
        view.prune_wanted.connect(self.prune_wanted)
        view.protect_wanted.connect(self.protect_wanted)
        return self._add("norms_view", view)

    @cached_property
    def layers_view(self) -> LayersView:  # noqa: D102
        from prune_gui.gui.views.layers.layers_view import LayersView

        return self._add("layers_view", LayersView(self._workbench))

    @cached_property
    def compare_view(self) -> CompareView:  # noqa: D102
        from prune_gui.gui.views.compare.compare_view import CompareView

        return self._add("compare_view", CompareView(self._workbench, self._viewport))

    @property
    def current(self) -> ViewOf[Any] | None:
        """The view in front; None until it is created."""
        front = self._tabs.currentWidget()
        return front if isinstance(front, ViewOf) else None

    @property
    def front(self) -> ViewOf[Any]:
        """The view in front, created if needed."""
        view: ViewOf[Any] = getattr(self, list(TITLES)[self._tabs.currentIndex()])
        return view

    def make_ahead(self, then: Callable[[], None] = lambda: None) -> None:
        """Load what the views need in the background, and create the view in front.

        Call it before a file is opened: a view that is needed earlier blocks until all is loaded.

        Args:
            then: called in a later event loop iteration, once there is a view in front.
        """

        def loaded() -> None:
            self._make_front()
            QTimer.singleShot(0, self, then)

        for _ in make_classes():
            pass
        self._workbench.bridge.load(_load_views, loaded)

    def limit_memory(self, nbytes: int) -> None:
        """Limit the tiles of all views together to a number of bytes."""
        self._memory = nbytes
        for name in MAPS:
            if name in vars(self):
                self._limit_view(getattr(self, name))

    def dismantle(self) -> None:
        """Release what Qt does not delete together with the views."""
        self.limit_memory(0)
        if not self._views():
            return
        from prune_gui.gui.views.plot import Plot

        for plot in self.findChildren(Plot):
            plot.close()  # releases menus without a parent, and its own parent
            plot.deleteLater()

    def offer(self, actions: Sequence[QAction]) -> None:
        """Add actions to the context menu of every view."""
        self._actions = actions
        for view in self._views():
            self._offer_on(view)

    def _add(self, name: str, view: AnyView) -> AnyView:
        """Put a view into its tab."""
        self._offer_on(view)
        view.pictured.connect(self.changed)
        index = list(TITLES).index(name)
        empty = self._tabs.widget(index)
        assert empty is not None
        had_focus = empty.hasFocus()  # the placeholder has the focus if nothing in it accepts it
        with QSignalBlocker(self._tabs):  # keep the current tab
            in_front = self._tabs.currentIndex()
            self._tabs.insertTab(index, view, tr(TITLES[name]))
            self._tabs.setCurrentIndex(in_front)
            self._tabs.removeTab(index + 1)
        order_tabs(self._tabs)
        if had_focus:
            self._tabs.tabBar().setFocus(Qt.FocusReason.ShortcutFocusReason)
        return view

    def _limit_view(self, view: MapView) -> None:
        if self._memory is not None:
            view.limit_memory(self._memory // len(MAPS))

    def _offer_on(self, view: ViewOf[Any]) -> None:
        view.addActions(self._actions)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _views(self) -> list[ViewOf[Any]]:
        """Return the views that exist."""
        tabs = (self._tabs.widget(index) for index in range(self._tabs.count()))
        return [view for view in tabs if isinstance(view, ViewOf)]

    def _make_front(self) -> None:
        _ = self.front

    def _tab_changed(self) -> None:
        if self.isVisible():
            self._make_front()
        self.changed.emit()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file or changes.selection or changes.concerns(self._workbench.chosen or ""):
            self._update_header()

    def _update_header(self) -> None:
        session, name = self._workbench.session, self._workbench.chosen
        info = session.checkpoint.tensors.get(name) if session and name is not None else None
        subject_or_message = self._workbench.subject
        if isinstance(subject_or_message, Subject):
            self._facts.setText(facts(subject_or_message))
        else:
            self._facts.setText(bare_facts(info) if info else "")
        self._name.setToolTip(one_line(name or ""))
        self._elide()

    def _elide(self) -> None:
        """Elide a long name in the middle, because both of its ends distinguish it from others."""
        margins = self._name.contentsMargins()
        available_width = self.width() - margins.left() - margins.right()
        name = one_line(self._workbench.chosen or "")
        metrics = self._name.fontMetrics()
        self._name.setText(metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, available_width))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Elide the name to the new width."""
        super().resizeEvent(event)
        self._elide()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Create the view in front."""
        super().showEvent(event)
        self._make_front()


def _load_views() -> None:
    for name in MODULES:
        import_module(f"prune_gui.gui.views.{name}")
