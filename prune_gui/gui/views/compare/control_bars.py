"""The controls of a comparison: its kind, both sides, and bars that blink and play a film."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, Literal

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLabel,
    QSizePolicy,
    QSlider,
    QStyle,
    QToolButton,
    QWidget,
)
from shiboken6 import isValid

from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session import Settings
from prune_gui.session.session import start_folder
from prune_gui.session.subjects import OtherCheckpoint, Side, Which, file_text

FRAME_MS: Final = 1000  # time for which a film shows each frame
BLINK_RANGE_S: Final = (0.1, 5.0)
BLINK_S: Final = 0.7  # initial time for which blinking shows each side


class PlayButton(QToolButton):
    """A button that is checked while something plays."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setAccessibleName(what)
        self.setToolTip(tr("Play or pause (Space)"))
        self.toggled.connect(self._show_icon)
        self._show_icon()

    def _show_icon(self) -> None:
        pixmaps = QStyle.StandardPixmap
        pixmap = pixmaps.SP_MediaPause if self.isChecked() else pixmaps.SP_MediaPlay
        self.setIcon(self.style().standardIcon(pixmap))


class BlinkBar(QWidget):
    """Starts and stops blinking, sets its interval, and names the side that is in front."""

    changed = Signal()  # `playing` or `interval_ms`

    def __init__(self) -> None:
        super().__init__()
        self.button = PlayButton(tr("Blink"))
        self.button.setChecked(True)
        tip = tr("Time for each side")
        self._seconds = layouts.described(QDoubleSpinBox(decimals=1, singleStep=0.1), tip, tip)
        self._seconds.setRange(*BLINK_RANGE_S)
        self._seconds.setValue(BLINK_S)
        self._seconds.setSuffix(tr(" s"))
        self.front = _bold_label(tr("Side in front"))
        _lay_out(self, self.button, self._seconds, self.front)
        self.button.toggled.connect(self.changed)
        self._seconds.valueChanged.connect(self.changed)

    @property
    def playing(self) -> bool:
        return self.button.isChecked()

    @property
    def interval_ms(self) -> int:
        return round(1000 * self._seconds.value())


class FilmBar(QWidget):
    """Chooses a frame with a slider and plays the frames, up to the last one."""

    changed = Signal()  # another frame is chosen

    def __init__(self) -> None:
        super().__init__()
        self.button = PlayButton(tr("Film"))
        tip = tr("Step of the film (left and right arrow keys)")
        slider = QSlider(Qt.Orientation.Horizontal)
        self.slider = layouts.described(slider, tr("Step of the film"), tip)
        self.slider.setMaximum(0)
        self.slider.setPageStep(1)
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.slider.setTickInterval(1)
        self._number = QLabel()
        self.title = _bold_label(tr("Frame"))
        row = QWidget()
        _lay_out(row, self.button, self.slider, self._number)
        self.title.setContentsMargins(GAP_PX, 0, GAP_PX, 0)
        layouts.column(self.title, row, of=self, margin=0, gap=0)
        self._timer = QTimer(self, interval=FRAME_MS)
        self._timer.timeout.connect(self._advance)
        self.button.toggled.connect(self._play)
        self.slider.valueChanged.connect(self._moved)

    @property
    def frame(self) -> int:
        return self.slider.value()

    def set_last(self, last: int) -> None:
        """Set the number of the last frame. If the last frame is chosen, it stays the last."""
        if last != self.slider.maximum():
            at_end = self.frame in (self.slider.maximum(), last)
            with QSignalBlocker(self.slider):
                self.slider.setMaximum(last)
                if at_end:
                    self.slider.setValue(last)
            self.button.setEnabled(last > 0)
        self._number.setText(f"{self.frame} / {last}")

    def _play(self, on: bool) -> None:
        if not on:
            self._timer.stop()
            return
        if self.frame == self.slider.maximum():
            self.slider.setValue(0)
        self._timer.start()

    def _advance(self) -> None:
        self.slider.setValue(self.frame + 1)
        if self.frame == self.slider.maximum():
            self.button.setChecked(False)

    def _moved(self, frame: int) -> None:
        self._number.setText(f"{frame} / {self.slider.maximum()}")
        self.changed.emit()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self.button.setChecked(False)


def _bold_label(name: str) -> ElidedLabel:
    label = ElidedLabel(name, elide=Qt.TextElideMode.ElideMiddle)
    label.setFont(bold(label.font()))
    return label


def _lay_out(bar: QWidget, *widgets: QWidget) -> None:
    parts = [(widget, int(isinstance(widget, ElidedLabel | QSlider))) for widget in widgets]
    layouts.row(*parts, of=bar, margin=(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX))


SWAP_ARROWS: Final = "\N{LEFT RIGHT ARROW}"
MAX_RECENT: Final = 5  # maximum number of recent files in the list
LIST_MARGIN_PX: Final = 32  # space beside the longest text of the list, for a scroll bar
ASK: Final[Literal["ask"]] = "ask"
NAMES: Final[dict[Which, str]] = {"left": deferred("Left side"), "right": deferred("Right side")}

SideChoice = Side | Path | Literal["ask"]
"""A side, a recent file to open, or "ask" to choose another checkpoint in a dialog."""


class SidePicker(Choice):
    """Offers the file, the stack after each step, the draft, named states and other checkpoints."""

    def __init__(self, workbench: Workbench, which: Which) -> None:
        super().__init__(tr(NAMES[which]), elide=Qt.TextElideMode.ElideMiddle)
        self._workbench = workbench
        self._which: Which = which
        self._recent: list[Path] = []
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.activated.connect(self._choose)

    def offer_sides(self) -> None:
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
            path = ask_checkpoint(self, start_folder(self._workbench.session))
            if path is not None:
                comparison.open(path, self._which)
        elif isinstance(choice, Path):
            comparison.open(choice, self._which)
        else:
            comparison.choose(self._which, choice)

    def showPopup(self) -> None:  # noqa: N802
        settings = Settings.load()
        self._offer_recent(settings.recent)
        self._workbench.bridge.run_job(
            "recent", lambda _: settings.gone(), lambda gone: self._drop(settings.recent, gone)
        )
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + LIST_MARGIN_PX)
        super().showPopup()

    def _offer_recent(self, recent: Iterable[str]) -> None:
        session = self._workbench.session
        opened = session and session.checkpoint.path.absolute()
        self._recent = [path for path in map(Path, recent) if path != opened][:MAX_RECENT]
        self.offer_sides()

    def _drop(self, recent: Iterable[str], gone: Collection[str]) -> None:
        if gone and isValid(self):
            self._offer_recent(path for path in recent if path not in gone)
            if self.view().isVisible():
                super().showPopup()  # as high as the list is now


class SidesBar(QWidget):
    """Chooses and exchanges the sides."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self.pickers = {which: SidePicker(workbench, which) for which in NAMES}
        tip = tr("Exchange the sides")
        self.swap = layouts.tool_button(SWAP_ARROWS, workbench.comparison.swap, tip)
        self.swap.setAccessibleName(tip)
        self._notice = Message()
        self._notice.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        left, right = self.pickers.values()
        boxes = layouts.row((left, 1), self.swap, (right, 1), margin=(GAP_PX,) * 4)
        layouts.column(boxes, self._notice, of=self, margin=0, gap=0)

    def offer(self) -> None:
        comparison = self._workbench.comparison
        comparison.settle()
        for picker in self.pickers.values():
            picker.offer_sides()
        self._notice.say(comparison.notice)
