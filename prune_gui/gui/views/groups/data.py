"""The units of a coupled group of a parameter, and what steps prune of them. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint.tree import without_shared_start
from prune_gui.errors import RecipeError
from prune_gui.gui.views.bars.data import ChannelData, NormOrScore, ScoreOf
from prune_gui.language import join_items, tr
from prune_gui.pruning.methods.fields import file_name
from prune_gui.recipe.recipe import KEPT

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.layouts import CoupledGroup, Member
    from prune_gui.recipe import Resolution
    from prune_gui.session.subjects import Subject


NORM = 2.0
"""The order of the norms that stand in for scores."""


@dataclass(frozen=True, slots=True)
class TitledGroup:
    """A coupled group with the title of its space: a few words on the units, in the plural."""

    title: str
    group: CoupledGroup


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a group, and how much of its slices is pruned.

    The short name leaves out the components that the names of all members begin with.
    """

    member: Member
    short_name: str
    pruned: int
    total: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of a space, and how many of its units are kept, at least in part."""

    group: CoupledGroup
    short_label: str
    kept: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupData:
    """A coupled group that a parameter is a member of.

    Attributes:
        units: in place of channels, with their scores in the last step that ranked them, or norms.
        pruned_by: uint8 (units,), the step that completed the pruning of a unit; 0 if one is kept.
    """

    subject: Subject
    choices: tuple[TitledGroup, ...]
    chosen: TitledGroup
    units: ChannelData
    pruned_by: NDArray[np.uint8]
    members: tuple[MemberRow, ...]
    overview: tuple[GroupRow, ...]  # all groups of the space
    dead: int = 0  # number of units without effect of which elements are kept
    architecture: str = ""  # the name of the family of the table; "" without a table
    table: str = ""  # the name of the file of the user's table; "" for a table of this program

    @property
    def group(self) -> CoupledGroup:
        return self.chosen.group

    @property
    def draft(self) -> int | None:
        return self.subject.draft

    @property
    def drafted_space(self) -> str | None:
        return drafted_space(self.subject)

    @property
    def score_file(self) -> str:
        """The name of the file of the scores; "" if they follow from the weights."""
        if not isinstance(self.units.by, ScoreOf):
            return ""
        method = self.subject.resolution.recipe.steps[self.units.by.step - 1].method
        return file_name(method.files.get("importance", ""))

    def counts(self) -> dict[int, int]:
        codes, numbers = np.unique(self.pruned_by, return_counts=True)
        return dict(zip(codes.tolist(), numbers.tolist(), strict=True))

    def title(self, code: int) -> str:
        return self.subject.title(code)


def measure_group(
    subject: Subject, wanted: CoupledGroup | None, before: GroupData | None, monitor: Monitor
) -> GroupData:
    """Compute what steps prune of a coupled group of a parameter; norms in `before` are reused.

    That is the wanted group if the parameter is a member of it, or else of its space; but one of
    the draft after the draft has begun to prune units of another space.

    Raises:
        RecipeError: the parameter is no member of a group, or a table does not fit the file.
    """
    from prune_gui.architecture.groups import analysis, coupled_groups
    from prune_gui.recipe.compaction.network import removable_units
    from prune_gui.statistics.channel_statistics import ChannelStatistics
    from prune_gui.statistics.unit_statistics import count_units

    choices = groups_of(subject.resolution, subject.name, subject.draft)
    wanted_space = wanted.space if wanted is not None else None
    drafted = drafted_space(subject)
    is_new = wanted is None or (before is not None and before.drafted_space != drafted)
    if drafted is not None and is_new:
        wanted_space, wanted = drafted, None
    chosen = max(  # the wanted group itself, or else the first of its space
        choices, key=lambda one: (one.group == wanted, one.group.space == wanted_space)
    )
    if (
        before is not None
        and before.group == chosen.group
        and before.subject.resolution is subject.resolution
        and before.subject.draft == subject.draft
    ):
        units = replace(before.units, subject=subject)
        return replace(before, subject=subject, choices=choices, units=units)
    resolution = subject.resolution
    counts = count_units(resolution, chosen.group, monitor)
    table = resolution.recipe.table_path
    groups = coupled_groups(resolution.checkpoint, chosen.group.space, table)
    architecture = analysis(resolution.checkpoint, table).table
    removable = removable_units(resolution, groups, monitor)
    is_pruned = removable[groups.index(chosen.group)]
    pruned_by = np.where(is_pruned, counts.last_steps, np.uint8(KEPT))
    scores, by, cut = _scores(subject, chosen.group, before, monitor)
    statistics = ChannelStatistics(counts.codes, counts.counts, np.zeros(len(scores), np.bool_))
    parts = _parts(scores, counts.codes, pruned_by)
    members = chosen.group.members
    names = without_shared_start([member.name for member in members])
    labels = without_shared_start([group.label for group in groups])
    return GroupData(
        subject,
        choices,
        chosen,
        ChannelData(subject, 0, by, scores, statistics, parts, cut),
        pruned_by,
        tuple(
            MemberRow(member, names[member.name], *numbers)
            for member, numbers in zip(members, counts.members, strict=True)
        ),
        tuple(
            GroupRow(group, labels[group.label], group.size - int(np.count_nonzero(units)))
            for group, units in zip(groups, removable, strict=True)
        ),
        int(counts.dead.sum()),
        architecture.family if architecture is not None else "",
        table.name if table is not None else "",
    )


def drafted_space(subject: Subject) -> str | None:
    """Return the space of the units that the draft prunes; None if it prunes no units."""
    if subject.draft is None:
        return None
    return subject.resolution.recipe.steps[subject.draft - 1].method.coupled_space


def groups_of(
    resolution: Resolution, name: str, draft: int | None = None
) -> tuple[TitledGroup, ...]:
    """Return the coupled groups that a parameter is a member of, those of whole tensors last.

    If it has none of the units that the draft prunes, the nearest group of them comes last.
    """
    from prune_gui.architecture.groups import coupled_groups, spaces

    checkpoint, table = resolution.checkpoint, resolution.recipe.table_path
    rules = spaces(checkpoint, table)
    found = [
        TitledGroup(rule.title, group)
        for space, rule in rules.items()
        for group in coupled_groups(checkpoint, space, table)
        if any(member.name == name for member in group.members)
    ]
    found.sort(key=lambda one: all(member.dim is None for member in one.group.members))
    drafted = resolution.recipe.steps[draft - 1].method.coupled_space if draft else None
    if draft and drafted in rules and all(one.group.space != drafted for one in found):
        pruned = resolution.outcomes[draft - 1].pruned
        groups = coupled_groups(checkpoint, drafted, table)
        touched = [group for group in groups if group.members[0].name in pruned] or groups
        nearest = max(touched, key=lambda one: _shared_components(one.members[0].name, name))
        found.append(TitledGroup(rules[drafted].title, nearest))
    if found:
        return tuple(found)
    if not rules:
        raise RecipeError(
            "This parameter belongs to no coupled units of a known architecture. "
            "The names of the parameters in {file} fit no table of an architecture. "
            "Prune > Use architecture table uses one of your own.",
            file=checkpoint.path.name,
        )
    raise RecipeError(
        "This parameter belongs to no coupled units of a known architecture. "
        "Choose a parameter that has some of these: {units}.",
        units=join_items(dict.fromkeys(tr(rule.title) for rule in rules.values())),
    )


def _shared_components(one: str, other: str) -> int:
    pairs = zip(one.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _scores(
    subject: Subject, group: CoupledGroup, before: GroupData | None, monitor: Monitor
) -> tuple[NDArray[np.float64], NormOrScore, float | None]:
    from prune_gui.statistics.channel_statistics import ranks
    from prune_gui.statistics.unit_statistics import unit_norms, units_of_step

    resolution = subject.resolution
    numbers = range(len(resolution.outcomes), 0, -1)  # the draft comes first, then the last step
    for step in sorted(numbers, key=lambda step: step != subject.draft):
        method = resolution.recipe.steps[step - 1].method
        if method.coupled_space == group.space:
            ranked = units_of_step(resolution, group, step)
            if ranked is not None and ranked.ranks is not None:
                scores, cut = ranks(ranked)
                return scores, ScoreOf(step), cut
    if (
        before is not None
        and before.units.by == NORM
        and before.group == group
        and before.subject.resolution.checkpoint is resolution.checkpoint
    ):
        return before.units.norms, NORM, None
    return unit_norms(resolution.checkpoint, group, monitor), NORM, None


def _parts(
    scores: NDArray[np.float64], codes: tuple[int, ...], pruned_by: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Return the scores as `ChannelData.parts`: zeros in the rows before that of the step."""
    row_of = np.zeros(256, np.intp)
    row_of[list(codes)] = np.arange(len(codes))
    return np.where(row_of[pruned_by] <= np.arange(len(codes))[:, None], scores, 0.0)
