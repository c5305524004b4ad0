"""The norm of every channel of a parameter, and how much of the channel is pruned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QSizePolicy, QWidget
from superqt import QFlowLayout

from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.gui.views.bars.bar_view import BarView
from prune_gui.gui.views.bars.data import (
    ChannelData,
    ChannelRow,
    NormOrScore,
    ScoreOf,
    channel_bars,
    in_order,
)
from prune_gui.gui.views.controls import Choice, note, switch
from prune_gui.gui.views.legend_text import SEPARATOR, legend, marked, unbroken
from prune_gui.gui.views.norms import data
from prune_gui.gui.views.plot import dim_labels, dim_names_of
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import MIN_WIDTH_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, format_number, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import Colours
from prune_gui.session.draft_request import ChannelRequest, CutRequest
from prune_gui.session.subjects import Subject
from prune_gui.table import Table


class NormsView(BarView):
    """A bar per channel, as high as its norm, coloured by what is pruned of it."""

    lane = "norms"
    busy_text = deferred("Computing the norms of {name}…")
    selects = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(
            workbench,
            tr("Norms"),
            tr("Norm of each channel"),
            tr("Channel under the cursor"),
            tr("Sort the channels by norm, smallest first"),
        )
        self._protectable = False
        self._dim_box = Choice(tr("Dimension of the channels"), changed=self._choose_dim)
        self._norm_box = NormBox()
        self._full_range_box = switch(
            tr("Full range"),
            tr("Show the axis up to the outermost numbers; else 99.9 % of them"),
            self.refresh,
        )
        self._selection_bar = bar = SelectionBar()
        tip = tr("All kept weights of a dead channel are zero")
        self._warnings = note(tr("Dead channels and non-finite norms"), tip=tip, rich=True)
        boxes = [self._dim_box, self._norm_box, self._sorted]
        controls = _side_by_side(boxes, [bar, self._full_range_box])
        self._lay_out([controls], self._plot, [self._pointed, self._warnings])
        self._norm_box.changed.connect(self.refresh)
        bar.banding.toggled.connect(partial(setattr, self._plot.box, "banding"))
        bar.prune.clicked.connect(lambda: self._request_channels(protect=False))
        bar.protect.clicked.connect(lambda: self._request_channels(protect=True))
        self._plot.picked.connect(self._pick)
        self._plot.toggled.connect(self._toggle)
        self._plot.prune_wanted.connect(lambda: self._request_channels(protect=False))
        self._plot.dropped.connect(self._drop)

    def _choose_dim(self) -> None:
        self._norm_box.leave_scores()  # those of a step are along its own dimension
        self.refresh()

    def _cut_request(self, score: float, step: int | None) -> CutRequest:
        return CutRequest("rank", score, step)

    def _request_picture(self, subject: Subject) -> None:
        self._offer_dims(subject)
        cuts = data.channel_cuts(subject)
        self._norm_box.offer_scores(tuple(cuts), subject.draft)
        by = self._norm_box.order
        if isinstance(by, ScoreOf):
            self._dim_box.choose(cuts[by].dim)
        dim, ascending = self._dim_box.value, self._sorted.isChecked()
        full, max_bars = self._full_range_box.isChecked(), self._max_bars
        size = (subject.info.shape or (1,))[dim]
        before = self._row.measured if self._row else None
        if before is not None and not before.is_about(subject, dim):
            before = None
        positions = range(size) if before is None else self._in_sight(size)

        def work(monitor: Monitor) -> ChannelRow:
            measured = data.measure(subject, dim, by, before, monitor)
            order = in_order(measured.norms, ascending=ascending)
            is_dead = measured.channels.dead
            bars = channel_bars(measured.parts, is_dead, order, positions, max_bars)
            top = measured.highest if full else measured.inner_limit
            return ChannelRow(measured, order, bars, top)

        self._run_picture_job(subject, work, self._show)

    def _offer_dims(self, subject: Subject) -> None:
        labels, sizes = self._dims(subject), subject.info.shape
        if sizes:
            pairs = zip(labels, sizes, strict=True)
            labels = [tr("{dim} ({size:,})", dim=label, size=size) for label, size in pairs]
        items = [(label, dim) for dim, label in enumerate(labels)]
        if items != self._dim_box.items:
            self._dim_box.offer(items)
            checkpoint = subject.resolution.checkpoint
            self._dim_box.choose(weight_layout(checkpoint, subject.name).output_dim)

    def _dims(self, subject: Subject) -> list[str]:
        return dim_labels(dim_names_of(self._workbench, subject)) or [tr("single element")]

    def _show(self, row: ChannelRow) -> None:
        before, measured = self._row, row.measured
        self._protectable = self._workbench.drafted_channels(measured.dim) is not None
        label = self._dims(measured.subject)[measured.dim]
        if self._sorted.isChecked():
            label = tr("position by norm, smallest first; {channels}", channels=label)
        is_new = before is None or not before.measured.is_about(measured.subject, measured.dim)
        self._show_row(row, label, _height(measured), is_new=is_new)
        self._legend.setText(_legend(row, self.colours()))
        self._warnings.setText(_warnings(measured, self.colours()))

    def _show_chosen(self) -> None:
        super()._show_chosen()
        self._selection_bar.show_number(len(self._channels), protectable=self._protectable)

    def _pick(self, position: int, add: bool) -> None:
        assert self._row is not None
        channel = int(self._row.order[position])
        chosen = frozenset([channel])
        if add or self._channels == chosen:
            chosen = self._channels ^ chosen
        self._choose(chosen, channel)

    def _band_text(self, count: int) -> str:
        return trn("{count:,} channel", "{count:,} channels", count)

    def _take_band(self, channels: frozenset[int]) -> None:
        self._choose(self._channels | channels, self._current)

    def _toggle(self) -> None:
        if self._current is not None:
            self._choose(self._channels ^ {self._current}, self._current)

    def _drop(self) -> None:
        self._choose(frozenset(), self._current)

    def _request_channels(self, *, protect: bool) -> None:
        row, channels = self._row, self._channels
        self._drop()
        if row is not None and channels:
            self._request_draft(ChannelRequest(row.measured.dim, channels, protect))

    def _describe(self, row: ChannelRow, channel: int) -> str:
        return data.describe_channel(row.measured, channel)

    def _hint(self) -> str:
        return tr("Click a channel, or drag with Shift, to select")

    def legend(self) -> str:
        return SEPARATOR.join(filter(None, (super().legend(), self._warnings.text())))

    def table(self) -> Table | None:
        row = self._row
        return data.table_of(row.measured, row.order) if row and self.picture() else None


def _warnings(measured: ChannelData, colours: Colours) -> str:
    dead = int(np.count_nonzero(measured.channels.dead))
    non_finite = int(np.count_nonzero(~np.isfinite(measured.norms)))
    notes = []
    if dead:
        notes.append(marked(colours.warning, tr("{count:,} dead", count=dead), mark="▬"))
    if non_finite:
        notes.append(marked(colours.warning, tr("{count:,} NaN or infinite", count=non_finite)))
    return SEPARATOR.join(notes)


def _legend(row: ChannelRow, colours: Colours) -> str:
    measured = row.measured
    parts = [legend(measured.subject, colours)]
    if not isinstance(measured.by, ScoreOf) and len(measured.channels.codes) > 1:
        parts.append(unbroken(data.norm_rule(measured.by)))
    if (count := row.bars.max_channels) > 1:
        text = tr("bar: maximum of {count:,} channels; line: minimum", count=count)
        parts.append(unbroken(text))
    return SEPARATOR.join(parts)


def _height(measured: ChannelData) -> str:
    if not isinstance(measured.by, ScoreOf):
        return tr("{order:g}-norm of the channel", order=measured.by)
    if measured.by.step == measured.subject.draft:
        return tr("ranking value of the draft")
    return tr("ranking value of step {number}", number=measured.by.step)


def _side_by_side(boxes: Sequence[QWidget], more: Sequence[QWidget]) -> QWidget:
    both, left = QWidget(), QWidget()
    layouts.row(*boxes, of=left, margin=0)
    flow = QFlowLayout(both)
    flow.setContentsMargins(0, 0, 0, 0)
    for part in (left, *more):
        flow.addWidget(part)
    policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    policy.setHeightForWidth(True)
    policy.setHorizontalStretch(1)  # take the whole row, so that the flow layout knows its width
    both.setSizePolicy(policy)
    return both


NORMS: Final = (
    (0.0, deferred("0: number of nonzeros")),
    (0.5, None),
    (1.0, deferred("1: sum of |w|")),
    (2.0, deferred("2: Euclidean")),
    (3.0, None),
    (math.inf, deferred("inf: largest |w|")),
    (-math.inf, deferred("-inf: smallest |w|")),
)
DEFAULT_ORDER: Final = 2.0
PRUNE: Final = deferred(
    "Draft a step that prunes the selected channels of this parameter and those that the draft "
    "already prunes (Enter)"
)
PROTECT: Final = deferred(
    "Remove the selected channels from the draft: it becomes a list of the other channels it "
    "prunes, and prunes that many fewer"
)
NOTHING_TO_PROTECT: Final = deferred(
    "Removes channels from the draft. Requires a draft that prunes channels along this dimension, "
    "of this parameter only"
)
NOTHING: Final = deferred("Select channels first: click them, or drag over them with Shift")


class NormBox(QComboBox):
    """Offers common norms, accepts any other, and offers the scores of steps that rank channels."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.order: NormOrScore = DEFAULT_ORDER
        self._norm = DEFAULT_ORDER
        self._offered: dict[ScoreOf, str] = {}
        self._line = QLineEdit()
        self.setLineEdit(self._line)
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setAccessibleName(tr("Norm"))
        self.setToolTip(tr("The norm's order: choose one, or type any number, inf or -inf"))
        for order, text in NORMS:
            self.addItem(tr(text) if text else format_number(order, "g"), order)
        self._write()
        self.currentIndexChanged.connect(self._index_changed)
        self._line.setAcceptDrops(False)  # the window handles dropped files
        self._line.editingFinished.connect(self._typed)

    def offer_scores(self, steps: Sequence[ScoreOf], draft: int | None) -> None:
        """Offer the scores of steps, and select those of the draft when they are new."""
        texts = {one: _text(one, draft) for one in steps}
        if texts == self._offered:
            return
        drafted = next((one for one in steps if one.step == draft), None)
        is_new = drafted is not None and self._offered.get(drafted) != texts[drafted]
        with QSignalBlocker(self):
            for _ in self._offered:
                self.removeItem(0)
            for index, (one, text) in enumerate(texts.items()):
                self.insertItem(index, text, one)
        self._offered = texts
        if drafted is not None and is_new:
            self.order = drafted
        elif isinstance(self.order, ScoreOf) and self.order not in texts:
            self.order = self._norm
        self._write()

    def leave_scores(self) -> None:
        self.order = self._norm
        self._write()

    def _index_changed(self, index: int) -> None:
        if index >= 0:
            self._set(self.itemData(index))

    def _typed(self) -> None:
        text = self.currentText().strip()
        if (index := self.findText(text, Qt.MatchFlag.MatchFixedString)) >= 0:
            self._set(self.itemData(index))
            return
        order, valid = self.locale().toDouble(text)
        if valid and not math.isnan(order):
            self._set(order)
        else:
            self._write()

    def _set(self, order: NormOrScore) -> None:
        changed, self.order = order != self.order, order
        if not isinstance(order, ScoreOf):
            self._norm = order
        self._write()
        if changed:
            self.changed.emit()

    def _write(self) -> None:
        index = next((i for i in range(self.count()) if self.itemData(i) == self.order), -1)
        text = self.itemText(index)
        if isinstance(self.order, float) and index < 0:
            text = format_number(self.order, "g")
        with QSignalBlocker(self):
            self.setCurrentIndex(index)
            self.setEditText(text)
            self._line.setCursorPosition(0)


