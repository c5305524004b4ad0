"""The units of a coupled group of a parameter: their scores, what prunes them, and the members."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QWidget

from prune_gui.gui.views.bars.bar_view import BarView
from prune_gui.gui.views.bars.data import (
    ChannelRow,
    ScoreOf,
    channel_bars,
    in_order,
    visible_positions,
)
from prune_gui.gui.views.controls import Choice, note
from prune_gui.gui.views.groups import text
from prune_gui.gui.views.groups.data import (
    GroupData,
    GroupRow,
    MemberRow,
    drafted_space,
    measure_group,
)
from prune_gui.gui.views.legend_text import SEPARATOR, legend, marked, unbroken
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import (
    CutRequest,
    StepRequest,
    UnitRequest,
    dead_units,
    why_not_listed,
)
from prune_gui.session.subjects import Subject
from prune_gui.table import Table

MAX_POINTS: Final = 20_000
"""Maximum number of points that are drawn where bars would stand for several units each."""
HINT: Final = deferred("Click a unit, or drag over several with Shift, to prune them in the draft")
MIDDLE: Final = Qt.TextElideMode.ElideMiddle


class GroupsView(BarView):
    """A bar per unit of a coupled group, as high as its score, coloured by what pruned it.

    A click drafts a unit by hand. Below are the members of the group, and the groups of the space.
    """

    lane = "groups"
    busy_text = deferred("Reading the tensors that share units with {name}…")

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(
            workbench,
            tr("Groups"),
            tr("Score of each unit"),
            tr("Unit under the cursor"),
            tr("Sort the units by score, smallest first"),
        )
        self._data: GroupData | None = None
        self._wanted: CoupledGroup | None = None
        self._chosen_by_user: CoupledGroup | None = None  # the last one
        group_name = tr("Coupled group of the parameter")
        self._group_box = Choice(group_name, elide=MIDDLE)
        self._only_group = ElidedLabel(group_name, elide=MIDDLE)
        self._group_pages = layouts.pages(self._group_box, self._only_group)
        self._facts = note(tr("Number of units"))
        tip = tr("Nothing reads these units, or they are always zero")
        self._dead = note(tr("Dead units"), tip=tip, rich=True)
        tip = tr("Prune > Use architecture table takes the units from a table of your own")
        self._architecture = note(tr("Table of the architecture"), tip=tip)
        self._architecture.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._members = ParameterTable[MemberRow](
            text.MEMBER_COLUMNS, tr("Tensors that have the units"), lambda one: one.member.name
        )
        self._overview = ParameterTable[GroupRow](
            text.GROUP_COLUMNS, tr("Groups of the same kind"), lambda one: one.group.members[0].name
        )
        tables = layouts.split(self._members, self._overview, sizes=(310, 190))
        self._lay_out(
            [self._group_pages, self._facts, self._sorted, self._architecture],
            layouts.split(self._plot, tables, sizes=(400, 200), vertical=True),
            [self._pointed, self._dead],
        )
        self._plot.picked.connect(lambda position, _add: self._toggle(position))
        self._plot.toggled.connect(self._toggle_current)
        self._plot.prune_wanted.connect(self._toggle_current)
        self._group_box.activated.connect(self._choose_group)
        self._dead.linkActivated.connect(self._remove_dead)
        self._members.chosen.connect(workbench.choose)
        self._overview.chosen.connect(workbench.choose)

    def picture(self) -> QWidget | None:
        return self._plot if super().picture() else None

    def table(self) -> Table | None:
        if self._data is None or self._row is None or self.picture() is None:
            return None
        return text.group_table(self._data, self._row.order)

    def _is_outdated(self, changes: Changes) -> bool:
        """Return whether the new resolution may treat a tensor of the space differently."""
        if self._data is None or super()._is_outdated(changes):
            return True
        subject = self._workbench.subject
        if isinstance(subject, Subject) and drafted_space(subject) != self._data.drafted_space:
            return True
        groups = (one.group for one in self._data.overview)
        return any(changes.concerns(member.name) for group in groups for member in group.members)

    def _request_picture(self, subject: Subject) -> None:
        before, ascending = self._data, self._sorted.isChecked()
        if (chosen := self._workbench.chosen_group) is not self._chosen_by_user:
            self._chosen_by_user, self._wanted = chosen, chosen or self._wanted
        wanted = self._wanted
        in_sight, max_bars = self._plot.view.viewRange()[0], self._max_bars

        def work(monitor: Monitor) -> tuple[GroupData, ChannelRow]:
            data = measure_group(subject, wanted, before, monitor)
            positions = range(data.group.size)
            if before is not None and before.group == data.group:
                positions = visible_positions(in_sight, data.group.size)
            units = data.units
            order = in_order(units.norms, ascending=ascending)
            bars = channel_bars(units.parts, units.channels.dead, order, positions, max_bars)
            dense = bars.max_channels > 1 and len(positions) <= MAX_POINTS
            points = data.pruned_by if dense else None
            return data, ChannelRow(units, order, bars, units.highest, points)

        self._run_picture_job(subject, work, lambda found: self._show(*found))

    def _show(self, data: GroupData, row: ChannelRow) -> None:
        before, self._data = self._data, data
        self._wanted = data.group
        axis, colours = tr(data.chosen.title), self.colours()
        if self._sorted.isChecked():
            axis = tr("position by score, smallest first; {units}", units=axis)
        is_new = before is None or before.group != data.group
        self._show_row(row, axis, _height(data), is_new=is_new)
        self._offer_groups(data)
        self._facts.setText(text.group_facts(data))
        self._dead.setText(_dead_text(data, colours))
        self._dead.setVisible(data.dead > 0)
        self._architecture.setText(text.architecture_text(data))
        self._members.show_rows(data.members, lambda one: one.member.name == self._workbench.chosen)
        self._overview.show_rows(data.overview, lambda one: one.group == data.group)
        self._legend.setText(_legend(data, row, colours))
        self._describe_current()

    def _offer_groups(self, data: GroupData) -> None:
        items = [(text.group_title(one), place) for place, one in enumerate(data.choices)]
        self._group_box.offer(items)
        self._group_box.choose(data.choices.index(data.chosen))
        self._only_group.say(text.group_title(data.chosen))
        alone = len(items) == 1
        self._group_pages.setCurrentWidget(self._only_group if alone else self._group_box)

    def _choose_group(self, index: int) -> None:
        if self._data is not None:
            self._workbench.choose(self._workbench.chosen, self._data.choices[index].group)

    def _toggle(self, position: int) -> None:
        """Let the draft prune the unit at a position, or keep it if the draft prunes it."""
        if self._data is None or self._row is None or not self._is_current:
            return
        unit = int(self._row.order[position])
        self._choose(frozenset(), unit)
        drafted = self._workbench.drafted_units(self._data.group) or frozenset()
        self._request_units(frozenset([unit]), protect=unit in drafted)

    def _toggle_current(self) -> None:
        if self._row is not None and self._current is not None:
            self._toggle(self._row.position_of(self._current))

    def _cut_request(self, score: float, step: int | None) -> CutRequest:
        assert self._data is not None
        return CutRequest("unit_score", score, step, self._data.group.label)

    def _remove_dead(self) -> None:
        if self._data is not None:
            checkpoint = self._data.subject.resolution.checkpoint
            self._request_draft(StepRequest(dead_units(self._data.group, checkpoint)))

    def _band_text(self, count: int) -> str:
        return trn("{count:,} unit", "{count:,} units", count)

    def _take_band(self, channels: frozenset[int]) -> None:
        self._request_units(channels)

    def _request_units(self, units: frozenset[int], *, protect: bool = False) -> None:
        data = self._data
        assert data is not None
        if reason := why_not_listed(data.group):
            self._pointed.say(reason)
            return
        of_others = np.flatnonzero(~np.isin(data.pruned_by, (KEPT, data.draft or KEPT)))
        prunable = units.difference(of_others.tolist())
        if prunable:
            self._request_draft(UnitRequest(data.group, prunable, protect))

    def _describe(self, _row: ChannelRow, channel: int) -> str:
        assert self._data is not None
        return text.describe_unit(self._data, channel)

    def _hint(self) -> str:
        row = self._row  # None before the first group
        return (why_not_listed(self._data.group) if row and self._data else "") or tr(HINT)


def _legend(data: GroupData, row: ChannelRow, colours: Colours) -> str:
    parts = [legend(data, colours)]
    if row.point_codes is not None:
        parts.append(unbroken(tr("a point per unit")))
    elif (count := row.bars.max_channels) > 1:
        parts.append(unbroken(tr("bar: maximum of {count:,} units; line: minimum", count=count)))
    if non_finite := int(np.count_nonzero(~np.isfinite(data.units.norms))):
        parts.append(marked(colours.warning, tr("{count:,} NaN or infinite", count=non_finite)))
    return SEPARATOR.join(parts)


def _dead_text(data: GroupData, colours: Colours) -> str:
    dead = unbroken(trn("{count:,} dead unit", "{count:,} dead units", data.dead))
    link = unbroken(tr("Prune what remains"))
    return (
        f'<span style="color: {colours.warning}">▬&nbsp;{dead}</span>&nbsp; '
        f'<a href="dead">{link}</a>'
    )


def _height(data: GroupData) -> str:
    if not isinstance(data.units.by, ScoreOf):
        return tr("2-norm of the unit")
    step, file = data.units.by.step, data.score_file
    if step == data.draft and file:
        return tr("score in the draft, from {file}", file=file)
    if step == data.draft:
        return tr("score in the draft")
    if file:
        return tr("score in step {number}, from {file}", number=step, file=file)
    return tr("score in step {number}", number=step)
