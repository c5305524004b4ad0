"""What the views Norms and Groups share: bars of channels or units, and moving along them."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final

from PySide6.QtCore import QPointF

from prune_gui.gui.views.bars.channel_plot import ChannelPlot
from prune_gui.gui.views.bars.data import ChannelRow, ScoreOf, visible_positions
from prune_gui.gui.views.controls import switch
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.draft_request import CutRequest
from prune_gui.session.subjects import Subject

MAX_BARS: Final = 2000
"""Maximum number of bars. There is also at most one per pixel column, so that all are visible."""


class BarView(View[Subject]):
    """A bar per channel or unit. The cut of the draft or of a step can be dragged.

    In views that select, Shift with a key selects what it moves along.
    """

    has_table = True
    selects: ClassVar[bool] = False

    def __init__(
        self, workbench: Workbench, name: str, plot_name: str, pointed_name: str, sorted_tip: str
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, name)
        self._row: ChannelRow | None = None
        self._channels: frozenset[int] = frozenset()  # the selected ones
        self._current: int | None = None  # the channel of the keyboard
        self._plot = plot = ChannelPlot(plot_name)
        self._sorted = switch(tr("&Sorted"), sorted_tip, self.refresh)
        self._pointed = ElidedLabel(pointed_name)
        self._describe_current()
        plot.view.sigXRangeChanged.connect(self._settle)
        plot.view.sigResized.connect(self._settle)
        plot.scene().sigMouseMoved.connect(self._point_at)
        plot.left.connect(self._describe_current)
        plot.banded.connect(self._draw_band)
        plot.stepped.connect(self._step)
        plot.cut_dragged.connect(self._drag)

    @property
    def _max_bars(self) -> int:
        return max(1, min(MAX_BARS, round(float(self._plot.view.width()))))

    def _in_sight(self, size: int) -> range:
        return visible_positions(self._plot.view.viewRange()[0], size)

    @abstractmethod
    def _describe(self, row: ChannelRow, channel: int) -> str:
        """Describe a channel in one line."""

    @abstractmethod
    def _hint(self) -> str:
        """Return what the user can do, while no channel is described."""

    @abstractmethod
    def _band_text(self, count: int) -> str:
        """Return how many channels a rubber band covers."""

    @abstractmethod
    def _take_band(self, channels: frozenset[int]) -> None:
        """Select or prune the channels in a finished rubber band."""

    @abstractmethod
    def _cut_request(self, score: float, step: int | None) -> CutRequest:
        """Return the request to prune up to a score, in a step or in the draft."""

    def _show_row(self, row: ChannelRow, axis: str, height: str, *, is_new: bool) -> None:
        self._row = row
        if is_new:
            self._channels, self._current = frozenset(), None
            self._plot.show_positions(len(row.order), 2)
        self._plot.show_row(row, self.colours())
        self._show_chosen()
        self._plot.label("bottom", axis)
        self._plot.plotItem.getAxis("bottom").end = len(row.order)
        self._plot.label("left", height)

    def _choose(self, channels: frozenset[int], current: int | None) -> None:
        self._channels, self._current = channels, current
        self._show_chosen()
        self._describe_current()

    def show_selection(self, *, on: bool) -> None:
        if on:
            self._show_chosen()
        elif self._row is not None:
            self._plot.show_chosen(self._row.positions_of(frozenset()), None, self.colours())

    def _show_chosen(self) -> None:
        row = self._row
        if row is not None:
            current = None if self._current is None else row.position_of(self._current)
            self._plot.show_chosen(row.positions_of(self._channels), current, self.colours())

    def _step(self, positions: int, choosing: bool) -> None:
        row = self._row
        if row is None:
            return
        if self._current is None:
            to = self._in_sight(len(row.order)).start
        else:
            to = min(max(0, row.position_of(self._current) + positions), len(row.order) - 1)
        channel = int(row.order[to])
        added = frozenset([channel] if choosing and self.selects else [])
        self._choose(self._channels | added, channel)
        self._plot.keep_in_sight(to)

    def _draw_band(self, first: int, last: int, at_its_end: bool) -> None:
        if not at_its_end:
            self._pointed.say(self._band_text(last - first + 1))
        elif self._row is not None:
            self._take_band(frozenset(self._row.order[first : last + 1].tolist()))

    def _drag(self, score: float) -> None:
        by = self._row.measured.by if self._row is not None else None
        if isinstance(by, ScoreOf) and self.subject is not None:
            step = None if by.step == self.subject.draft else by.step
            self._request_draft(self._cut_request(score, step))

    def _point_at(self, scene: QPointF) -> None:
        row = self._row
        position = None if row is None else self._plot.position_at(scene, len(row.order))
        if row is None or position is None:
            self._describe_current()
        else:
            self._pointed.say(self._describe(row, int(row.order[position])))

    def _describe_current(self) -> None:
        row, current = self._row, self._current
        text = self._hint() if row is None or current is None else self._describe(row, current)
        self._pointed.say(text)

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
