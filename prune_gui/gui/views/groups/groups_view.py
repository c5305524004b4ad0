"""The units of a coupled group of a parameter: their scores, what prunes them, and the members."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QPointF, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QHideEvent, QPalette
from PySide6.QtWidgets import QCheckBox, QLabel, QSplitter, QStackedWidget, QWidget

from prune_gui.audit.rendering.stacked_bars import channel_bars, in_order
from prune_gui.audit.view_data.channel_data import ScoreOf
from prune_gui.audit.view_data.group_data import (
    GroupData,
    GroupRow,
    MemberRow,
    measure_group,
    prunable_by_hand,
)
from prune_gui.audit.view_data.group_text import (
    GROUP_COLUMNS,
    MEMBER_COLUMNS,
    architecture_text,
    describe_unit,
    group_facts,
    group_table,
    group_title,
)
from prune_gui.audit.view_data.legend_text import SEPARATOR, legend, unbroken
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.groups.group_tables import GroupTable
from prune_gui.gui.views.norms.channel_plot import (
    ChannelPlot,
    ChannelRow,
    channels_at,
    selected_positions,
)
from prune_gui.gui.views.view import SETTLE_MS, View
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel
from prune_gui.language import deferred, tr, trn
from prune_gui.session.draft_request import CutRequest, StepRequest, UnitRequest
from prune_gui.session.manual_units import dead_units, why_not_listed

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.raster.colours import Colours
    from prune_gui.session.changes import Changes
    from prune_gui.table import Table

MAX_BARS: Final = 2000
"""Maximum number of bars. There is also at most one per pixel column, so that all are visible."""
MAX_POINTS: Final = 20_000
"""Maximum number of points that are drawn where bars would stand for several units each."""
HINT: Final = deferred("Click a unit, or drag over several with Shift, to prune them in the draft")


@dataclass(frozen=True, slots=True)
class UnitRow:
    """The content of the view.

    Attributes:
        data: the group.
        row: the bars of its units.
    """

    data: GroupData
    row: ChannelRow


class GroupsView(View[Subject]):
    """A bar per unit of a coupled group, as high as its score, coloured by what pruned it.

    A click on a unit drafts it by hand. Below are the members of the group, and the groups of the
    space.
    """

    lane = "groups"
    busy_text = deferred("Reading the tensors that share units with {name}…")
    has_table = True

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, lambda: workbench.subject, parent)
        self.setAccessibleName(tr("Groups"))
        self._found: UnitRow | None = None
        self._current: int | None = None
        self._wanted: CoupledGroup | None = None
        self._plot = ChannelPlot(tr("Score of each unit"))
        self._group_box = ElidedComboBox(elide=Qt.TextElideMode.ElideMiddle)
        self._group_box.setAccessibleName(tr("Coupled group of the parameter"))
        self._only_group = ElidedLabel(
            tr("Coupled group of the parameter"), elide=Qt.TextElideMode.ElideMiddle
        )
        self._group_pages = QStackedWidget()
        self._group_pages.addWidget(self._group_box)
        self._group_pages.addWidget(self._only_group)
        self._facts = QLabel()
        self._facts.setAccessibleName(tr("Number of units"))
        self._sorted = QCheckBox(tr("&Sorted"))
        self._sorted.setToolTip(tr("Sort the units by score, smallest first"))
        self._unit = ElidedLabel(tr("Unit under the cursor"))
        self._unit.say(tr(HINT))
        self._dead = QLabel(textFormat=Qt.TextFormat.RichText)
        self._dead.setAccessibleName(tr("Dead units"))
        self._dead.setToolTip(tr("Nothing reads these units, or they are always zero"))
        self._architecture = QLabel()
        self._architecture.setAccessibleName(tr("Table of the architecture"))
        self._architecture.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._architecture.setToolTip(
            tr("Prune > Use architecture table takes the units from a table of your own")
        )
        self._members = GroupTable[MemberRow](
            MEMBER_COLUMNS, tr("Tensors that have the units"), lambda one: one.member.name
        )
        self._overview = GroupTable[GroupRow](
            GROUP_COLUMNS, tr("Groups of the same kind"), lambda one: one.group.members[0].name
        )
        self._lay_out(
            [self._group_pages, self._facts, self._sorted, self._architecture],
            self._splitter(),
            [self._unit, self._dead],
        )
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self.refresh)
        self._connect()
        self._recolour()

    def picture(self) -> QWidget | None:
        """Return the plot, without the tables; None if nothing is shown."""
        return self._plot if super().picture() else None

    def table(self) -> Table | None:
        """Return the units in the order on the screen."""
        found = self._found
        return group_table(found.data, found.row.order) if found and self.picture() else None

    def _splitter(self) -> QSplitter:
        tables = QSplitter(Qt.Orientation.Horizontal)
        tables.addWidget(self._members)
        tables.addWidget(self._overview)
        tables.setSizes([310, 190])
        both = QSplitter(Qt.Orientation.Vertical)
        both.addWidget(self._plot)
        both.addWidget(tables)
        both.setSizes([400, 200])
        for splitter in (tables, both):
            splitter.setChildrenCollapsible(False)
        return both

    def _connect(self) -> None:
        plot = self._plot
        plot.view.sigXRangeChanged.connect(self._moved)
        plot.view.sigResized.connect(self._moved)
        plot.scene().sigMouseMoved.connect(self._point_at)
        plot.left.connect(self._describe_current)
        plot.picked.connect(lambda position, _add: self._toggle(position))
        plot.banded.connect(self._band)
        plot.stepped.connect(self._step)
        plot.toggled.connect(self._toggle_current)
        plot.prune_wanted.connect(self._toggle_current)
        plot.cut_dragged.connect(self._drag)
        self._group_box.activated.connect(self._choose_group)
        self._sorted.toggled.connect(self.refresh)
        self._dead.linkActivated.connect(self._remove_dead)
        self._members.chosen.connect(self._workbench.choose)
        self._overview.chosen.connect(self._workbench.choose)

    def _is_outdated(self, changes: Changes) -> bool:
        """Return whether the new resolution may treat a tensor of the space differently."""
        if self._found is None or super()._is_outdated(changes):
            return True
        return any(
            changes.concerns(member.name)
            for one in self._found.data.overview
            for member in one.group.members
        )

    def _request_picture(self, subject: Subject) -> None:
        before, ascending = self._found, self._sorted.isChecked()
        wanted = self._workbench.chosen_group or self._wanted
        in_sight = self._plot.view.viewRange()[0]
        max_bars = max(1, min(MAX_BARS, round(self._plot.view.width())))

        def work(monitor: Monitor) -> UnitRow:
            data = measure_group(subject, wanted, before.data if before else None, monitor)
            positions = range(data.group.size)
            if before is not None and before.data.group == data.group:
                positions = _within(in_sight, data.group.size)
            units = data.units
            order = in_order(units.norms, ascending=ascending)
            bars = channel_bars(units.parts, units.channels.dead, order, positions, max_bars)
            dense = bars.max_channels > 1 and len(positions) <= MAX_POINTS
            points = data.pruned_by if dense else None
            return UnitRow(data, ChannelRow(units, order, bars, units.highest, points))

        self._run_picture_job(subject, work, self._show)

    def _show(self, found: UnitRow) -> None:
        before, self._found = self._found, found
        data, row, colours = found.data, found.row, self.colours()
        size = data.group.size
        self._wanted = data.group
        if before is None or before.data.group != data.group:
            self._current = None
            self._plot.view.setLimits(xMin=-0.5, xMax=size - 0.5, minXRange=min(2, size))
            self._plot.setXRange(-0.5, size - 0.5, padding=0)
        self._plot.show_row(row, colours)
        self._show_current()
        axis = self._plot.plotItem.getAxis("bottom")
        self._plot.label("bottom", self._axis_label(data))
        axis.end = size
        self._plot.label("left", _height(data))
        self._offer_groups(data)
        self._facts.setText(group_facts(data))
        self._dead.setText(_dead_text(data, self.palette().link().color().name(), colours))
        self._dead.setVisible(data.dead > 0)
        self._architecture.setText(architecture_text(data))
        self._members.show_rows(data.members, lambda one: one.member.name == self._workbench.chosen)
        self._overview.show_rows(data.overview, lambda one: one.group == data.group)
        self._legend.setText(_legend(found, colours))
        self._describe_current()

    def _axis_label(self, data: GroupData) -> str:
        title = tr(data.chosen.title)
        if self._sorted.isChecked():
            return tr("position by score, smallest first; {units}", units=title)
        return title

    def _offer_groups(self, data: GroupData) -> None:
        """Offer the groups of the parameter; one alone is a text."""
        texts = [group_title(one) for one in data.choices]
        with QSignalBlocker(self._group_box):
            if texts != [self._group_box.itemText(i) for i in range(self._group_box.count())]:
                self._group_box.clear()
                self._group_box.addItems(texts)
            self._group_box.setCurrentIndex(data.choices.index(data.chosen))
        self._only_group.say(group_title(data.chosen))
        alone = len(texts) == 1
        self._group_pages.setCurrentWidget(self._only_group if alone else self._group_box)

    def _choose_group(self, index: int) -> None:
        if self._found is not None:
            self._workbench.choose(self._workbench.chosen, self._found.data.choices[index].group)

    def _toggle(self, position: int) -> None:
        """Let the draft prune the unit at a position, or keep it if the draft prunes it."""
        if self._found is None or not self._is_current:
            return
        unit = int(self._found.row.order[position])
        self._current = unit
        self._show_current()
        self._describe_current()
        drafted = self._workbench.drafted_units(self._found.data.group) or frozenset()
        self._request_units(frozenset([unit]), protect=unit in drafted)

    def _drag(self, score: float) -> None:
        """Move the cut of the draft, or of a step, which then becomes the draft."""
        data = self._found.data if self._found is not None else None
        if data is not None and isinstance(data.units.by, ScoreOf):
            step = None if data.units.by.step == data.draft else data.units.by.step
            self._request_draft(CutRequest("unit_score", score, step, data.group.label))

    def _remove_dead(self) -> None:
        """Let the draft prune what remains of the dead units of the group."""
        if self._found is not None:
            data = self._found.data
            checkpoint = data.subject.resolution.checkpoint
            self._request_draft(StepRequest(dead_units(data.group, checkpoint)))

    def _toggle_current(self) -> None:
        if self._found is not None and self._current is not None:
            self._toggle(int(np.flatnonzero(self._found.row.order == self._current)[0]))

    def _band(self, first: int, last: int, at_its_end: bool) -> None:
        assert self._found is not None
        if at_its_end:
            self._request_units(channels_at(self._found.row.order, range(first, last + 1)))
        else:
            self._unit.say(trn("{count:,} unit", "{count:,} units", last - first + 1))

    def _request_units(self, units: frozenset[int], *, protect: bool = False) -> None:
        """Emit that the draft is to prune units, except those that other steps pruned."""
        assert self._found is not None
        data = self._found.data
        if reason := why_not_listed(data.group):
            self._unit.say(reason)
            return
        prunable = frozenset(unit for unit in units if prunable_by_hand(data, unit))
        if prunable:
            self._request_draft(UnitRequest(data.group, prunable, protect))

    def _step(self, positions: int, _choosing: bool) -> None:
        if self._found is None:
            return
        order = self._found.row.order
        if self._current is None:
            to = _within(self._plot.view.viewRange()[0], len(order)).start
        else:
            at = int(np.flatnonzero(order == self._current)[0])
            to = min(max(0, at + positions), len(order) - 1)
        self._current = int(order[to])
        self._show_current()
        self._describe_current()
        self._plot.keep_in_sight(to)

    def _show_current(self) -> None:
        if self._found is None:
            return
        order = self._found.row.order
        at = None if self._current is None else int(np.flatnonzero(order == self._current)[0])
        self._plot.show_chosen(selected_positions(frozenset(), order), at, self.colours())

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _point_at(self, scene: QPointF) -> None:
        found = self._found
        position = round(self._plot.view.mapSceneToView(scene).x())
        inside = self._plot.view.sceneBoundingRect().contains(scene)
        if found is not None and inside and 0 <= position < len(found.row.order):
            self._unit.say(describe_unit(found.data, int(found.row.order[position])))
        else:
            self._describe_current()

    def _describe_current(self) -> None:
        """Describe the current unit; show a hint if there is none."""
        if self._found is None:
            self._unit.say(tr(HINT))
        elif self._current is None:
            self._unit.say(why_not_listed(self._found.data.group) or tr(HINT))
        else:
            self._unit.say(describe_unit(self._found.data, self._current))

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timer."""
        super().hideEvent(event)
        self._settle_timer.stop()


