"""The central widget of the window: the chosen parameter and its views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QShowEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QTabWidget, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.actions.keyboard import order_tabs
from prune_gui.gui.runtime.startup import make_classes
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.registry import VIEWS
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold, icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes
from prune_gui.session.subjects import Subject, bare_facts, file_text

LOCK_PX = 14


class ViewTabs(QWidget):
    """The views of the chosen parameter, below a header. Only the view in front does any work.

    A view is created on first use: when it comes to the front, or when `view` returns it. The
    window appears sooner this way, because the plotting library takes long to load.
    """

    changed = Signal()  # another view is in front, or it has another picture

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._viewport = Viewport()
        self._actions: Sequence[QAction] = ()
        self._memory: int | None = None
        self._views: dict[str, View[Any]] = {}
        self._tabs = QTabWidget(documentMode=True)
        # In the tab order, only the tab bar counts, not the tab widget.
        self._tabs.setFocusProxy(None)  # type: ignore[arg-type]  # it may be None
        self._tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for widget in (self._tabs, self._tabs.tabBar()):
            widget.setAccessibleName(tr("Views of the parameter"))
        for spec in VIEWS:
            self._tabs.addTab(QWidget(), tr(spec.title))
        # Both ends of a long name distinguish it from others.
        self._name = ElidedLabel(tr("Chosen parameter"), elide=Qt.TextElideMode.ElideMiddle)
        self._name.setFont(bold(self._name.font()))
        self._lock = QLabel(alignment=Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
        self._lock.setFixedSize(LOCK_PX + GAP_PX, LOCK_PX + TIGHT_PX)
        self._lock.setToolTip(tr("protected: no step prunes it"))
        self._facts = ElidedLabel(tr("Shape, type and sparsity"))
        self._reference = layouts.remark(wrapped=False)
        self._reference.setAccessibleName(tr("Reference: the checkpoint before pruning"))
        for label in (self._name, self._facts, self._reference):
            label.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, 0)
        above = layouts.row(self._lock, (self._name, 1), self._reference, margin=0, gap=0)
        layouts.column(above, self._facts, (self._tabs, 1), of=self, margin=0, gap=0)
        workbench.changed.connect(self._on_changed)
        workbench.files.opened.connect(self._on_opened)
        self._tabs.currentChanged.connect(self._tab_changed)
        self._update_header()

    def view(self, key: str) -> View[Any]:
        if key not in self._views:
            self._create(key)
        return self._views[key]

    @property
    def current(self) -> View[Any] | None:
        """The view in front; None until it is created."""
        return self._views.get(VIEWS[self._tabs.currentIndex()].key)

    @property
    def front(self) -> View[Any]:
        """The view in front, created if needed."""
        return self.view(VIEWS[self._tabs.currentIndex()].key)

    def bring_forward(self, key: str) -> None:
        self._tabs.setCurrentIndex([spec.key for spec in VIEWS].index(key))

    def make_ahead(self, then: Callable[[], None] = lambda: None) -> None:
        """Load the view in front in the background before a file is opened, then the others."""
        in_front = VIEWS[self._tabs.currentIndex()]

        def loaded() -> None:
            self._make_front()
            QTimer.singleShot(0, self, then)

        def load_all() -> None:
            for spec in VIEWS:
                spec.load()

        for _ in make_classes():
            pass
        self._workbench.bridge.load(in_front.load, loaded)
        self._workbench.bridge.load(load_all, lambda: None, idle=True)

    def limit_memory(self, nbytes: int) -> None:
        self._memory = nbytes
        for view in self._views.values():
            self._limit_view(view)

    def dismantle(self) -> None:
        """Release what Qt does not delete together with the views."""
        self.limit_memory(0)
        if not self._views:
            return
        # pyqtgraph: slow to import
        from prune_gui.gui.views.plot import Plot

        for plot in self.findChildren(Plot):
            plot.close()  # releases menus without a parent, and its own parent
            plot.deleteLater()

    def offer(self, actions: Sequence[QAction]) -> None:
        self._actions = actions
        for view in self._views.values():
            self._offer_on(view)

    def _create(self, key: str) -> None:
        index = [spec.key for spec in VIEWS].index(key)
        spec = VIEWS[index]
        self._views[key] = view = spec.create(self._workbench, self._viewport)
        self._limit_view(view)
        self._offer_on(view)
        view.pictured.connect(self.changed)
        view.view_wanted.connect(self._show_wanted)
        empty = self._tabs.widget(index)
        assert empty is not None
        had_focus = empty.hasFocus()  # the placeholder has the focus if nothing in it accepts it
        with QSignalBlocker(self._tabs):  # keep the current tab
            in_front = self._tabs.currentIndex()
            self._tabs.insertTab(index, view, tr(spec.title))
            self._tabs.setCurrentIndex(in_front)
            self._tabs.removeTab(index + 1)
        self._fit_front()
        order_tabs(self._tabs)
        if had_focus:
            self._tabs.tabBar().setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _fit_front(self) -> None:
        """Let the tabs be as small as the view in front can be."""
        for index in range(self._tabs.count()):
            is_front = index == self._tabs.currentIndex()
            policy = QSizePolicy.Policy.Preferred if is_front else QSizePolicy.Policy.Ignored
            view = self._tabs.widget(index)
            assert view is not None
            view.setSizePolicy(policy, policy)

    def _limit_view(self, view: View[Any]) -> None:
        if self._memory is not None:
            caching = sum(spec.is_map or spec.caches_pictures for spec in VIEWS)
            view.limit_memory(self._memory // caching)

    def _offer_on(self, view: View[Any]) -> None:
        view.addActions(self._actions)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _make_front(self) -> None:
        _ = self.front

    def _tab_changed(self) -> None:
        if self.isVisible():
            self._make_front()
        self._fit_front()
        self.changed.emit()

    def _show_wanted(self, key: str) -> None:
        self.bring_forward(key)
        self.front.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_opened(self, continued: bool) -> None:
        """Bring the first view to the front for another checkpoint, but not for a reloaded one."""
        if not continued:
            self._tabs.setCurrentIndex(0)

    def _on_changed(self, changes: Changes) -> None:
        is_concerned = changes.concerns(self._workbench.chosen or "")
        is_shown = changes.file or changes.selection or changes.zeros or changes.comparison
        if is_shown or is_concerned or changes.recipe:
            self._update_header()

    def _update_header(self) -> None:
        session, name = self._workbench.session, self._workbench.chosen
        info = session.checkpoint.tensors.get(name) if session and name is not None else None
        subject_or_message = self._workbench.subject
        if isinstance(subject_or_message, Subject):
            facts = subject_or_message.facts()
        else:
            facts = bare_facts(info) if info else ""
        masks = self._workbench.comparison.reference_masks
        reference = file_text(masks.checkpoint.path) if masks is not None else ""
        self._reference.setText(tr("reference: {name}", name=reference) if reference else "")
        is_protected = session is not None and name in session.protected
        self._lock.setVisible(is_protected)
        self._lock.setPixmap(icon("lock").pixmap(LOCK_PX))
        for label, text in ((self._name, one_line(name or "")), (self._facts, facts)):
            label.say(text, tip=text)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_lock"):
            self._update_header()  # draws the lock

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._make_front()
