"""The main window: docks around the views, menus and toolbar."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QActionGroup,
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QToolBar, QWidget
from shiboken6 import isValid

from prune_gui.checkpoint.remote.access import FetchLimitError
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.actions import menus
from prune_gui.gui.actions.keyboard import PaneNavigation, PeekOriginal
from prune_gui.gui.dialogs import presets
from prune_gui.gui.dialogs.questions import ErrorBox
from prune_gui.gui.panel_window import PanelWindow
from prune_gui.gui.panels.notices import CorrectionNotice, OriginalNotice, ReloadNotice, ZeroNotice
from prune_gui.gui.panels.welcome import Welcome
from prune_gui.gui.runtime.log_feed import LogEntry
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.frames import DropHint, FocusFrame, deleted_on_close, scrolled
from prune_gui.gui.workbench import Workbench
from prune_gui.language import join_items, tr
from prune_gui.pruning.methods import Method
from prune_gui.session.changes import Changes

MAX_DROPPED_NAMES: Final = 3
"""Limit of the names that are shown while files are dragged over the window."""
WIDTH_PX: Final = 1440
"""Initial width of the window, unless the screen is smaller."""
TREE_PX: Final = 400
NARROW_TREE_PX: Final = 330
"""Initial width of the tree on a smaller screen, where all tabs of the views must fit."""
PRUNING_PX: Final = 344
"""Initial width of the dock with the draft and the stack."""
NARROW_PX: Final = 340
SLIM_PX: Final = 90
LOW_PX: Final = 140
"""Size below which views and docks are scrolled, for small screens."""
EVALUATE_PX: Final = 360
"""Initial height of the dock that evaluates, with a readable plot."""


class MainWindow(PanelWindow):
    """Lays out the panels, and makes those connections between them that bypass the workbench."""

    closed = Signal()  # the user closed the window; all questions are answered

    def __init__(self, workbench: Workbench, preferences: Preferences, log_file: Path) -> None:
        super().__init__(workbench, preferences, log_file)
        self._close_confirmed = False
        self._log_file = log_file
        self._errors = ErrorBox(self)
        self.menu_actions = menus.Actions(self)
        self.setWindowTitle("Prune GUI[*]")
        self.setAcceptDrops(True)
        self.setStatusBar(self.status)
        self.reload_notice = ReloadNotice(workbench, self.menu_actions["reload"])
        self.status.addPermanentWidget(self.reload_notice)
        self._welcome = Welcome(self.menu_actions.several(menus.WELCOME))
        self._centre = layouts.pages(self._welcome, self._make_view_page())
        self.setCentralWidget(self._centre)
        self._fill_docks()
        middle = self.tree, self._welcome, self.views, self.draft, self.stack
        self.panes = PaneNavigation(self, (*middle, self.history, self.evaluate, self.log))
        self._focus_frame = FocusFrame(self)
        self._drop_hint = DropHint(self)
        self._make_toolbar()
        self._make_menus()
        several = self.menu_actions.several
        self.stack.offer(several(menus.STACK_MENU), several(menus.STACK_BUTTONS))
        self.tree.offer(several(menus.TREE_MENU))
        self.views.offer(several(menus.VIEW_MENU))
        self.share_memory(1)
        self._connect()
        self.tree.group_by(self.commands.settings.group_by)
        self._peek_original = PeekOriginal(workbench, self)
        preferences.changed.connect(self._follow_setting)
        self.resize(WIDTH_PX, 900)
        self.docks.note_first_layout()
        if preferences.now.window is not None:
            self.docks.restore(*preferences.now.window)
        self._refresh()

    def _show_palette(self) -> None:
        """Open the command palette: actions, presets, docks, views, recent files, parameters.

        Whether files exist is looked up on the thread of the engine: a lost network is slow.
        """
        from prune_gui.gui.actions import palette  # rarely shown

        preset_actions = self._presets.fill() if self.workbench.session is not None else []
        entries = [
            *palette.of_actions(self.menu_actions, preset_actions, self.docks.actions),
            *palette.of_views(self.workbench, self.views),
        ]
        popup = palette.Palette(entries, self, partial(palette.of_parameters, self.workbench))
        settings, open_recent = self.commands.settings, partial(menus.open_recent, self)

        def add_files(gone: frozenset[str]) -> None:
            if isValid(popup):
                there = (path for path in settings.recent if path not in gone)
                popup.add(palette.of_files(there, open_recent))

        self.workbench.bridge.run_job("palette", lambda _: settings.gone(), add_files)
        deleted_on_close(popup).show()
        popup.setFocus(Qt.FocusReason.PopupFocusReason)

    def _show_shortcuts(self) -> None:
        from prune_gui.gui.actions import palette  # rarely shown

        deleted_on_close(palette.Shortcuts(self.menu_actions, self)).open()

    def _follow_setting(self, name: str) -> None:
        settings = self.commands.settings
        if name == "threads":
            self.workbench.bridge.use_threads(settings.threads)
        elif name == "device":
            self.workbench.bridge.use_device(settings.device)
        elif name == "picture_memory":
            self.share_memory(self._window_count)
        elif name == "group_by":
            self.tree.group_by(settings.group_by)
        self._refresh()

    def share_memory(self, windows: int) -> None:
        """Limit the picture memory of this window to an equal share among `windows` windows."""
        self._window_count = windows
        self.views.limit_memory(self.commands.settings.picture_memory * 10**6 // windows)

    def setVisible(self, visible: bool) -> None:  # noqa: N802
        super().setVisible(visible)
        if visible:
            self.docks.show_floating()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.docks.share_loss(event.oldSize().height() - event.size().height())

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Close, unless the user declines because something would be lost."""
        if not self._close_confirmed and not self.commands.may_close(self.close):
            event.ignore()
            return
        self.commands.preferences.change("window", self.docks.layout())
        self.recovery.stop()
        event.accept()
        self.closed.emit()

    def may_close(self) -> bool:
        """Raise the window, ask as `Commands.may_close` does, and return the answer."""
        self.bring_to_front()
        return self.commands.may_close(self.quit_wanted.emit)

    def bring_to_front(self, token: str = "") -> None:
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        if token:
            os.environ["XDG_ACTIVATION_TOKEN"] = token  # read by Qt on Wayland
        self.activateWindow()
        os.environ.pop("XDG_ACTIVATION_TOKEN", None)
        QApplication.alert(self)  # if the desktop has not activated it

    def leave(self) -> None:
        """Close without questions; the user has been asked."""
        self._close_confirmed = True
        self.close()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        paths = _local_paths(event)
        if paths:
            event.acceptProposedAction()
            names = join_items(one_line(path.name) for path in paths[:MAX_DROPPED_NAMES])
            self._drop_hint.say(tr("Drop to open {names}", names=names))

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:  # noqa: N802
        super().dragLeaveEvent(event)
        self._drop_hint.hide()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        event.acceptProposedAction()
        self._drop_hint.hide()
        self.commands.open_dropped(_local_paths(event))

    def _make_view_page(self) -> QWidget:
        page, views = QWidget(), QWidget()
        correction = CorrectionNotice(self.workbench)
        zeros = ZeroNotice(self.workbench, self.menu_actions["start_from_zeros"])
        original = OriginalNotice(self.workbench)
        original.choice_wanted.connect(self.commands.choose_reference)
        original.taken.connect(lambda: self.views.bring_forward("compare"))
        saved = self.commands.saving.notice
        saved.compare_wanted.connect(self.compare_with)
        layouts.column(self.views, of=views, margin=(2, 0, 2, 0))  # for a focus frame
        scrolling = scrolled(views, LOW_PX, NARROW_PX), 1  # without the notices: all see them
        layouts.column(scrolling, saved, original, zeros, correction, of=page, margin=0, gap=0)
        page.setMinimumWidth(NARROW_PX)
        return page

    def _fill_docks(self) -> None:
        sizes = 300, 200  # whatever fits the first form
        pruning = layouts.split(self.draft, self.stack, sizes=sizes, vertical=True)
        pruning.setStretchFactor(0, 3)
        pruning.setStretchFactor(1, 2)
        area, docks = Qt.DockWidgetArea, self.docks
        left, right = area.LeftDockWidgetArea, area.RightDockWidgetArea
        bottom = area.BottomDockWidgetArea
        # The draft keeps its height beside the dock that evaluates, whose points change the draft.
        self.setCorner(Qt.Corner.BottomRightCorner, right)
        docks.add("Modules", tr("Modules"), self.tree, left)
        docks.add("Pruning", tr("Pruning"), scrolled(pruning, LOW_PX), right)
        history = scrolled(self.history, LOW_PX, SLIM_PX)
        docks.add("History", tr("History"), history, left, hidden=True)
        evaluate = scrolled(self.evaluate, LOW_PX, NARROW_PX)
        docks.add("Evaluate", tr("Evaluate"), evaluate, bottom, hidden=True)
        docks.set_first_height("Evaluate", EVALUATE_PX)
        docks.add("Log", tr("Log"), scrolled(self.log, LOW_PX, NARROW_PX), bottom, hidden=True)
        is_narrow = self.screen().availableGeometry().width() < WIDTH_PX
        docks.resize({"Modules": NARROW_TREE_PX if is_narrow else TREE_PX, "Pruning": PRUNING_PX})

    def _make_toolbar(self) -> None:
        bar = QToolBar(tr("Toolbar"))
        bar.setObjectName("Toolbar")
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        for section in menus.TOOLBAR:
            bar.addActions(self.menu_actions.several(section))
            if section is not menus.TOOLBAR[-1]:
                bar.addSeparator()
        self.addToolBar(bar)

    def _make_menus(self) -> None:
        self._recent = menus.FilledMenu(tr("Open rece&nt"), menus.fill_recent, self)
        self._states = menus.FilledMenu(tr("&State dict"), menus.fill_states, self)
        self._presets = menus.FilledMenu(
            tr("Prese&ts"), lambda menu, window: presets.fill_menu(menu, window.workbench), self
        )
        submenus = {
            menus.RECENT: self._recent,
            menus.STATES: self._states,
            menus.PRESETS: self._presets,
        }
        for title, sections in menus.MENUS.items():
            menu = self.menuBar().addMenu(tr(title))
            for section in sections:
                if not menu.isEmpty():
                    menu.addSeparator()
                for name in section:
                    if name == menus.DOCKS:
                        menu.addActions(self.docks.actions)
                    elif name in submenus:
                        menu.addMenu(submenus[name])
                    else:
                        menu.addAction(self.menu_actions[name])
        for exclusive in menus.EXCLUSIVE:
            group = QActionGroup(self)
            for name in exclusive:
                group.addAction(self.menu_actions[name])

    def _connect(self) -> None:
        self.palette_wanted.connect(self._show_palette)
        self.shortcuts_wanted.connect(self._show_shortcuts)
        self.tree.selected.connect(self.draft.targets.follow)
        self.tree.targeted.connect(self.draft.targets.choose)
        self.stack.edit_wanted.connect(self.draft.edit)
        self.stack.current_changed.connect(self.menu_actions.refresh)
        self.status.busy_changed.connect(self.menu_actions.refresh)
        self.status.settings_wanted.connect(self.show_settings)
        self.views.changed.connect(self.menu_actions.refresh)
        self.evaluate.amount_wanted.connect(self.draft.edit_with_amount)
        self.draft.form.fold.open(on=self.commands.settings.more_fields)
        change = self.commands.preferences.change
        self.draft.form.fold_toggled.connect(lambda on: change("more_fields", on))
        self.draft.added.connect(self.stack.list.setFocus)
        self.draft.offer_changed.connect(self.menu_actions.refresh)
        self._welcome.wanted.connect(self.commands.open_path)
        self.workbench.changed.connect(self._on_changed)
        self.workbench.saved.connect(lambda path: self.status.say(tr("Saved {path}", path=path)))
        self.workbench.noted.connect(self.status.say)
        self.workbench.methods_loaded.connect(self._show_loaded_methods)
        self.workbench.failed.connect(self._failed)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._opened()
        elif changes.recipe or changes.draft or changes.saved or changes.comparison:
            self._refresh()

    def _opened(self) -> None:
        self._centre.setCurrentIndex(1)
        self._refresh()
        session = self.workbench.session
        if session is not None and session.past_steps:
            self.status.say(tr("The steps that made this file are listed above the stack."))

    def _refresh(self) -> None:
        session = self.workbench.session
        if session is not None:
            location = session.checkpoint.location
            # Qt replaces [*] in a title by the mark for unsaved changes; [*][*] is a literal [*].
            texts = (location.name, str(location.parent))
            name, folder = (text.replace("[*]", "[*][*]") for text in texts)
            self.setWindowTitle(one_line(f"{name}[*] – {folder} – Prune GUI"))  # noqa: RUF001
            self.setWindowModified(session.unsaved)
        settings = self.commands.settings
        self._welcome.show_recent(settings.recent)
        if session is None and settings.recent:
            bridge = self.workbench.bridge
            bridge.run_job("welcome", lambda _: settings.gone(), self._welcome.disable)
        self._recent.setEnabled(bool(self.commands.settings.recent))
        self._presets.setEnabled(session is not None)
        self._states.setEnabled(session is not None and len(session.checkpoint.candidates) > 1)
        self.menu_actions.refresh()

    def _show_loaded_methods(self, methods: Sequence[type[Method]]) -> None:
        titles = join_items(tr(method.title) for method in methods)
        file = Path(methods[0].source).name
        self.status.say(tr("Loaded {methods} from {file}", methods=titles, file=file))

    def _failed(self, tried: str, error: BaseException) -> None:
        if isinstance(error, FetchLimitError):
            self.commands.remote.ask(error)
        elif isinstance(error, PruneGuiError):
            self._errors.show(str(error), LogEntry.of_error(tried, error).whole)
        else:
            self.show_fault(tried, error)

    def show_fault(self, tried: str, error: BaseException) -> None:
        """Show that an action failed because of a fault of the program, and name the log file."""
        text = tr(
            "{tried} failed because of an internal error. See the log at {path}.",
            tried=tried,
            path=self._log_file,
        )
        self._errors.show(text, LogEntry.of_error(tried, error).whole)


def _local_paths(event: QDropEvent) -> list[Path]:
    return [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
