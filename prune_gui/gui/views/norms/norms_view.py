"""The norm of every channel of a parameter, and how much of the channel is pruned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QPointF, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QWidget,
)
from superqt import QFlowLayout

from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.audit.rendering.stacked_bars import channel_bars, in_order
from prune_gui.audit.view_data.channel_data import (
    ChannelData,
    ScoreOf,
    channel_cuts,
    describe_channel,
    measure,
    norm_rule,
    table_of,
)
from prune_gui.audit.view_data.legend_text import SEPARATOR, legend, unbroken
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.axes import dim_labels, dim_names_of
from prune_gui.gui.views.norms.channel_plot import (
    ChannelPlot,
    ChannelRow,
    channels_at,
    selected_positions,
)
from prune_gui.gui.views.norms.channel_selection import ChannelSelection
from prune_gui.gui.views.norms.norm_box import NormBox
from prune_gui.gui.views.norms.selection_bar import SelectionBar
from prune_gui.gui.views.view import SETTLE_MS, View
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel
from prune_gui.language import deferred, tr, trn
from prune_gui.session.draft_request import ChannelRequest, CutRequest

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.raster.colours import Colours
    from prune_gui.table import Table

MAX_BARS = 2000
"""Maximum number of bars. There is also at most one per pixel column, so that all are visible."""
HINT: Final = deferred("Click a channel, or drag with Shift, to select")


class NormsView(View[Subject]):
    """A bar per channel, as high as its norm, coloured by what is pruned of it.

    The cut of the draft or of a step can be dragged, and selected channels can be pruned or
    protected.
    """

    lane = "norms"
    busy_text = deferred("Computing the norms of {name}…")
    has_table = True

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, lambda: workbench.subject, parent)
        self.setAccessibleName(tr("Norms"))
        self._row: ChannelRow | None = None
        self._chosen = ChannelSelection()
        self._protectable = False
        self._plot = ChannelPlot(tr("Norm of each channel"))
        self._dim_box, self._norm_box = ElidedComboBox(), NormBox()
        self._dim_box.setAccessibleName(tr("Dimension of the channels"))
        self._sorted = QCheckBox(tr("&Sorted"))
        self._sorted.setToolTip(tr("Sort the channels by norm, smallest first"))
        self._full_range_box = QCheckBox(tr("Full range"))
        self._full_range_box.setToolTip(
            tr("Show the axis up to the outermost numbers; else 99.9 % of them")
        )
        self._selection_bar = SelectionBar()
        self._channel = ElidedLabel(tr("Channel under the cursor"))
        self._warnings = QLabel(textFormat=Qt.TextFormat.RichText)
        self._channel.say(tr(HINT))
        self._warnings.setAccessibleName(tr("Dead channels and non-finite norms"))
        self._warnings.setToolTip(tr("All kept weights of a dead channel are zero"))
        controls = _side_by_side(
            [self._dim_box, self._norm_box, self._sorted],
            [self._selection_bar, self._full_range_box],
        )
        self._lay_out([controls], self._plot, [self._channel, self._warnings])
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self.refresh)
        self._dim_box.currentIndexChanged.connect(self._choose_dim)
        self._norm_box.changed.connect(self.refresh)
        for box in (self._sorted, self._full_range_box):
            box.toggled.connect(self.refresh)
        self._selection_bar.banding_changed.connect(self._set_banding)
        self._selection_bar.prune_wanted.connect(self._prune)
        self._selection_bar.protect_wanted.connect(self._protect)
        self._connect_plot()
        self._recolour()

    def _connect_plot(self) -> None:
        plot = self._plot
        plot.view.sigXRangeChanged.connect(self._moved)
        plot.view.sigResized.connect(self._moved)
        plot.scene().sigMouseMoved.connect(self._point_at)
        plot.left.connect(self._describe_current)
        plot.picked.connect(self._pick)
        plot.banded.connect(self._band)
        plot.stepped.connect(self._step)
        plot.toggled.connect(self._toggle)
        plot.prune_wanted.connect(self._prune)
        plot.dropped.connect(lambda: self._choose(ChannelSelection(current=self._chosen.current)))
        plot.cut_dragged.connect(self._drag)

    def _choose_dim(self) -> None:
        self._norm_box.leave_scores()  # those of a step are along its own dimension
        self.refresh()

    def _drag(self, score: float) -> None:
        """Move the cut of the draft, or of a step, which then becomes the draft."""
        by = self._row.measured.by if self._row is not None else None
        if isinstance(by, ScoreOf):
            drafted = self.subject is not None and by.step == self.subject.draft
            self._request_draft(CutRequest("rank", score, None if drafted else by.step))

    def _request_picture(self, subject: Subject) -> None:
        self._offer_dims(subject)
        cuts = channel_cuts(subject)
        self._norm_box.offer_scores(tuple(cuts), subject.draft)
        by = self._norm_box.order
        if isinstance(by, ScoreOf):
            with QSignalBlocker(self._dim_box):
                self._dim_box.setCurrentIndex(cuts[by].dim)
        dim, ascending, full = (
            self._dim_box.currentData(),
            self._sorted.isChecked(),
            self._full_range_box.isChecked(),
        )
        shape = subject.info.shape or (1,)
        before = self._row.measured if self._row else None
        if before is not None and not before.is_about(subject, dim):
            before = None
        positions = range(shape[dim]) if before is None else self._in_sight(shape[dim])
        max_bars = max(1, min(MAX_BARS, round(self._plot.view.width())))

        def work(monitor: Monitor) -> ChannelRow:
            measured = measure(subject, dim, by, before, monitor)
            order = in_order(measured.norms, ascending=ascending)
            is_dead = measured.channels.dead
            bars = channel_bars(measured.parts, is_dead, order, positions, max_bars)
            top = measured.highest if full else measured.inner_limit
            return ChannelRow(measured, order, bars, top)

        self._run_picture_job(subject, work, self._show)

    def _offer_dims(self, subject: Subject) -> None:
        shape = subject.info.shape
        labels = [
            tr("{dim} ({size:,})", dim=axis_label, size=size)
            for axis_label, size in zip(self._dims(subject), shape, strict=False)
        ] or self._dims(subject)
        if labels != [self._dim_box.itemText(i) for i in range(self._dim_box.count())]:
            with QSignalBlocker(self._dim_box):
                self._dim_box.clear()
                for dim, label in enumerate(labels):
                    self._dim_box.addItem(label, dim)
                checkpoint = subject.resolution.checkpoint
                self._dim_box.setCurrentIndex(weight_layout(checkpoint, subject.name).output_dim)

    def _dims(self, subject: Subject) -> list[str]:
        """Return a label of the channels along each dimension."""
        return dim_labels(dim_names_of(self._workbench, subject)) or [tr("single element")]

    def _in_sight(self, channels: int) -> range:
        low, high = self._plot.view.viewRange()[0]
        first = min(max(0, math.floor(low + 0.5)), channels - 1)
        return range(first, max(first + 1, min(channels, math.ceil(high + 0.5))))

    def _show(self, row: ChannelRow) -> None:
        before, self._row = self._row, row
        subject, dim = row.measured.subject, row.measured.dim
        channels, colours = len(row.order), self.colours()
        if before is None or not before.measured.is_about(subject, dim):
            self._chosen = ChannelSelection()
            self._plot.view.setLimits(xMin=-0.5, xMax=channels - 0.5, minXRange=min(2, channels))
            self._plot.setXRange(-0.5, channels - 0.5, padding=0)
        self._plot.show_row(row, colours)
        self._protectable = self._workbench.drafted_channels(dim) is not None
        self._show_chosen()
        axis_label = self._dims(subject)[dim]
        if self._sorted.isChecked():
            axis_label = tr("position by norm, smallest first; {channels}", channels=axis_label)
        self._plot.label("bottom", axis_label)
        self._plot.plotItem.getAxis("bottom").end = channels
        self._plot.label("left", _height(row.measured))
        self._legend.setText(_legend(row, colours))
        self._warnings.setText(_warnings(row.measured, colours))

    def _choose(self, chosen: ChannelSelection) -> None:
        self._chosen = chosen
        self._show_chosen()
        self._describe_current()

    def _show_chosen(self) -> None:
        row, chosen = self._row, self._chosen
        if row is None:
            return
        order = row.order
        current = None
        if chosen.current is not None:
            current = int(np.flatnonzero(order == chosen.current)[0])
        self._plot.show_chosen(selected_positions(chosen.channels, order), current, self.colours())
        self._selection_bar.show_number(len(chosen.channels), protectable=self._protectable)

    def _pick(self, position: int, add: bool) -> None:
        assert self._row is not None
        channel = int(self._row.order[position])
        self._choose(self._chosen.toggled(channel) if add else self._chosen.only(channel))

    def _band(self, first: int, last: int, at_its_end: bool) -> None:
        assert self._row is not None
        if at_its_end:
            added = channels_at(self._row.order, range(first, last + 1))
            self._choose(self._chosen.widened(added))
        else:
            banded = last - first + 1
            self._channel.say(trn("{count:,} channel", "{count:,} channels", banded))

    def _step(self, positions: int, choosing: bool) -> None:
        if self._row is None:
            return
        order = self._row.order
        if self._chosen.current is None:
            to = self._in_sight(len(order)).start
        else:
            at = int(np.flatnonzero(order == self._chosen.current)[0])
            to = min(max(0, at + positions), len(order) - 1)
        chosen = self._chosen.moved_to(int(order[to]))
        self._choose(chosen.widened(frozenset([int(order[to])])) if choosing else chosen)
        self._plot.keep_in_sight(to)

    def _toggle(self) -> None:
        if self._chosen.current is not None:
            self._choose(self._chosen.toggled(self._chosen.current))

    def _prune(self) -> None:
        self._request_channels(protect=False)

    def _protect(self) -> None:
        self._request_channels(protect=True)

    def _request_channels(self, *, protect: bool) -> None:
        row, channels = self._row, self._take_selection()
        if row is not None and channels:
            self._request_draft(ChannelRequest(row.measured.dim, channels, protect))

    def _take_selection(self) -> frozenset[int]:
        """Return the selected channels, and clear the selection."""
        channels = self._chosen.channels
        self._choose(ChannelSelection(current=self._chosen.current))
        return channels

    def _set_banding(self, banding: bool) -> None:
        self._plot.banding = banding

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _point_at(self, scene: QPointF) -> None:
        row = self._row
        position = round(self._plot.view.mapSceneToView(scene).x())
        inside = self._plot.view.sceneBoundingRect().contains(scene)
        if row is not None and inside and 0 <= position < len(row.order):
            self._channel.say(describe_channel(row.measured, int(row.order[position])))
        else:
            self._describe_current()

    def _describe_current(self) -> None:
        """Describe the current channel; show a hint if there is none."""
        row, current = self._row, self._chosen.current
        if row is None or current is None:
            self._channel.say(tr(HINT))
        else:
            self._channel.say(describe_channel(row.measured, current))

    def legend(self) -> str:
        """Return the meaning of the colours and marks as rich text."""
        return SEPARATOR.join(filter(None, (super().legend(), self._warnings.text())))

    def table(self) -> Table | None:
        """Return the channels in the order on the screen."""
        row = self._row
        return table_of(row.measured, row.order) if row and self.picture() else None

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timer."""
        super().hideEvent(event)
        self._settle_timer.stop()


