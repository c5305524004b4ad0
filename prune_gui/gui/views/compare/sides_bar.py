"""The bar above a comparison: a box for each side, and a summary of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from prune_gui.gui.views.compare.side_picker import SidePicker
from prune_gui.gui.views.compare.summary_table import SummaryTable
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import tr
from prune_gui.session.compared_side import Which

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench

ARROWS: Final = "\N{LEFT RIGHT ARROW}"


class SidesBar(QWidget):
    """Chooses and exchanges the sides, and shows the summary.

    Attributes:
        pickers: the box of each side.
        summary: the table.
    """

    def __init__(self, workbench: Workbench, ask: Callable[[QWidget, Path], Path | None]) -> None:
        super().__init__()
        self._workbench = workbench
        self.pickers: dict[Which, SidePicker] = {
            "left": SidePicker(workbench, "left", ask),
            "right": SidePicker(workbench, "right", ask),
        }
        self.swap = QToolButton()
        self.swap.setText(ARROWS)
        self.swap.setAccessibleName(tr("Exchange the sides"))
        self.swap.setToolTip(tr("Exchange the sides"))
        self.swap.clicked.connect(workbench.comparison.swap)
        self._notice = Message()
        self._notice.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        self.summary = SummaryTable()
        boxes = QHBoxLayout()
        boxes.setContentsMargins(GAP_PX, 0, GAP_PX, TIGHT_PX)
        boxes.addWidget(self.pickers["left"], 1)
        boxes.addWidget(self.swap)
        boxes.addWidget(self.pickers["right"], 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(boxes)
        layout.addWidget(self._notice)
        layout.addWidget(self.summary)

    def offer(self) -> None:
        """Update the boxes, and say which side was replaced."""
        comparison = self._workbench.comparison
        comparison.settle()
        for picker in self.pickers.values():
            picker.offer()
        self._notice.say(comparison.notice)
