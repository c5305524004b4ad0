"""The bar above a comparison: a box for each side, and a summary of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QSizePolicy, QToolButton, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.compare.tables import SummaryTable
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import deferred, tr
from prune_gui.session import Settings
from prune_gui.session.session import start_folder
from prune_gui.session.subjects import OtherCheckpoint, Side, Which, file_text

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench


SWAP_ARROWS: Final = "\N{LEFT RIGHT ARROW}"
MAX_RECENT: Final = 5  # maximum number of recent files in the list
LIST_MARGIN_PX: Final = 32  # space beside the longest text of the list, for a scroll bar
ASK: Final[Literal["ask"]] = "ask"
NAMES: Final[dict[Which, str]] = {"left": deferred("Left side"), "right": deferred("Right side")}

SideChoice = Side | Path | Literal["ask"]
"""A side, a recent file to open, or "ask" to choose another checkpoint in a dialog."""


class SidePicker(Choice):
    """Offers the file, the stack after each step, the draft, named states and other checkpoints."""

    def __init__(
        self, workbench: Workbench, which: Which, ask: Callable[[QWidget, Path], Path | None]
    ) -> None:
        super().__init__(tr(NAMES[which]), elide=Qt.TextElideMode.ElideMiddle)
        self._workbench = workbench
        self._which: Which = which
        self._ask = ask
        self._recent: list[Path] = []
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.activated.connect(self._choose)

    def offer_sides(self) -> None:
        """Update the choices, and select the chosen side."""
        comparison = self._workbench.comparison
        offered: list[tuple[str, SideChoice]] = [(comparison.text(s), s) for s in comparison.sides]
        offered += [(file_text(path), path) for path in self._recent]
        self.offer([*offered, (tr("Another checkpoint…"), ASK)])
        for row, (_, choice) in enumerate(offered):
            path = choice.path if isinstance(choice, OtherCheckpoint) else choice
            if isinstance(path, Path):
                self.setItemData(row, one_line(str(path)), Qt.ItemDataRole.ToolTipRole)
        self._select()

    def _select(self) -> None:
        self.choose(self._workbench.comparison.chosen[self._which])
        path = self.currentData(Qt.ItemDataRole.ToolTipRole)
        self.setToolTip("\n".join((self.accessibleName(), path or self.currentText())))

    def _choose(self, row: int) -> None:
        choice, comparison = self.itemData(row), self._workbench.comparison
        self._select()  # until the choice is opened or resolved
        if choice == ASK:
            path = self._ask(self, start_folder(self._workbench.session))
            if path is not None:
                comparison.open(path, self._which)
        elif isinstance(choice, Path):
            comparison.open(choice, self._which)
        else:
            comparison.choose(self._which, choice)

    def showPopup(self) -> None:  # noqa: N802
        session = self._workbench.session
        opened = session and session.checkpoint.path.absolute()
        recent = (Path(path) for path in Settings.load().recent)
        self._recent = [path for path in recent if path != opened][:MAX_RECENT]
        self.offer_sides()
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + LIST_MARGIN_PX)
        super().showPopup()


class SidesBar(QWidget):
    """Chooses and exchanges the sides, and shows the summary."""

    def __init__(self, workbench: Workbench, ask: Callable[[QWidget, Path], Path | None]) -> None:
        super().__init__()
        self._workbench = workbench
        self.pickers = {which: SidePicker(workbench, which, ask) for which in NAMES}
        self.swap = QToolButton()
        self.swap.setText(SWAP_ARROWS)
        self.swap.setAccessibleName(tr("Exchange the sides"))
        self.swap.setToolTip(tr("Exchange the sides"))
        self.swap.clicked.connect(workbench.comparison.swap)
        self._notice = Message()
        self._notice.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        self.summary = SummaryTable()
        left, right = self.pickers.values()
        boxes = layouts.row((left, 1), self.swap, (right, 1), margin=(GAP_PX, 0, GAP_PX, TIGHT_PX))
        layouts.column(boxes, self._notice, self.summary, of=self, margin=0, gap=0)

    def offer(self) -> None:
        comparison = self._workbench.comparison
        comparison.settle()
        for picker in self.pickers.values():
            picker.offer_sides()
        self._notice.say(comparison.notice)
