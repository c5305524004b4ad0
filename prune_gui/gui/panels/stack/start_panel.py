"""What a file brings along, above the stack: its zeros, and the steps that pruned it before."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import QCheckBox, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.widgets.spacing import TIGHT_PX, WIDE_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session.changes import Changes

MAX_STEPS: Final = 6
"""Limit of the past steps that are listed; the tool tip lists all."""
MAX_TARGETS_CHARS: Final = 80
ZEROS_TIP: Final = deferred(
    "Steps prune only the weights that are not zero in the file, and views show the zeros as pruned"
)
AGAIN_TIP: Final = deferred(
    "Replace the stack by the steps that made this file. They prune the weights that are left, so "
    "the file becomes sparser."
)


class StartPanel(QWidget):
    """Shows the start of the recipe, and the past steps of a file that this program wrote.

    Each part is visible only if it concerns the open file.
    """

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self.zeros = QCheckBox(tr("Zeros in the file count as pruned"))
        self.zeros.setToolTip(tr(ZEROS_TIP))
        self.zeros.toggled.connect(self._start_from_zeros)
        self.past = QToolButton(autoRaise=True)
        self.past.setCheckable(True)
        self.past.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.past.toggled.connect(self._open_past)
        self._steps = QLabel(wordWrap=True)
        self._steps.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._steps.setContentsMargins(WIDE_PX, 0, 0, 0)
        self._steps.setAccessibleName(tr("Past steps"))
        self.again = QPushButton(tr("Apply the past steps again"))
        self.again.setToolTip(tr(AGAIN_TIP))
        self.again.clicked.connect(self._apply_again)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(TIGHT_PX)
        for widget in (self.past, self._steps, self.again, self.zeros):
            layout.addWidget(widget)
        layout.setAlignment(self.again, Qt.AlignmentFlag.AlignLeft)
        workbench.changed.connect(self._on_changed)
        self._show_past()
        self._show_start()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._show_past()
        if changes.file or changes.recipe or changes.zeros or changes.resolution:
            self._show_start()

    def _show_past(self) -> None:
        session = self._workbench.session
        steps = session.past_steps if session is not None else ()
        self.past.setVisible(bool(steps))
        self.past.setChecked(False)
        self._open_past(opened=False)
        self.past.setText(tr("Already in this file: {steps}", steps=formatting.steps(len(steps))))
        lines = [
            tr(
                "{number}. {title}: {targets}",
                number=number,
                title=formatting.title(step),
                targets=one_line(formatting.targets(step), MAX_TARGETS_CHARS),
            )
            for number, step in enumerate(steps, start=1)
        ]
        more = len(lines) - MAX_STEPS
        rest = [tr("and {more:,} more", more=more)] if more > 0 else []
        self._steps.setText("\n".join(lines[:MAX_STEPS] + rest))
        self._steps.setToolTip("\n".join(map(formatting.wrapped, lines)) if rest else "")

    def _open_past(self, opened: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if opened else Qt.ArrowType.RightArrow
        self.past.setArrowType(arrow)
        self._steps.setVisible(opened)
        self.again.setVisible(opened)

    def _apply_again(self) -> None:
        self._workbench.edit(lambda session: session.apply_past_recipe())

    def _show_start(self) -> None:
        session = self._workbench.session
        starts_from_zeros = session is not None and session.recipe.start == "zeros"
        self.zeros.setVisible(starts_from_zeros or self._workbench.unpruned_zeros > 0)
        with QSignalBlocker(self.zeros):
            self.zeros.setChecked(starts_from_zeros)

    def _start_from_zeros(self, on: bool) -> None:
        self._workbench.edit(lambda session: session.start_from_zeros(on=on))
