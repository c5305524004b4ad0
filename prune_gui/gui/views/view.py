"""Behaviour that all views share: when they update, and what they show meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Generic, TypeVar

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QStackedLayout, QWidget
from shiboken6 import isValid

from prune_gui.engine import Job
from prune_gui.errors import Cancelled, ClusterError, PruneGuiError, one_line
from prune_gui.executor import use_executor
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.kernels.numba_control import COMPILATIONS
from prune_gui.raster.colours import Colours
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import DraftRequest
from prune_gui.session.subjects import ModelSubject, Subject
from prune_gui.table import Table

Result = TypeVar("Result")
SubjectT = TypeVar("SubjectT", Subject, ModelSubject)

SETTLE_MS = 25  # interval in which changes of the visible region are merged into one update
STALE_TIMEOUT_MS = 400
"""Time for which the picture of the previous parameter may stay on the screen."""
LATE_MS = 1000
"""Time for which an older picture of the same parameter may stay on the screen without a note."""
BUSY_INTERVAL_MS = 200
"""Time without a picture after which a message says what the view waits for, and between two
updates of the message."""


class View(QWidget, Generic[SubjectT]):
    """A picture of something in the open file, or a message if there is none.

    A view updates only while it is visible. The picture stays while newer data of the same thing is
    computed.
    """

    lane: str  # of the jobs that compute the picture
    busy_text: ClassVar[str] = deferred("Reading {name}…")
    spreads: ClassVar[bool] = False  # whether jobs may use the cluster of the settings; see `Job`
    has_table: ClassVar[bool] = False  # whether `table` returns one while there is a picture
    pictured = Signal()  # there is a new picture, or there is none any more
    view_wanted = Signal(str)  # (key of `VIEWS`) the user wants to see another view

    def __init__(
        self, workbench: Workbench, current_subject: Callable[[], SubjectT | str], name: str
    ) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self._current_subject: Callable[[], SubjectT | str] = current_subject
        self.subject: SubjectT | None = None  # what the view shows or is about to show
        self._complete = False
        self._workbench = workbench
        self._pictured: SubjectT | None = None
        self.ticket: int | None = None  # of the last job that computes the picture
        self._shown: QWidget | None = None
        self._busy_shown = ""
        self._legend = Legend(tr("Legend"))
        self._message = layouts.remark()
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message.setMargin(24)
        self._picture_page = QWidget()
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._picture_page)
        self._late = QLabel(self._picture_page, margin=TIGHT_PX)
        self._late.setAutoFillBackground(True)
        self._late.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self._late.setForegroundRole(QPalette.ColorRole.ToolTipText)
        self._late.hide()
        self._timers: list[QTimer] = []
        self._settle_timer = self._timer(SETTLE_MS, self.refresh)
        self._stale_timer = self._timer(STALE_TIMEOUT_MS, self._show_busy)
        self._late_timer = self._timer(LATE_MS, self._show_late)
        self._busy_timer = QTimer(self, interval=BUSY_INTERVAL_MS)
        self._busy_timer.timeout.connect(self._show_busy)
        self.pictured.connect(self._end_late)
        workbench.changed.connect(self._on_changed)

    # For export: see `PictureSource`.

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""
        return self._shown if self._pages.currentWidget() is self._picture_page else None

    def is_drawn(self) -> bool:
        return not self._workbench.bridge.waits_for(self.ticket)

    def show_selection(self, *, on: bool) -> None:
        """Show or hide the marks of what is chosen."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the subject, and a description of the picture."""
        subject, what = self._pictured or self.subject, self.accessibleName()
        if subject is None:
            return "", what
        return subject.name, tr("{what}: {facts}", what=what, facts=subject.facts())

    def legend(self) -> str:
        return self._legend.text()

    def table(self) -> Table | None:
        """Return the content of the picture as a table; None if there is none."""
        return None

    def limit_memory(self, nbytes: int) -> None:
        """Limit the cached pictures to a number of bytes. Most views cache none."""

    def _lay_out(
        self, controls: Sequence[QWidget], picture: QWidget, notes: Sequence[QWidget]
    ) -> None:
        """Lay out controls above the picture; below it the notes in a row, then the legend."""
        above = layouts.row(*controls, layouts.STRETCH, margin=GAP_PX, gap=GAP_PX)
        growing = [(note, int(note is notes[0])) for note in notes]
        below = layouts.row(*growing, margin=(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX))
        parts = (above, (picture, 1), below, self._legend)
        self._column = layouts.column(*parts, of=self._picture_page, margin=0, gap=0)
        self._shown = picture
        self._complete = True

    def _timer(self, interval_ms: int, action: Callable[[], None]) -> QTimer:
        """Return a timer that acts once after an interval, unless the view is hidden before."""
        timer = QTimer(self, singleShot=True, interval=interval_ms)
        timer.timeout.connect(action)
        self._timers.append(timer)
        return timer

    def _settle(self) -> None:
        """Update soon; further calls until then cause no further update."""
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def colours(self) -> Colours:
        return colours(self.palette())

    def refresh(self) -> None:
        if not self.isVisible():
            return
        subject_or_message = self._current_subject()
        if isinstance(subject_or_message, str):
            self.subject = self._pictured = None
            self._show_message(subject_or_message)
            if self._workbench.bridge.waits_for(self._workbench.resolve_ticket):
                self._busy_timer.start()
            return
        self.subject = subject_or_message
        if subject_or_message.same_parameter(self._pictured):
            self._stale_timer.stop()
        elif not self._stale_timer.isActive():
            self._stale_timer.start()
        if self._pages.currentWidget() is self._message and not self._busy_timer.isActive():
            self._busy_timer.start()
        self._request_picture(subject_or_message)
        if self._workbench.bridge.waits_for(self.ticket):
            self._expect_picture()
        else:
            self._end_late()

    def _expect_picture(self) -> None:
        if self._late.isHidden() and not self._late_timer.isActive():
            self._late_timer.start(LATE_MS)

    def _show_late(self) -> None:
        """Say over an older picture that it is out of date, and why, until there is a newer one."""
        bridge = self._workbench.bridge
        tickets = self._workbench.resolve_ticket, self.ticket
        waited = next((ticket for ticket in tickets if bridge.waits_for(ticket)), None)
        is_late = waited is not None and self.picture() is not None
        if is_late:
            why = self._busy_message(bridge.job_before(waited))
            self._late.setText(tr("Out of date: {cause}", cause=why))
            self._late.adjustSize()
            self._late.move(GAP_PX, self._shown.y() + GAP_PX if self._shown else 0)
            self._late.raise_()
            self._late_timer.start(BUSY_INTERVAL_MS)
        self._late.setVisible(is_late)

    def _on_changed(self, changes: Changes) -> None:
        if self.isVisible() and (changes.recipe or changes.draft):
            self._expect_picture()
        is_outdated = changes.resolution and self._is_outdated(changes)
        has_new_facts = changes.zeros and self._has_new_facts()
        if changes.file or changes.selection or is_outdated or has_new_facts:
            self.refresh()
        elif changes.resolution:
            self._end_late()

    def _end_late(self) -> None:
        """Take the note back that the picture is out of date, unless the stack is resolved anew."""
        if not self._workbench.bridge.waits_for(self._workbench.resolve_ticket):
            self._late_timer.stop()
            self._late.hide()

    def _has_new_facts(self) -> bool:
        """Return whether more is known of the subject than when the picture was requested."""
        subject, shown = self._current_subject(), self.subject
        if shown is None or isinstance(subject, str):
            return False
        return subject.facts() != shown.facts()

    def _is_outdated(self, changes: Changes) -> bool:
        """Return whether the picture is incomplete, or may differ with the new resolution."""
        subject = self.subject
        return subject is None or subject is not self._pictured or changes.concerns(subject.name)

    @abstractmethod
    def _request_picture(self, subject: SubjectT) -> None:
        """Start to compute the picture of `subject`, through `_run_picture_job`."""

    def _run_picture_job(
        self, subject: SubjectT, work: Callable[[Monitor], Result], then: Callable[[Result], None]
    ) -> None:
        """Run `work` on the engine; show the result with `then` if it is still current."""
        self._run_job(
            self.lane, subject, work, lambda result: self._show_result(subject, result, then)
        )

    def _show_result(
        self, subject: SubjectT, result: Result, then: Callable[[Result], None]
    ) -> None:
        self._stop_timers()
        self._pages.setCurrentWidget(self._picture_page)
        then(result)
        self._pictured = subject
        self.pictured.emit()

    def _run_job(
        self,
        lane: str,
        subject: SubjectT,
        work: Callable[[Monitor], Result],
        then: Callable[[Result], None],
    ) -> None:
        """Run `work` on the engine, and `then` if the view still shows the same parameter."""

        def guarded(monitor: Monitor) -> Result | PruneGuiError:
            try:
                try:
                    return work(monitor)
                except ClusterError:  # lost since the job started
                    with use_executor(None):
                        return work(monitor)
            except Cancelled:
                raise
            except PruneGuiError as error:
                return error

        def arrived(result: Result | PruneGuiError) -> None:
            # The view may be deleted by now, or show something else.
            if not isValid(self) or not subject.same_parameter(self.subject):
                return
            if isinstance(result, PruneGuiError):
                self._pictured = None
                self._show_message(str(result))
            else:
                then(result)

        ticket = self._workbench.bridge.run_job(lane, guarded, arrived, spreads=self.spreads)
        if lane == self.lane:
            self.ticket = ticket

    @property
    def _is_current(self) -> bool:
        """Whether the picture is not still that of another parameter."""
        return self.subject is not None and self.subject.same_parameter(self._pictured)

    def _request_draft(self, request: DraftRequest) -> None:
        if self._is_current:
            self._workbench.draft_wanted.emit(request)

    def _show_message(self, message: str) -> None:
        self._stop_timers()
        self._message.setText(message)
        self._pages.setCurrentWidget(self._message)
        self.pictured.emit()

    def _show_busy(self) -> None:
        """Say what the view waits for, and update this until there is a picture."""
        workbench, subject = self._workbench, self.subject
        ticket = workbench.resolve_ticket if subject is None else self.ticket
        if ticket is not None and not workbench.bridge.waits_for(ticket):
            if subject is not None:
                self._show_message(tr("The picture was cancelled. Prune > Recompute draws it."))
            else:
                self._show_message(str(self._current_subject()))
            return
        message = self._busy_message(workbench.bridge.job_before(ticket))
        if message != self._busy_shown or self.picture() is not None:
            self._show_message(message)
            self._busy_shown = message
        self._busy_timer.start()

    def _busy_message(self, job_before: Job | None) -> str:
        if COMPILATIONS:
            return tr("Compiling the kernels (first run only)…")
        if job_before is not None:
            title = one_line(tr(job_before.title))
            return tr("Waiting for another job: {job}…", job=title)
        if self.subject is None:
            return str(self._current_subject())
        return tr(self.busy_text, name=one_line(self.subject.name))

    def _stop_timers(self) -> None:
        self._stale_timer.stop()
        self._busy_timer.stop()
        self._busy_shown = ""

    def _recolour(self) -> None:
        """Use the colours of another theme where neither `refresh` nor a `Plot` does it."""

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Update, because changes are ignored while the view is hidden."""
        super().showEvent(event)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._stop_timers()
        self._late.hide()
        for timer in self._timers:
            timer.stop()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._complete:
            self._recolour()
            self.refresh()


MAX_VISIBLE_LINES: Final = 5  # maximum number of lines that are visible at once; more are scrolled


class Legend(QScrollArea):
    """Shows a legend that wraps and scrolls, and takes the focus only while it can scroll."""

    def __init__(self, name: str, max_lines: int = MAX_VISIBLE_LINES) -> None:
        super().__init__(widgetResizable=True)
        self._max_lines = max_lines
        self._label = QLabel(wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self._label.setAccessibleName(name)
        self._label.setContentsMargins(GAP_PX, 0, GAP_PX, TIGHT_PX)
        self._heights: dict[int, int] = {}
        self.setWidget(self._label)
        self.setFrameShape(QFrame.Shape.NoFrame)
        # While it accepts no focus, Qt would not give it a place in the tab order.
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(name)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def text(self) -> str:
        return self._label.text()

    def setText(self, text: str) -> None:  # noqa: N802 - like QLabel
        if text != self.text():
            before = self._needed_size()
            self._label.setText(text)
            self._heights.clear()
            if self._needed_size() != before:  # while a cut is dragged, only the numbers change
                self.updateGeometry()
            self._update_scroll_bar()

    def clear(self) -> None:
        self.setText("")

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        if width not in self._heights:  # Qt asks often, and each answer lays out the text
            margins = self._label.contentsMargins()
            lines = self._max_lines * self._label.fontMetrics().lineSpacing()
            most = lines + margins.top() + margins.bottom()
            self._heights[width] = min(self._label.heightForWidth(width), most)
        return self._heights[width]

    def sizeHint(self) -> QSize:  # noqa: N802
        hint = self._label.sizeHint()
        return QSize(hint.width(), self.heightForWidth(hint.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return a minimum width that fits an item, because the legend does not scroll sideways."""
        scroll_bar_width = self.verticalScrollBar().sizeHint().width()
        width = self._label.minimumSizeHint().width() + scroll_bar_width
        return QSize(width, self.heightForWidth(max(width, self.width())))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._update_scroll_bar()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._heights.clear()
        super().changeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Scroll to the start or the end; Qt handles the arrows and the page keys."""
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(bar.minimum())
        elif event.key() == Qt.Key.Key_End:
            bar.setValue(bar.maximum())
        else:
            super().keyPressEvent(event)

    def _needed_size(self) -> QSize:
        return QSize(self.minimumSizeHint().width(), self.heightForWidth(self.width()))

    def _update_scroll_bar(self) -> None:
        """Show the scroll bar, and accept the focus, only if the lines do not fit.

        Qt's own policy can keep a scroll bar whose only cause is the width that it takes itself.
        """
        overflows = self._label.heightForWidth(self.width()) > self.height()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if overflows else Qt.FocusPolicy.NoFocus)
        on, off = Qt.ScrollBarPolicy.ScrollBarAlwaysOn, Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(on if overflows else off)