def _text(of: ScoreOf, draft: int | None) -> str:
    if of.step == draft:
        return tr("draft: the value it ranks by")
    return tr("step {number}: the value it ranks by", number=of.step)


class SelectionBar(QWidget):
    """A switch for what a drag does, and a button per action on the selected channels."""

    def __init__(self) -> None:
        super().__init__()
        tip = tr("Drag to select channels, not to pan (or hold Shift)")
        self.banding = layouts.tool_button(tr("Select"), tip=tip)
        self.banding.setCheckable(True)
        self.prune, self.protect = QPushButton(), QPushButton()
        layouts.row(self.banding, self.prune, self.protect, of=self, margin=0)
        self.show_number(0, protectable=False)

    def show_number(self, chosen: int, *, protectable: bool) -> None:
        self.prune.setText(tr("Prune {count:,}", count=chosen) if chosen else tr("Prune"))
        self.protect.setText(tr("Protect {count:,}", count=chosen) if chosen else tr("Protect"))
        self.prune.setEnabled(chosen > 0)
        self.protect.setEnabled(chosen > 0 and protectable)
        self.prune.setToolTip(tr(PRUNE if chosen else NOTHING))
        protect_tip = (PROTECT if chosen else NOTHING) if protectable else NOTHING_TO_PROTECT
        self.protect.setToolTip(tr(protect_tip))
