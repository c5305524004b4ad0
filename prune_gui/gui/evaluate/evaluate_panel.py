"""The dock that evaluates: the row that chooses the evaluator, and a page for each question."""

from __future__ import annotations

import shlex
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from PySide6.QtCore import QSignalBlocker, Qt, QUrl, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QInputDialog,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QSizePolicy,
    QTabWidget,
    QToolButton,
    QWidget,
)

from prune_gui.checkpoint.write.documents import (
    EVALUATOR_SUFFIXES,
    document_path,
    write_documents,
)
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.spec import EvaluatorChoice, functions_in
from prune_gui.gui.dialogs import questions
from prune_gui.gui.evaluate.evaluations import Evaluations
from prune_gui.gui.evaluate.tab import EvaluationTab
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.saving.output_boxes import typed_path
from prune_gui.gui.views.controls import Choice, switch
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel, ElidedLineEdit
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.number_formats import parse_bytes, short_bytes
from prune_gui.resources import resource
from prune_gui.session.session import start_folder

if TYPE_CHECKING:
    from prune_gui.gui.figures.exporter import Exporter
    from prune_gui.gui.figures.picture import PictureSource


NO_EVALUATOR: Final = deferred(
    "Choose an evaluator above, or begin with New evaluator: your own function or command that "
    "measures a pruned model."
)
TEMPLATES: Final = {
    "evaluate_torch.py": (deferred("For a model of &torch…"), "{path}:evaluate"),
    "evaluate_transformers.py": (deferred("For a model of t&ransformers…"), "{path}:evaluate"),
    "evaluate_command.py": (deferred("As a &command…"), "python {path} {{checkpoint}}"),
}
"""The templates of evaluators in the resources: a title, and the evaluator of a copy."""
HINT: Final = deferred("eval.py:evaluate, or python eval.py {checkpoint}")
USUAL_NAME: Final = "evaluate"
"""The function that is chosen if a file has several."""
MIN_CHARS: Final = 12
"""Minimum width of the boxes, in characters."""


