"""The check boxes that choose the curves of a sweep; their squares are the legend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QCheckBox, QFrame, QScrollArea, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.widgets.spacing import TIGHT_PX
from prune_gui.language import tr

SWATCH_PX: Final = 12
MAX_LABEL_PX: Final = 170
"""Width at which a label is elided."""


class CurveList(QScrollArea):
    """Lists curves by their labels. It remembers what the user chose for a label."""

    def __init__(self, defaults: Collection[str]) -> None:
        super().__init__()
        self._defaults = frozenset(defaults)
        self._choices: dict[str, bool] = {}
        self.boxes: dict[str, QCheckBox] = {}
        self.setAccessibleName(tr("Curves"))
        self.setToolTip(
            tr("Steps to compare: rankings that need no data, the draft, and those of the stack")
        )
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its check boxes have it
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_labels(self, labels: Sequence[str], further_defaults: Collection[str]) -> None:
        """Show a check box for each label."""
        if labels == list(self.boxes):
            return
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(TIGHT_PX)
        self.boxes = {}
        for label in labels:
            text = one_line(label)
            elided = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, MAX_LABEL_PX)
            box = QCheckBox(elided.replace("&", "&&"))
            box.setAccessibleName(text)
            box.setToolTip(text)
            is_default = label in self._defaults or label in further_defaults
            box.setChecked(self._choices.get(label, is_default))
            box.toggled.connect(lambda on, label=label: self._choices.update({label: on}))
            column.addWidget(box)
            self.boxes[label] = box
        column.addStretch()
        self.setWidget(content)  # deletes the one before

    def checked(self) -> list[str]:
        """Return the labels that are checked."""
        return [label for label, box in self.boxes.items() if box.isChecked()]

    def mark(self, shades: Mapping[str, str]) -> None:
        """Show squares in colours, by label; other labels get none."""
        for label, box in self.boxes.items():
            swatch = QPixmap(SWATCH_PX, SWATCH_PX)
            swatch.fill(QColor(shades.get(label, "#00000000")))
            box.setIcon(QIcon(swatch))
