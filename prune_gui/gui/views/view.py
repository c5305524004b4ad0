"""What all views have in common: when they look, and what they show meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget
from shiboken6 import isValid

from prune_gui.errors import Cancelled, PruneGuiError, one_line
from prune_gui.gui.views.legend import Legend
from prune_gui.gui.views.subject import Subject, facts, subject_of
from prune_gui.gui.widgets.theme import Colours, colours
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor


class Sight(Protocol):
    """What a view can look at, as it stood at one moment."""

    @property
    def name(self) -> str:
        """What to call it."""

    def same_parameter(self, other: object, /) -> bool:
        """Tell whether both are about one thing, whatever is pruned of it."""


Result = TypeVar("Result")
Seen = TypeVar("Seen", bound=Sight)

SETTLE = 25
"""Milliseconds in which moves of a picture count as one."""
PATIENCE = 400
"""Milliseconds for which the picture of the parameter before may stay."""


class ViewOf(QWidget, Generic[Seen]):
    """A picture of something in the open file, or a sentence where there is none.

    It looks only while it is visible. While newer figures of the same thing are on their way, the
    picture stays as it is.

    Attributes:
        has_table: whether `table` returns one while there is a picture.
        subject: what the view looks at now; None if there is nothing to look at.
        ticket: of the last job that was to make the picture; None if there was none yet.

    Signals:
        pictured: there is a new picture, or none any more.
    """

    lane: ClassVar[str]
    has_table: ClassVar[bool] = False
    pictured = Signal()

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.subject: Seen | None = None
        self._complete = False
        self._workbench = workbench
        self._pictured: Seen | None = None
        self.ticket: int | None = None
        self._shown: QWidget | None = None
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
        workbench.opened.connect(self.refresh)
        workbench.resolved_changed.connect(self._follow)

    @abstractmethod
    def _find(self) -> Seen | str:
        """Return what there is to look at, or why there is nothing, for a person."""

    # What can be taken away: see `gui/taking_away.py`.

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""
        return self._shown if self._pages.currentWidget() is self._content else None

    def caption(self) -> tuple[str, str]:
        """Return what the picture is of, and what it shows of it."""
        return (self.subject.name if self.subject else ""), self.accessibleName()

    def legend(self) -> str:
        """Return the legend as rich text, in the colours that the picture has."""
        return self._legend.text()

    def table(self) -> Table | None:
        """Return what the picture shows as a table; None if that is none."""
        return None

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
        self._shown = picture
        self._complete = True

    def colours(self) -> Colours:
        """Return the colours of the theme as it is now."""
        return colours(self.palette())

    def refresh(self) -> None:
        """Look again."""
        if not self.isVisible():
            return
        found = self._find()
        if isinstance(found, str):
            self.subject = self._pictured = None
            self._say(found)
            return
        self.subject = found
        if found.same_parameter(self._pictured):
            self._impatience.stop()
        else:
            self._impatience.start()
        self._look(found)

    def _follow(self) -> None:
        """Look at what is pruned by now."""
        self.refresh()

    @abstractmethod
    def _look(self, subject: Seen) -> None:
        """Set out to make the picture of `subject`, by way of `_picture`."""

    def _picture(
        self, subject: Seen, work: Callable[[Monitor], Result], then: Callable[[Result], None]
    ) -> None:
        """Run `work` on the engine, and `then` with the picture it made if that is still wanted."""
        self.ticket = self._ask(
            self.lane, subject, work, lambda result: self._arrive(subject, result, then)
        )

    def _arrive(self, subject: Seen, result: Result, then: Callable[[Result], None]) -> None:
        """Show a picture that is made."""
        self._impatience.stop()
        self._pages.setCurrentWidget(self._content)
        then(result)
        self._pictured = subject
        self.pictured.emit()

    def _ask(
        self,
        lane: str,
        subject: Seen,
        work: Callable[[Monitor], Result],
        then: Callable[[Result], None],
    ) -> int:
        """Run `work` on the engine, and `then` if the view still looks at the same parameter.

        Returns the ticket of the job.
        """

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

        return self._workbench.look(lane, guarded, arrived)

    def _say(self, message: str) -> None:
        self._impatience.stop()
        self._message.setText(message)
        self._pages.setCurrentWidget(self._message)
        self.pictured.emit()

    def _say_it_takes_time(self) -> None:
        if self.subject is not None:
            self._say(tr("Looking at {name}…", name=one_line(self.subject.name)))

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


class View(ViewOf[Subject]):
    """A picture of the chosen parameter, or a sentence where there is none."""

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        workbench.chosen_changed.connect(self.refresh)

    def _find(self) -> Subject | str:
        return subject_of(self._workbench)

    def caption(self) -> tuple[str, str]:
        """Return the name of the parameter, and what the picture shows of it."""
        name, what = super().caption()
        if self.subject is None:
            return name, what
        return name, tr("{what}: {facts}", what=what, facts=facts(self.subject))