class EvaluatePanel(QWidget):
    """Shows the values of states, curves, the sensitivity and a search; made when first shown."""

    amount_wanted = Signal(int, object)  # (index, amount) draft the step with the amount

    def __init__(self, workbench: Workbench, preferences: Preferences, exporter: Exporter) -> None:
        super().__init__()
        self._workbench = workbench
        self._preferences = preferences
        self._exporter = exporter
        self.evaluations: Evaluations | None = None

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        if self.evaluations is None:
            self._make()

    def _make(self) -> None:
        from prune_gui.gui.evaluate.search_tab import SearchTab  # made on demand
        from prune_gui.gui.evaluate.sensitivity_tab import SensitivityTab  # made on demand
        from prune_gui.gui.evaluate.states_tab import StatesTab  # made on demand
        from prune_gui.gui.evaluate.sweep_tab import SweepTab  # made on demand

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
        self.tabs = QTabWidget(documentMode=True)
        self.start = Choice(
            tr("Start from"),
            changed=lambda: evaluations.start_after(stack=self.start.value),
            tip=tr("What runs prune, and the draft in States: the file, or what the stack keeps"),
        )
        self.export = QToolButton(popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self.export.setText(tr("Export"))
        self.tabs.currentChanged.connect(lambda _: self._show_menu())
        corner = QWidget()
        layouts.row(QLabel(tr("Start from")), self.start, self.export, of=corner, margin=0)
        for tab, title in (
            (self.states, tr("States")),
            (self.sweep, tr("Sweep")),
            (self.sensitivity, tr("Sensitivity")),
            (self.search, tr("Search")),
        ):
            self.tabs.addTab(tab, title)
        self.tabs.setCornerWidget(corner)
        self._empty = layouts.remark()
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setMargin(4 * GAP_PX)
        self.pages = layouts.pages(self._empty, self.tabs)
        margin = GAP_PX, TIGHT_PX, GAP_PX, GAP_PX
        layouts.column(self.chooser, (self.pages, 1), of=self, margin=margin)
        self.chooser.refused.connect(self.pages.setDisabled)
        evaluations.chosen.connect(self._show)
        evaluations.start_changed.connect(self._show_start)
        workbench.changed.connect(lambda changes: self._show() if changes.file else None)
        evaluations.begin()
        self._show_start()
        self._show()

    @property
    def curves(self) -> PictureSource | None:
        """The page that shows results by the sparsity; None without any."""
        tabs = (self.sweep, self.search) if self.evaluations is not None else ()
        return next((tab for tab in tabs if tab.picture() is not None), None)

    def _show_start(self) -> None:
        if self.evaluations is not None:
            file, stack = self.evaluations.starts
            self.start.offer([(file, False), (stack, True)])
            self.start.choose(self.evaluations.after_stack)

    def _show_menu(self) -> None:
        tab = self.tabs.currentWidget()
        if isinstance(tab, EvaluationTab):
            self.export.setMenu(tab.menu)

    def _show(self) -> None:
        has_file = self._workbench.session is not None
        has_evaluator = self.evaluations is not None and self.evaluations.choice is not None
        self.chooser.setEnabled(has_file)
        no_checkpoint = tr("Open a checkpoint to evaluate it.")
        self._empty.setText(tr(NO_EVALUATOR) if has_file else no_checkpoint)
        self.pages.setCurrentIndex(int(has_file and has_evaluator))


class EvaluatorChooser(QWidget):
    """Chooses the evaluator among recent ones, by typing, or with a file dialog."""

    refused = Signal(bool)  # (on) whether the text in the box is not the evaluator chosen before

    def __init__(self, workbench: Workbench, evaluations: Evaluations) -> None:
        super().__init__()
        self._workbench = workbench
        self._evaluations = evaluations
        self._is_refused = False
        self.box = QComboBox(
            editable=True,
            insertPolicy=QComboBox.InsertPolicy.NoInsert,
            minimumContentsLength=MIN_CHARS,
            sizeAdjustPolicy=QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon,
        )
        line = ElidedLineEdit(Qt.TextElideMode.ElideLeft)
        self.box.setLineEdit(line)
        self.box.setCompleter(None)  # type: ignore[arg-type]  # Qt accepts None
        line.setPlaceholderText(tr(HINT))
        self.box.setAccessibleName(tr("Evaluator"))
        self.box.setToolTip(tr("A function in a Python file, or a command with {checkpoint} in it"))
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.activated.connect(lambda index: self._use(evaluations.recent[index]))
        line.editingFinished.connect(self._use_text)
        self.new = layouts.button(tr("New evaluator…"), lambda: None)
        menu = QMenu(self.new)
        for name, (title, _) in TEMPLATES.items():
            menu.addAction(tr(title), partial(self._write_new, name))
        self.new.setMenu(menu)
        self.browse = layouts.button(tr("Browse…"), self._browse)
        self.options = layouts.button(tr("Options…"), self._edit_options)
        tip = tr("Which of the numbers that the evaluator returns counts")
        self.metric_box = layouts.described(ElidedComboBox(), tr("Metric"), tip)
        self.metric_box.activated.connect(
            lambda index: evaluations.choose_metric(self.metric_box.itemText(index))
        )
        self.problem = Message()
        row = layouts.row((self.box, 1), self.new, self.browse, self.options, self.metric_box)
        layouts.column(row, self.problem, of=self, margin=0)
        evaluations.chosen.connect(self._show)
        evaluations.metric_changed.connect(self._show_metric)
        evaluations.failed.connect(self.problem.say_error)
        workbench.changed.connect(lambda changes: self._show() if changes.file else None)
        self._show()
        self._show_metric()

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
        self.metric_box.setVisible(len(names) > 1)

    def _use_text(self) -> None:
        text = self._with_folder(self.box.currentText().strip())
        chosen = self._evaluations.choice
        if not text or (chosen is not None and text == chosen.text):
            self._refuse(None)
            return
        known = [recent for recent in self._evaluations.recent if recent.text == text]
        try:
            self._use(known[0] if known else EvaluatorChoice(text=text))
        except ValidationError:
            self._refuse(PruneGuiError("The text is too long."))

    def _with_folder(self, text: str) -> str:
        """Return a function with the path of its file, if that is beside the open checkpoint."""
        file, _, function = text.rpartition(":")
        path = typed_path(file, start_folder(self._workbench.session))
        with suppress(OSError):  # such as a name that is too long
            if file.endswith(".py") and not Path(file).is_file() and path.is_file():
                return f"{path}:{function}"
        return text

    def _refuse(self, error: PruneGuiError | None) -> None:
        """Say why the text is no evaluator, or with None that it is the chosen one again."""
        if error is not None:
            self.problem.say_error(error.brief, error.details)
        elif self._is_refused:
            self.problem.say("")
        self._is_refused = error is not None
        self.refused.emit(self._is_refused)

    def _use(self, choice: EvaluatorChoice) -> None:
        try:
            choice.make()
        except PruneGuiError as error:
            self.box.setEditText(choice.text)
            self._refuse(error)
        else:
            self._refuse(None)
            self.problem.say("")
            self._evaluations.choose(choice)

    def _write_new(self, template: str) -> None:
        """Write a copy of a template where the user says, and choose it."""
        folder = start_folder(self._workbench.session)
        path = questions.ask_target(self, questions.NEW_EVALUATOR, folder / template)
        if path is None:
            return
        try:
            asked, path = path, document_path(path, EVALUATOR_SUFFIXES)
            content = {path: resource("evaluators", template).read_bytes()}
            write_documents(content, overwrite=path == asked)  # else nobody was asked
        except PruneGuiError as error:
            self.problem.say_error(error.brief, error.details)
            return
        _, evaluator = TEMPLATES[template]
        quoted = str(path) if evaluator.startswith("{") else shlex.quote(str(path))
        self._use(EvaluatorChoice(text=evaluator.format(path=quoted)))
        self.problem.say(
            tr("Written: {name}. Fill in the lines marked FILL IN.", name=path.name),
            warning=False,
            link=tr("Edit"),
            act=lambda: questions.open_outside(self, QUrl.fromLocalFile(str(path))),
        )

    def _browse(self) -> None:
        folder = start_folder(self._workbench.session)
        path = questions.ask_file(self, questions.EVALUATOR, folder)
        try:
            names = functions_in(path) if path is not None else []
        except PruneGuiError as error:
            self.problem.say_error(error.brief, error.details)
            return
        if not names:
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
        if (choice := self._evaluations.choice) is not None:
            dialog = OptionsDialog(choice, self)
            if dialog.exec() and dialog.choice is not None:
                self._use(dialog.choice)
            dialog.deleteLater()


BETTER: Final = {
    None: deferred("Decided by the name of the metric"),
    "higher": deferred("Higher values"),
    "lower": deferred("Lower values"),
}
PASS_AS: Final = {
    None: deferred("Decided by its first parameter"),
    "path": deferred("The path of a file"),
    "state_dict": deferred("A state dict"),
}
MAX_TIMEOUT_S: Final = 1_000_000.0
WIDTH_PX: Final = 520


class OptionsDialog(QDialog):
    """Edits the options of an evaluator."""

    def __init__(self, before: EvaluatorChoice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Evaluator options"))
        self._before = before
        self.choice: EvaluatorChoice | None = None  # with the options, when the user has accepted
        evaluator = ElidedLabel(tr("Evaluator"))
        evaluator.say(before.text)
        self.python = QLineEdit(before.python or "", placeholderText=tr("That of this program"))
        self.python.setToolTip(tr("The interpreter of a function, such as /usr/bin/python3"))
        browse = QPushButton(tr("B&rowse…"))
        browse.clicked.connect(self._browse)
        python = QWidget()
        python.setFocusProxy(self.python)
        layouts.row(self.python, browse, of=python, margin=0)
        self.pass_as = Choice(
            tr("Function gets"), [(tr(text), value) for value, text in PASS_AS.items()]
        )
        self.pass_as.choose(before.pass_as)
        self.better = Choice(
            tr("Better are"), [(tr(text), value) for value, text in BETTER.items()]
        )
        self.better.choose(before.better)
        self.name = QLineEdit(before.name or "", placeholderText=tr("The name of the metric"))
        self.timeout = QDoubleSpinBox(
            minimum=0.1, maximum=MAX_TIMEOUT_S, decimals=1, value=before.timeout_s, suffix=tr(" s")
        )
        self._shown_memory = short_bytes(before.memory_limit) if before.memory_limit else ""
        self.memory = QLineEdit(self._shown_memory, placeholderText=tr("90 % of what is free"))
        tip = tr("Turn this off after a change of the data, which the program cannot notice")
        self.use_stored = switch(tr("&Use stored results"), tip, on=before.use_stored)
        self.problem = Message()
        standard = QDialogButtonBox.StandardButton
        buttons = layouts.dialog_buttons(self, standard.Ok | standard.Cancel, self.accept_options)
        form = layouts.form(
            (tr("Evaluator"), evaluator),
            (tr("&Interpreter"), python),
            (tr("&Function gets"), self.pass_as),
            (tr("&Better are"), self.better),
            (tr("&Name in tables"), self.name),
            (tr("&Time limit"), self.timeout),
            (tr("&Memory limit"), self.memory),
            self.use_stored,
        )
        layouts.column(form, self.problem, layouts.STRETCH, buttons, of=self)
        self.resize(WIDTH_PX, self.sizeHint().height())

    def _browse(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, tr("Choose an interpreter"))
        if path:
            self.python.setText(path)

    def accept_options(self) -> None:
        memory, limit = self.memory.text().strip(), self._before.memory_limit
        try:
            if memory != self._shown_memory:
                limit = parse_bytes(memory) if memory else None
            choice = EvaluatorChoice.model_validate(
                {
                    **self._before.model_dump(),
                    "python": self.python.text().strip() or None,
                    "pass_as": self.pass_as.value,
                    "better": self.better.value,
                    "name": self.name.text().strip() or None,
                    "timeout_s": self.timeout.value(),
                    "memory_limit": limit,
                    "use_stored": self.use_stored.isChecked(),
                }
            )
            choice.make()
        except ValidationError as error:
            self.problem.say(error.errors()[0]["msg"])
        except (ValueError, PruneGuiError) as error:
            self.problem.say(str(error))
        else:
            self.choice = choice
            self.accept()
