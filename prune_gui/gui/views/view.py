"""What all views have in common: when they look, and what they show meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget
from shiboken6 import isValid

from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.gui.theme import Colours, colours
from prune_gui.gui.views.legend import Legend
from prune_gui.gui.views.subject import Subject, subject_of

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

Result = TypeVar("Result")

SETTLE = 25
"""Milliseconds in which moves of a picture count as one."""
PATIENCE = 400
"""Milliseconds for which the picture of the parameter before may stay."""


class View(QWidget):
    """A picture of the chosen parameter, or a sentence where there is none.

    It looks only while it is visible. While newer figures of the same parameter are on their way,
    the picture stays as it is.

    Attributes:
        subject: what the view looks at now; None if there is nothing to look at.
    """

    lane: ClassVar[str]

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.subject: Subject | None = None
        self._complete = False
        self._workbench = workbench
        self._pictured: Subject | None = None
        self._legend = Legend()
        self._message = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._message.setForegroundRole(self._message.palette().ColorRole.PlaceholderText)
        self._message.setMargin(24)
        self._content = QWidget()
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._content)
        self._impatience = QTimer(self, singleShot=True, interval=PATIENCE)
        self._impatience.timeout.connect(self._say_it_takes_time)
        for signal in (workbench.opened, workbench.chosen_changed, workbench.resolved_changed):
            signal.connect(self.refresh)

    def _lay_out(
        self, controls: Sequence[QWidget], picture: QWidget, notes: Sequence[QWidget]
    ) -> None:
        """Put controls above the picture; below it, side by side, notes, and then the legend."""
        above, below = QHBoxLayout(), QHBoxLayout()
        above.setContentsMargins(8, 6, 8, 6)
        above.setSpacing(8)
        below.setContentsMargins(8, 2, 8, 2)
        for control in controls:
            above.addWidget(control)
        above.addStretch()
        for note in notes:
            below.addWidget(note, 1 if note is notes[0] else 0)
        layout = QVBoxLayout(self._content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(above)
        layout.addWidget(picture, 1)
        layout.addLayout(below)
        layout.addWidget(self._legend)
        self._complete = True

    def colours(self) -> Colours:
        """Return the colours of the theme as it is now."""
        return colours(self.palette())

    def refresh(self) -> None:
        """Look again."""
        if not self.isVisible():
            return
        found = subject_of(self._workbench)
        if isinstance(found, str):
            self.subject = self._pictured = None
            self._say(found)
            return
        self.subject = found
        if not found.same_parameter(self._pictured):
            self._impatience.start()
        self._look(found)

    @abstractmethod
    def _look(self, subject: Subject) -> None:
        """Set out to make the picture of `subject`, by way of `_picture`."""

    def _picture(
        self, subject: Subject, work: Callable[[Monitor], Result], then: Callable[[Result], None]
    ) -> None:
        """Run `work` on the engine, and `then` with the picture it made if that is still wanted."""

        def arrived(result: Result) -> None:
            self._impatience.stop()
            self._pages.setCurrentWidget(self._content)
            then(result)
            self._pictured = subject

        self._ask(self.lane, subject, work, arrived)

    def _ask(
        self,
        lane: str,
        subject: Subject,
        work: Callable[[Monitor], Result],
        then: Callable[[Result], None],
    ) -> None:
        """Run `work` on the engine, and `then` if the view still looks at the same parameter."""

        def guarded(monitor: Monitor) -> Result | PruneGuiError:
            try:
                return work(monitor)
            except Cancelled:
                raise
            except PruneGuiError as error:
                return error

        def arrived(result: Result | PruneGuiError) -> None:
            # The window may be gone by now, or show something else.
            if not isValid(self) or not subject.same_parameter(self.subject):
                return
            if isinstance(result, PruneGuiError):
                self._pictured = None
                self._say(str(result))
            else:
                then(result)

        self._workbench.look(lane, guarded, arrived)

    def _say(self, message: str) -> None:
        self._impatience.stop()
        self._message.setText(message)
        self._pages.setCurrentWidget(self._message)

    def _say_it_takes_time(self) -> None:
        if self.subject is not None:
            self._say(f"Looking at {self.subject.name}…")

    @abstractmethod
    def _recolour(self) -> None:
        """Take the colours of the theme as it is now."""

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look at what changed while nobody did."""
        super().showEvent(event)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._impatience.stop()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._complete:
            self._recolour()
            self.refresh()