def _within(in_sight: tuple[float, float], size: int) -> range:
    """Return the positions in a range of the axis; at least one."""
    first = min(max(0, math.floor(in_sight[0] + 0.5)), size - 1)
    return range(first, max(first + 1, min(size, math.ceil(in_sight[1] + 0.5))))


def _legend(found: UnitRow, colours: Colours) -> str:
    """Return the meaning of the colours and of the bars as rich text."""
    parts = [legend(found.data, colours)]
    units = found.row.bars.max_channels
    if found.row.point_codes is not None:
        parts.append(unbroken(tr("a point per unit")))
    elif units > 1:
        parts.append(unbroken(tr("bar: maximum of {count:,} units; line: minimum", count=units)))
    if non_finite := int(np.count_nonzero(~np.isfinite(found.data.units.norms))):
        text = unbroken(tr("{count:,} NaN or infinite", count=non_finite))
        parts.append(f'<span style="color: {colours.warning}">■</span>&nbsp;{text}')
    return SEPARATOR.join(parts)


def _dead_text(data: GroupData, link_colour: str, colours: Colours) -> str:
    """Return as rich text how many units are dead, with a link that prunes what remains of them."""
    dead = unbroken(trn("{count:,} dead unit", "{count:,} dead units", data.dead))
    link = unbroken(tr("Prune what remains"))
    return (
        f'<span style="color: {colours.warning}">▬&nbsp;{dead}</span>&nbsp; '
        f'<a style="color: {link_colour}" href="dead">{link}</a>'
    )


def _height(data: GroupData) -> str:
    """Return the label of the axis of heights."""
    if not isinstance(data.units.by, ScoreOf):
        return tr("2-norm of the unit")
    step, file = data.units.by.step, data.score_file
    if step == data.draft:
        return (
            tr("score in the draft, from {file}", file=file) if file else tr("score in the draft")
        )
    if file:
        return tr("score in step {number}, from {file}", number=step, file=file)
    return tr("score in step {number}", number=step)
