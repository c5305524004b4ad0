"""Texts and tables about the units of a coupled group. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.gui.views.bars.data import ScoreOf
from prune_gui.language import deferred, join_clauses, tr, trn
from prune_gui.number_formats import sparsity
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.space_outline import unit_name
from prune_gui.table import Column, Table

if TYPE_CHECKING:
    from prune_gui.gui.views.groups.data import GroupData, GroupRow, MemberRow, TitledGroup


ROLES: Final = {
    "produces": deferred("output"),
    "consumes": deferred("input"),
    "bias": deferred("bias"),
    "norm": deferred("norm"),
}
"""The roles of members, as what the units are of the tensor."""
MAX_NAME_CHARS: Final = 40


def group_title(one: TitledGroup) -> str:
    """Return the name of a group: "FFN neurons · encoder.layer.0"."""
    return tr("{units} · {group}", units=one_line(tr(one.title)), group=one_line(one.group.label))


def group_facts(data: GroupData) -> str:
    """Return the numbers of units: "1,536 units, 768 pruned"."""
    pruned = int(np.count_nonzero(data.pruned_by))
    units = trn("{count:,} unit", "{count:,} units", data.group.size)
    return tr("{units}, {pruned:,} pruned", units=units, pruned=pruned)


def architecture_text(data: GroupData) -> str:
    """Return the name of the architecture and of the user's table: "BERT, table my_bert.yaml"."""
    family = one_line(data.architecture, MAX_NAME_CHARS) or tr("from the shapes")
    if not data.table:
        return family
    return tr("{family}, table {file}", family=family, file=one_line(data.table, MAX_NAME_CHARS))


def describe_unit(data: GroupData, unit: int) -> str:
    """Describe a unit in one line: its name, its score and what pruned it."""
    statistics, value = data.units.channels, float(data.units.norms[unit])
    name, code = unit_name(data.group, unit), int(data.pruned_by[unit])
    head = tr("{unit}: norm {value:.4g}", unit=name, value=value)
    if isinstance(data.units.by, ScoreOf):
        head = tr("{unit}: score {value:.5g}", unit=name, value=value)
    pruned, total = int(statistics.pruned[unit]), int(statistics.counts[:, unit].sum())
    state = tr("kept")
    if code != KEPT:
        state = tr("pruned by {step}", step=data.title(code))
    elif pruned:
        message = deferred("kept, {pruned:,} of {total:,} elements pruned ({share})")
        state = tr(message, pruned=pruned, total=total, share=sparsity(pruned, total))
    return join_clauses([head, state])


def group_table(data: GroupData, order: NDArray[np.intp]) -> Table:
    """Return the units in a given order, for export."""
    statistics = data.units.channels
    heading = tr("score") if isinstance(data.units.by, ScoreOf) else tr("2-norm")
    codes = data.pruned_by[order].tolist()
    return Table(
        tr("{name} units", name=data.group.label),
        {
            tr("unit"): order,
            tr("name"): [unit_name(data.group, unit) for unit in order.tolist()],
            heading: data.units.norms[order],
            tr("pruned by"): ["" if code == KEPT else data.title(code) for code in codes],
            tr("pruned elements"): statistics.pruned[order],
            tr("elements"): statistics.counts[:, order].sum(0),
        },
    )


def _slices(row: MemberRow) -> str:
    member = row.member
    if member.dim is None:
        return tr("unit {unit:,}", unit=member.offset)
    return tr("{width:,} of dim {dim}", width=member.width, dim=member.dim)


MEMBER_COLUMNS: Final[tuple[Column[Sequence[MemberRow]], ...]] = (
    Column(
        title=deferred("Tensor"),
        text=lambda rows, row: rows[row].short_name,
        values=lambda rows: [(one.member.name, one.member.offset) for one in rows],
        cell_tip=lambda rows, row: one_line(rows[row].member.name),
        is_number=False,
    ),
    Column(
        title=deferred("Slice"),
        text=lambda rows, row: _slices(rows[row]),
        values=lambda rows: [_slices(one) for one in rows],
        tip=deferred("Channels of each unit along a dimension, or the unit of the whole tensor"),
        is_number=False,
    ),
    Column(
        title=deferred("Role"),
        text=lambda rows, row: tr(ROLES[rows[row].member.role]),
        values=lambda rows: [one.member.role for one in rows],
        tip=deferred("What the units are in the tensor"),
        is_number=False,
    ),
    Column(
        title=deferred("Pruned"),
        text=lambda rows, row: sparsity(rows[row].pruned, rows[row].total),
        values=lambda rows: [one.pruned / max(1, one.total) for one in rows],
        tip=deferred("Pruned share of the slices of all units"),
        descending_first=True,
    ),
)

GROUP_COLUMNS: Final[tuple[Column[Sequence[GroupRow]], ...]] = (
    Column(
        title=deferred("Group"),
        text=lambda rows, row: rows[row].short_label,
        values=lambda rows: [one.group.label for one in rows],
        cell_tip=lambda rows, row: one_line(rows[row].group.label),
        is_number=False,
    ),
    Column(
        title=deferred("Kept"),
        text=lambda rows, row: tr(
            "{kept:,} of {count:,}", kept=rows[row].kept, count=rows[row].group.size
        ),
        values=lambda rows: [one.kept for one in rows],
        tip=deferred("Units of which an element is kept"),
    ),
)