def _warnings(measured: ChannelData, colours: Colours) -> str:
    """Return as rich text how many channels are dead, and how many norms are non-finite."""
    dead = int(np.count_nonzero(measured.channels.dead))
    non_finite = int(np.count_nonzero(~np.isfinite(measured.norms)))
    notes = (
        ("▬", tr("{count:,} dead", count=dead), dead),
        ("■", tr("{count:,} NaN or infinite", count=non_finite), non_finite),
    )
    return SEPARATOR.join(
        f'<span style="color: {colours.warning}">{mark}</span>&nbsp;{unbroken(text)}'
        for mark, text, count in notes
        if count
    )


def _legend(row: ChannelRow, colours: Colours) -> str:
    """Return the meaning of the colours, and of the heights, as rich text."""
    measured = row.measured
    parts = [legend(measured.subject, colours)]
    if not isinstance(measured.by, ScoreOf) and len(measured.channels.codes) > 1:
        rule = norm_rule(measured.by)
        parts.append(
            unbroken(tr("solid: norm of the kept weights; light: the rest"))
            + SEPARATOR
            + unbroken(rule)
        )
    if (channels_per_bar := row.bars.max_channels) > 1:
        parts.append(
            unbroken(
                tr("bar: maximum of {count:,} channels; line: minimum", count=channels_per_bar)
            )
        )
    return SEPARATOR.join(parts)


def _height(measured: ChannelData) -> str:
    """Return the label of the axis of heights."""
    if not isinstance(measured.by, ScoreOf):
        return tr("{order:g}-norm of the channel", order=measured.by)
    if measured.by.step == measured.subject.draft:
        return tr("ranking value of the draft")
    return tr("ranking value of step {number}", number=measured.by.step)


def _side_by_side(boxes: Sequence[QWidget], more: Sequence[QWidget]) -> QWidget:
    """Return a widget with boxes and more widgets side by side, wrapped if the space is narrow."""
    both, left = QWidget(), QWidget()
    row = QHBoxLayout(left)
    row.setContentsMargins(0, 0, 0, 0)
    for box in boxes:
        row.addWidget(box)
    flow = QFlowLayout(both)
    flow.setContentsMargins(0, 0, 0, 0)
    for part in (left, *more):
        flow.addWidget(part)
    policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    policy.setHeightForWidth(True)
    policy.setHorizontalStretch(1)  # take the whole row, so that the flow layout knows its width
    both.setSizePolicy(policy)
    return both
