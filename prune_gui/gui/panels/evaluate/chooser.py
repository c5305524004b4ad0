"""The row of the dock that chooses the evaluator and its metric, and shows and cancels its run."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError
from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.choice import EvaluatorChoice, functions_in
from prune_gui.gui.dialogs import questions
from prune_gui.gui.evaluations import Evaluations
from prune_gui.gui.panels.evaluate.options import OptionsDialog
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.gui.widgets.elided_line_edit import ElidedLineEdit
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session.session import start_folder

HINT: Final = deferred("eval.py:evaluate, or python eval.py {checkpoint}")
USUAL_NAME: Final = "evaluate"
"""The function that is chosen if a file has several."""
MIN_CHARS: Final = 12
"""Minimum width of the boxes, in characters."""


class EvaluatorChooser(QWidget):
    """Chooses the evaluator among recent ones, by typing, or with a file dialog."""

    def __init__(self, workbench: Workbench, evaluations: Evaluations) -> None:
        super().__init__()
        self._workbench = workbench
        self._evaluations = evaluations
        self.box = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        line = ElidedLineEdit(Qt.TextElideMode.ElideLeft)
        self.box.setLineEdit(line)
        self.box.setCompleter(None)  # type: ignore[arg-type]  # Qt accepts None
        line.setPlaceholderText(tr(HINT))
        self.box.setAccessibleName(tr("Evaluator"))
        self.box.setToolTip(
            tr(
                "A function in a Python file, which gets a path or a state dict and returns a "
                "number or numbers by name; or a command with {checkpoint} in it, which prints "
                "them."
            )
        )
        self.box.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.box.setMinimumContentsLength(MIN_CHARS)
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.activated.connect(self._use_recent)
        line.editingFinished.connect(self._use_text)
        self.browse = QPushButton(tr("Browse…"))
        self.browse.clicked.connect(self._browse)
        self.options = QPushButton(tr("Options…"))
        self.options.clicked.connect(self._edit_options)
        self.metric_box = ElidedComboBox()
        self.metric_box.setAccessibleName(tr("Metric"))
        self.metric_box.setToolTip(tr("Which of the numbers that the evaluator returns counts"))
        self.metric_box.activated.connect(
            lambda index: evaluations.choose_metric(self.metric_box.itemText(index))
        )
        self._progress = QLabel()
        self.cancel = QPushButton(tr("Cancel"))
        self.cancel.setToolTip(tr("End the evaluator; what it has found is kept"))
        self.cancel.clicked.connect(evaluations.cancel)
        self.problem = Message()
        self._lay_out()
        evaluations.chosen.connect(self._show)
        evaluations.metric_changed.connect(self._show_metric)
        evaluations.running_changed.connect(self._show_running)
        evaluations.progressed.connect(self._progress.setText)
        evaluations.failed.connect(self.problem.say)
        workbench.changed.connect(lambda changes: self._show() if changes.file else None)
        self._show()
        self._show_metric()
        self._show_running()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        for widget, stretch in (
            (QLabel(tr("Evaluator")), 0),
            (self.box, 1),
            (self.browse, 0),
            (self.options, 0),
            (QLabel(tr("Metric")), 0),
            (self.metric_box, 0),
            (self._progress, 0),
            (self.cancel, 0),
        ):
            row.addWidget(widget, stretch)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.problem)

    def _show(self) -> None:
        choice = self._evaluations.choice
        with QSignalBlocker(self.box):
            self.box.clear()
            self.box.addItems([recent.text for recent in self._evaluations.recent])
            self.box.setCurrentIndex(self.box.findText(choice.text) if choice else -1)
            self.box.setEditText(choice.text if choice else "")
        self.options.setEnabled(choice is not None)

    def _show_metric(self) -> None:
        chosen = self._evaluations.metric.name
        names = self._evaluations.metrics or ((chosen,) if chosen else ())
        with QSignalBlocker(self.metric_box):
            self.metric_box.clear()
            self.metric_box.addItems(names)
            self.metric_box.setCurrentIndex(max(self.metric_box.findText(chosen or ""), 0))
        self.metric_box.setEnabled(len(names) > 1)

    def _show_running(self) -> None:
        is_running = self._evaluations.run is not None
        self.cancel.setIcon(icon("cancel"))  # in the colours of the current theme
        self.cancel.setVisible(is_running)
        self._progress.setVisible(is_running)

    def _use_recent(self, index: int) -> None:
        self._use(self._evaluations.recent[index])

    def _use_text(self) -> None:
        text = self.box.currentText().strip()
        if not text or (self._evaluations.choice and text == self._evaluations.choice.text):
            return
        known = [recent for recent in self._evaluations.recent if recent.text == text]
        try:
            self._use(known[0] if known else EvaluatorChoice(text=text))
        except ValidationError:
            self.problem.say(tr("The text is too long."))

    def _use(self, choice: EvaluatorChoice) -> bool:
        """Choose an evaluator if it can be made, else show why not."""
        try:
            choice.make()
        except PruneGuiError as error:
            self.problem.say(str(error))
            return False
        self.problem.say("")
        self._evaluations.choose(choice)
        return True

    def _browse(self) -> None:
        path = questions.ask_evaluator(self, start_folder(self._workbench.session))
        if path is None:
            return
        try:
            names = functions_in(path)
        except PruneGuiError as error:
            self.problem.say(str(error))
            return
        name = names[0] if len(names) == 1 else USUAL_NAME
        if name not in names:
            name, agreed = QInputDialog.getItem(
                self, tr("Choose an evaluator"), tr("Function"), names, editable=False
            )
            if not agreed:
                return
        self._use(EvaluatorChoice(text=f"{path}:{name}"))

    def _edit_options(self) -> None:
        choice = self._evaluations.choice
        if choice is None:
            return
        dialog = OptionsDialog(choice, self)
        if dialog.exec() and dialog.choice is not None:
            self._use(dialog.choice)
        dialog.deleteLater()
