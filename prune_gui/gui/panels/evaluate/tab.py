"""What the pages of the dock share: a run, its messages, and the export of its results."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.evaluations import Evaluations, MakeJob
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.spacing import GAP_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.gui.export.exporter import Exporter
    from prune_gui.table import Table

CONTROLS_PX: Final = 230
"""Width of the column with the controls."""


class EvaluationTab(QWidget):
    """A page with controls at its left and results at its right.

    Attributes:
        ticket: None: there is no job that computes the picture; see `PictureSource`.
        run: the button that starts the run.
        save_picture: the action that saves the picture.
        save_table: the action that saves the table.

    Signals:
        pictured: as of `PictureSource`; the picture needs no job, so it is never emitted.
        draft_wanted: (request) the user wants this `DraftRequest` as the draft.
    """

    ticket: int | None = None
    pictured = Signal()
    draft_wanted = Signal(object)

    def __init__(
        self,
        workbench: Workbench,
        evaluations: Evaluations,
        exporter: Exporter,
        title: str,
        *,
        with_picture: bool,
    ) -> None:
        super().__init__()
        self._workbench = workbench
        self._evaluations = evaluations
        self.run = QPushButton(title)
        self.run.clicked.connect(self._run)
        self.note = Message()
        menu = QMenu(self)
        self.save_picture = menu.addAction(tr("Save picture…"))
        self.save_picture.triggered.connect(lambda: exporter.save_picture(self))
        copy_picture = menu.addAction(tr("Copy picture"))
        copy_picture.triggered.connect(lambda: exporter.copy_picture(self))
        self.save_table = menu.addAction(tr("Save table as CSV…"))
        self.save_table.triggered.connect(lambda: exporter.save_table(self))
        copy_table = menu.addAction(tr("Copy table"))
        copy_table.triggered.connect(lambda: exporter.copy_table(self))
        for action in (self.save_picture, copy_picture):
            action.setVisible(with_picture)
        self.export = QToolButton(popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self.export.setText(tr("Export"))
        self.export.setMenu(menu)
        evaluations.chosen.connect(self.clear)
        evaluations.metric_changed.connect(self.refresh)
        evaluations.running_changed.connect(self._enable)
        workbench.changed.connect(self._on_changed)

    @abstractmethod
    def clear(self) -> None:
        """Remove the results."""

    @abstractmethod
    def refresh(self) -> None:
        """Show the results with the current metric, in the current colours."""

    @abstractmethod
    def _has_results(self) -> bool:
        """Return whether there are results to export."""

    @abstractmethod
    def picture(self) -> QWidget | None:
        """Return the picture to export; None without results."""

    @abstractmethod
    def table(self) -> Table | None:
        """Return the table to export; None without results."""

    @abstractmethod
    def _run(self) -> None:
        """Start the run."""

    @abstractmethod
    def _take(self, found: object) -> None:
        """Show what the run has reported."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the checkpoint, and the metric."""
        session, choice = self._workbench.session, self._evaluations.choice
        name = session.checkpoint.path.name if session is not None else ""
        return name, f"{self.accessibleName()}: {choice.text if choice else ''}"

    def legend(self) -> str:
        """Return the legend as rich text; "" for none."""
        return ""

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.refresh()

    def _lay_out(self, form: QFormLayout, results: QWidget, *more: QWidget) -> None:
        """Lay out the controls with the buttons, and the results beside them."""
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setContentsMargins(0, 0, 0, 0)
        buttons = QHBoxLayout()
        for widget in (self.run, *more, self.export):
            buttons.addWidget(widget)
        buttons.addStretch()
        controls = QWidget()
        controls.setFixedWidth(CONTROLS_PX)
        column = QVBoxLayout(controls)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(form, 1)
        column.addWidget(self.note)
        column.addLayout(buttons)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.addWidget(controls)
        layout.addWidget(results, 1)
        self._results_widget = results
        self._enable()

    def _start(self, make_job: MakeJob) -> bool:
        """Start a run; return whether it has started."""
        run = self._evaluations.start(make_job)
        if run is None:
            return False
        self.note.say("")
        self._results_widget.setFocus()  # else it would move to any input
        run.found.connect(self._take)
        run.finished.connect(self._finish)
        run.ended.connect(self._end)
        return True

    def _finish(self, result: object) -> None:
        """Use the result of a run that has finished."""

    def _end(self, error: str) -> None:
        if error:
            self.note.say(error)
        self._enable()

    def _enable(self) -> None:
        """Enable what can be used now."""
        evaluations = self._evaluations
        is_ready = self._workbench.session is not None and evaluations.choice is not None
        self.run.setEnabled(is_ready and evaluations.run is None)
        self.export.setEnabled(self._has_results())

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.clear()
            self._enable()
