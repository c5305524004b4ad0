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
    QFormLayout,
    QLineEdit,
    QPushButton,
    QWidget,
)

from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.spec import EvaluatorChoice
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
        self.python = QLineEdit(before.python or "")
        self.python.setPlaceholderText(tr("That of this program"))
        self.python.setToolTip(tr("The interpreter of a function, such as /usr/bin/python3"))
        browse = QPushButton(tr("B&rowse…"))
        browse.clicked.connect(self._browse)
        python = layouts.row(self.python, browse)
        self.pass_as = _box(PASS_AS, before.pass_as)
        self.better = _box(BETTER, before.better)
        self.name = QLineEdit(before.name or "")
        self.name.setPlaceholderText(tr("The name of the metric"))
        self.timeout = QDoubleSpinBox(
            minimum=0.1, maximum=MAX_TIMEOUT_S, decimals=1, value=before.timeout_s
        )
        self.timeout.setSuffix(tr(" s"))
        self.memory = QLineEdit(short_bytes(before.memory_limit) if before.memory_limit else "")
        self.memory.setPlaceholderText(tr("90 % of what is free"))
        self.use_stored = QCheckBox(tr("&Use stored results"))
        self.use_stored.setToolTip(
            tr("Turn this off after a change of the data, which the program cannot notice")
        )
        self.use_stored.setChecked(before.use_stored)
        self.problem = Message()
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept_options)
        buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(tr("Evaluator"), evaluator)
        form.addRow(tr("&Interpreter"), python)
        form.addRow(tr("&Function gets"), self.pass_as)
        form.addRow(tr("&Better are"), self.better)
        form.addRow(tr("&Name in tables"), self.name)
        form.addRow(tr("&Time limit"), self.timeout)
        form.addRow(tr("&Memory limit"), self.memory)
        form.addRow(self.use_stored)
        form.labelForField(python).setBuddy(self.python)  # type: ignore[attr-defined]  # a QLabel
        layouts.column(form, self.problem, layouts.STRETCH, buttons, of=self)
        self.resize(WIDTH_PX, self.sizeHint().height())

    def _browse(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, tr("Choose an interpreter"))
        if path:
            self.python.setText(path)

    def accept_options(self) -> None:
        """Accept the options, or show why they cannot be used."""
        memory = self.memory.text().strip()
        shown = short_bytes(self._before.memory_limit) if self._before.memory_limit else ""
        try:
            limit = self._before.memory_limit
            if memory != shown:
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
