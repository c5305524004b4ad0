"""The bars above blinking pictures and above a film, each with a button that plays and pauses."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QDoubleSpinBox, QLabel, QSlider, QStyle, QToolButton, QWidget

from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.language import tr

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
        self._seconds = QDoubleSpinBox(decimals=1, singleStep=0.1)
        self._seconds.setRange(*BLINK_RANGE_S)
        self._seconds.setValue(BLINK_S)
        self._seconds.setSuffix(tr(" s"))
        self._seconds.setAccessibleName(tr("Time for each side"))
        self._seconds.setToolTip(tr("Time for each side"))
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
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(tr("Step of the film"))
        self.slider.setToolTip(tr("Step of the film (left and right arrow keys)"))
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
