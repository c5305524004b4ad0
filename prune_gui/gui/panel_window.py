"""A window with its panels, and the docks, dialogs and lists that its actions show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMainWindow

from prune_gui.gui.actions.keyboard import PaneNavigation
from prune_gui.gui.commands import Commands
from prune_gui.gui.dialogs import presets, questions
from prune_gui.gui.dialogs.recovery import Recovery
from prune_gui.gui.docks import Docks
from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.evaluate.evaluate_panel import EvaluatePanel
from prune_gui.gui.figures.exporter import Exporter
from prune_gui.gui.modules.tree_panel import TreePanel
from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.panels.status_bar import StatusBar
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.stack.history_panel import HistoryPanel
from prune_gui.gui.stack.stack_panel import StackPanel
from prune_gui.gui.views import ViewTabs
from prune_gui.gui.widgets.frames import deleted_on_close
from prune_gui.gui.workbench import Workbench
from prune_gui.session import Crash, Session
from prune_gui.session.subjects import FILE, OtherCheckpoint

if TYPE_CHECKING:
    from prune_gui.training.run_folder import Run


class PanelWindow(QMainWindow):
    """What actions work on. `MainWindow` lays it out, and makes its menus."""

    another_wanted = Signal(object)  # (path or None) open another window, maybe with a checkpoint
    quit_wanted = Signal()
    palette_wanted = Signal()
    shortcuts_wanted = Signal()
    panes: PaneNavigation

    def __init__(self, workbench: Workbench, preferences: Preferences, log_file: Path) -> None:
        super().__init__()
        self.workbench = workbench
        self.last_crash: Crash | None = None  # of the previous run
        self.commands = Commands(self, workbench, preferences)
        self.recovery = Recovery(workbench, preferences, self)
        self.tree = TreePanel(workbench)
        self.draft = DraftPanel(workbench)
        self.stack = StackPanel(workbench)
        self.views: ViewTabs = ViewTabs(workbench)
        self.history = HistoryPanel(workbench)
        self.log = LogPanel(log_file)
        self.status = StatusBar(workbench)
        self.exporter = Exporter(self, workbench, preferences, lambda: self.evaluate.curves)
        self.evaluate = EvaluatePanel(workbench, preferences, self.exporter)
        self.docks = Docks(self)

    @property
    def session(self) -> Session | None:
        return self.workbench.session

    def compare_with(self, path: Path) -> None:
        """Compare a checkpoint, on the right, with the reference or with the open one."""
        comparison, session = self.workbench.comparison, self.session
        original = session.reference_path if session is not None else None
        comparison.choose("left", OtherCheckpoint(original) if original is not None else FILE)
        comparison.open(path, "right")
        self.views.bring_forward("compare")

    def show_evaluation(self) -> None:
        self.docks.show("Evaluate")

    def show_evaluated_sweep(self) -> None:
        self.show_evaluation()
        self.evaluate.tabs.setCurrentWidget(self.evaluate.sweep)

    def show_settings(self) -> None:
        from prune_gui.gui.dialogs.settings import SettingsDialog  # rarely shown

        deleted_on_close(SettingsDialog(self.commands.preferences, self)).open()

    def show_guide(self) -> None:
        from prune_gui.gui.dialogs.help import HelpWindow  # rarely shown

        guide = self.findChild(HelpWindow) or deleted_on_close(HelpWindow(self))
        guide.show()
        guide.activateWindow()

    def show_last_crash(self) -> None:
        from prune_gui.gui.dialogs.help import show_crash  # rarely shown

        if self.last_crash is not None:
            show_crash(self, self.last_crash)

    def show_about(self) -> None:
        from prune_gui.gui.dialogs.help import show_about  # rarely shown

        show_about(self)

    def show_sweep(self) -> None:
        from prune_gui.gui.dialogs.sweep import SweepDialog  # rarely shown

        dialog = SweepDialog(self.workbench, self.exporter, self.stack.current, self)
        dialog.amount_wanted.connect(self.draft.edit_with_amount)
        dialog.evaluation_wanted.connect(self.show_evaluated_sweep)
        deleted_on_close(dialog).show()

    def show_report(self) -> None:
        from prune_gui.gui.dialogs.report import ReportDialog  # rarely shown

        deleted_on_close(ReportDialog(self.workbench, self.commands.folder, self)).show()

    def save_preset(self) -> None:
        presets.save_stack(self.workbench, self)

    def show_presets(self) -> None:
        deleted_on_close(presets.PresetDialog(self.workbench, self)).open()

    def show_reconstruct(self) -> None:
        from prune_gui.gui.dialogs.reconstruct import ReconstructDialog  # rarely shown

        dialog = ReconstructDialog(self.workbench, self.commands.folder, self)
        dialog.open_wanted.connect(self.another_wanted)
        dialog.compare_wanted.connect(self.compare_with)
        deleted_on_close(dialog).show()

    def show_run(self) -> None:
        from prune_gui.gui.runs import film_window as film  # rarely shown

        folder = questions.ask_folder(self, self.commands.folder, film.FOLDER)
        if folder is not None:
            bridge = self.workbench.bridge

            def show(run: Run) -> None:
                deleted_on_close(film.FilmWindow(bridge, run, self)).show()

            film.open_run(bridge, folder, show)

    def show_batch(self) -> None:
        from prune_gui.gui.dialogs.batch import BatchDialog  # rarely shown

        dialog = BatchDialog(self.workbench, self.exporter, self.commands.folder, self)
        deleted_on_close(dialog).show()
