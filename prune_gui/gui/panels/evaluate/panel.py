"""The dock that evaluates: the evaluator, and a page for each kind of question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from prune_gui.gui.dialogs import questions
from prune_gui.gui.evaluations import Evaluations
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets.spacing import GAP_PX, TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.gui.export.exporter import Exporter

NO_CHECKPOINT: Final = deferred("Open a checkpoint to evaluate it.")
NO_EVALUATOR: Final = deferred(
    "Choose an evaluator to see what the pruned model is worth by your own measure: a function in "
    "a Python file, such as eval.py:evaluate, which gets a state dict or a path and returns a "
    "number or numbers by name; or a command such as python eval.py {checkpoint}, which prints "
    "them."
)


class EvaluatePanel(QWidget):
    """Shows the values of states, curves, the sensitivity and a search; made when first shown.

    Attributes:
        evaluations: the evaluator and its run; None until the panel is shown, as all others.
        chooser: the row with the evaluator.
        pages: what is missing, or `tabs`.
        tabs: the pages `states`, `sweep`, `sensitivity` and `search`.

    Signals:
        draft_wanted: (request) the user wants this `DraftRequest` as the draft.
        amount_wanted: (index, amount) the user wants the step at the index drafted with the amount.
    """

    draft_wanted = Signal(object)
    amount_wanted = Signal(int, object)

    def __init__(self, workbench: Workbench, preferences: Preferences, exporter: Exporter) -> None:
        super().__init__()
        self._workbench = workbench
        self._preferences = preferences
        self._exporter = exporter
        self.evaluations: Evaluations | None = None

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Make the content when it is shown for the first time."""
        super().showEvent(event)
        if self.evaluations is None:
            self._make()

    def _make(self) -> None:
        from prune_gui.gui.panels.evaluate.chooser import EvaluatorChooser  # made on demand
        from prune_gui.gui.panels.evaluate.search_tab import SearchTab  # made on demand
        from prune_gui.gui.panels.evaluate.sensitivity_tab import SensitivityTab  # made on demand
        from prune_gui.gui.panels.evaluate.states_tab import StatesTab  # made on demand
        from prune_gui.gui.panels.evaluate.sweep_tab import SweepTab  # made on demand

        workbench, exporter = self._workbench, self._exporter
        self.evaluations = evaluations = Evaluations(
            workbench,
            self._preferences,
            lambda spec: questions.agree_to_evaluate(self.window(), spec),
            self,
        )
        self.chooser = EvaluatorChooser(workbench, evaluations)
        self.states = StatesTab(workbench, evaluations, exporter)
        self.sweep = SweepTab(workbench, evaluations, exporter)
        self.sensitivity = SensitivityTab(workbench, evaluations, exporter)
        self.search = SearchTab(workbench, evaluations, exporter)
        self.sweep.amount_wanted.connect(self.amount_wanted)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        for tab, title in (
            (self.states, tr("States")),
            (self.sweep, tr("Sweep")),
            (self.sensitivity, tr("Sensitivity")),
            (self.search, tr("Search")),
        ):
            tab.draft_wanted.connect(self.draft_wanted)
            self.tabs.addTab(tab, title)
        self._empty = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._empty.setMargin(4 * GAP_PX)
        self._empty.setForegroundRole(self._empty.palette().ColorRole.PlaceholderText)
        self.pages = QStackedWidget()
        self.pages.addWidget(self._empty)
        self.pages.addWidget(self.tabs)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, GAP_PX)
        layout.addWidget(self.chooser)
        layout.addWidget(self.pages, 1)
        evaluations.chosen.connect(self._show)
        workbench.changed.connect(self._on_changed)
        evaluations.begin()
        self._show()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._show()

    def _show(self) -> None:
        """Show the pages, or what is missing for them."""
        has_file = self._workbench.session is not None
        has_evaluator = self.evaluations is not None and self.evaluations.choice is not None
        self.chooser.setEnabled(has_file)
        self._empty.setText(tr(NO_EVALUATOR if has_file else NO_CHECKPOINT))
        self.pages.setCurrentIndex(int(has_file and has_evaluator))
