"""The rules of spaces: which numbers of units programs can load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction

import numpy as np

from prune_gui.architecture.tables import SpaceRule
from prune_gui.checkpoint import TensorInfo
from prune_gui.language import join_items, tr
from prune_gui.pruning.layouts import Member
from prune_gui.recipe.compaction.config import GroupUnits
from prune_gui.recipe.compaction.removal import Units


def rule_problems(
    rule: SpaceRule, groups: Sequence[GroupUnits], counts: Mapping[str, int]
) -> Iterator[str]:
    """Yield what the rules of a space forbid, one line for each group."""
    title = tr(rule.title)
    minimum = max(1, counts.get(rule.minimum, 1))
    for group, units in groups:
        kept = int((~units).sum())
        if not units.any():
            continue
        if not rule.loadable:
            yield unloadable(rule)
        elif kept < minimum:
            yield tr(
                "{group}: {kept:,} of {size:,} {title} would remain, at least {minimum:,} must. "
                "Prune fewer.",
                group=group.label,
                kept=kept,
                size=group.size,
                title=title,
                minimum=minimum,
            )
        elif not _is_even(units, counts.get(rule.runs, 1)):
            yield tr(
                "{group}: each of {runs:,} runs of {title} must keep equally many. Prune equally "
                "many in each.",
                group=group.label,
                runs=counts[rule.runs],
                title=title,
            )


def unloadable(rule: SpaceRule) -> str:
    """Return the problem of units that programs can only mask."""
    return tr(
        "{title}: no known program loads fewer. Save the finalized form, in which they are zeros.",
        title=tr(rule.title),
    )


def held_spaces(spaces: Mapping[str, SpaceRule], groups: Sequence[GroupUnits]) -> dict[str, str]:
    """Return the spaces that lose units, but another share than spaces they depend on."""
    shares: dict[str, set[Fraction]] = defaultdict(set)
    for group, units in groups:
        if not units.all():  # as in a removed layer
            shares[group.space].add(Fraction(int((~units).sum()), group.size))
    held = {}
    for space, own in shares.items():
        rule = spaces[space]
        others = [shares.get(other, {Fraction(1)}) for other in rule.loadable_with]
        if own == {1} or all(own == other and len(other) == 1 for other in others):
            continue
        if not spaces.keys() >= set(rule.loadable_with):
            held[space] = unloadable(rule)
        else:
            held[space] = tr(
                "{title}: programs load fewer only with the same share of the {others}. Keep the "
                "same share of both, or save the finalized form, in which they are zeros.",
                title=tr(rule.title),
                others=join_items(tr(spaces[other].title) for other in rule.loadable_with),
            )
    return held


def _is_even(units: Units, runs: int) -> bool:
    """Return whether runs of equal length keep equally many units."""
    if len(units) % runs:
        return False
    kept = np.count_nonzero(~units.reshape(runs, -1), axis=1)
    return bool((kept == kept[0]).all())


def can_resize(
    groups: Sequence[GroupUnits], tensors: Mapping[str, TensorInfo], experts: Set[str]
) -> bool:
    """Return whether the loader script can give each layer another number of units.

    It can if units are single channels of linear layers, convolutions and batch norms. Heads and
    experts are also counted by attributes of other modules. Programs join the matrices of all
    experts of a layer, so these have one width.
    """
    return all(
        member.name not in experts and _is_resizable(member, tensors.get(member.name))
        for group, _ in groups
        for member in group.members
    )


def _is_resizable(member: Member, info: TensorInfo | None) -> bool:
    if member.dim is None or member.width != 1:
        # A channel of an image that is flattened before a linear layer has several columns.
        return member.dim == 1 and member.role == "consumes"
    return info is None or len(info.shape) <= 2 or info.name.endswith(".weight")
