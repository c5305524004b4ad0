"""The dialog with the options of an evaluator."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QLineEdit,
    QPushButton,
    QWidget,
)

from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.choice import EvaluatorChoice
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.language import deferred, tr
from prune_gui.number_formats import parse_bytes, short_bytes

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
    """Edits the options of an evaluator.

    Attributes:
        choice: the evaluator with the edited options; None until the user accepts.
    """

    def __init__(self, before: EvaluatorChoice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Evaluator options"))
        self._before = before
        self.choice: EvaluatorChoice | None = None
        evaluator = ElidedLabel(tr("Evaluator"))
        evaluator.say(before.text)
        self.python = QLineEdit(before.python or "", placeholderText=tr("That of this program"))
        self.python.setToolTip(tr("The interpreter of a function, such as /usr/bin/python3"))
        browse = QPushButton(tr("B&rowse…"))
        browse.clicked.connect(self._browse)
        python = QWidget()
        python.setFocusProxy(self.python)
        layouts.row(self.python, browse, of=python, margin=0)
        self.pass_as = _box(PASS_AS, before.pass_as)
        self.better = _box(BETTER, before.better)
        self.name = QLineEdit(before.name or "", placeholderText=tr("The name of the metric"))
        self.timeout = QDoubleSpinBox(
            minimum=0.1, maximum=MAX_TIMEOUT_S, decimals=1, value=before.timeout_s, suffix=tr(" s")
        )
        self._shown_memory = short_bytes(before.memory_limit) if before.memory_limit else ""
        self.memory = QLineEdit(self._shown_memory, placeholderText=tr("90 % of what is free"))
        self.use_stored = QCheckBox(tr("&Use stored results"))
        self.use_stored.setChecked(before.use_stored)
        self.use_stored.setToolTip(
            tr("Turn this off after a change of the data, which the program cannot notice")
        )
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
        """Accept the options, or show why they cannot be used."""
        memory, limit = self.memory.text().strip(), self._before.memory_limit
        try:
            if memory != self._shown_memory:
                limit = parse_bytes(memory) if memory else None
            choice = EvaluatorChoice.model_validate(
                {
                    **self._before.model_dump(),
                    "python": self.python.text().strip() or None,
                    "pass_as": self.pass_as.currentData(),
                    "better": self.better.currentData(),
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


def _box(texts: dict[str | None, str], chosen: str | None) -> QComboBox:
    box = QComboBox()
    for value, text in texts.items():
        box.addItem(tr(text), value)
    box.setCurrentIndex(list(texts).index(chosen))
    return box
