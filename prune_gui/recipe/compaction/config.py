"""Adapting config.json to the units that remain, and how many of these programs load."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import cycle, islice
from typing import Final

import numpy as np

from prune_gui.architecture.tables import ConfigRule, SpaceRule
from prune_gui.checkpoint.folder import MODEL_TYPE, TEXT_CONFIG
from prune_gui.errors import RecipeError
from prune_gui.language import deferred, join_items, tr
from prune_gui.pruning.layouts import Member
from prune_gui.recipe.compaction.network import GroupUnits, Json, Units

MAX_PERIOD: Final = 1 << 20
RESIZABLE: Final = frozenset({"weight", "bias", "running_mean", "running_var"})
"""The names of the parameters and buffers of layers and batch norms that have channels."""
NO_MULTIPLE: Final = deferred(
    "config.json: {field} would be {value:,}, which is not a multiple of {other:,}. Keep another "
    "number."
)
NO_DIVISOR: Final = deferred(
    "config.json: {field} would be {value:,}, which does not divide {divided:,}. Keep another "
    "number."
)


@dataclass(slots=True)
class AdaptedConfig:
    """A new config.json, and what prevents a program from building the network from it."""

    content: Json | None
    changes: dict[str, object] = field(default_factory=dict)
    differing: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    _ratios: list[tuple[str, int, str, bool]] = field(default_factory=list)

    def apply(
        self, space: str, rule: SpaceRule, groups: Sequence[GroupUnits], counts: Mapping[str, int]
    ) -> None:
        """Apply the rules of a space of which units are removed."""
        if len({int((~units).sum()) for _, units in groups}) > 1:
            self.differing.add(space)
            return
        by_field: dict[tuple[str, str], ConfigRule] = {}
        for each in rule.config:
            if not each.model_types or self._get(MODEL_TYPE) in each.model_types:
                by_field.setdefault((each.section, each.field), each)
        for each in by_field.values():
            if each.unless and self._get(each.unless) is not None:
                continue
            try:
                path, key, holder = self._find(each)
                old = holder.get(key)
                if each.value == "units" and not rule.of_blocks and path not in self.changes:
                    _check_size(each, old, groups)
                if each.value == "units" and rule.of_blocks and type(old) is int:
                    value: object = int((~groups[0][1][:old]).sum())  # later ones are extra
                    if not value:
                        problem = tr(
                            "All {title} would be removed. Prune fewer.", title=tr(rule.title)
                        )
                        self.problems.append(problem)
                        continue
                else:
                    by_period = each
                    if old is None and each.cycle:
                        by_period = _with_period(each, self._get(each.period))
                    value = _new_value(by_period, old, groups, counts)
                if value is not None and value != old:
                    self._set(path, value)
                    holder[key] = value
                for name, is_multiple in ((each.divides, False), (each.multiple_of, True)):
                    if name and type(value) is int:
                        self._ratios.append((key, value, name, is_multiple))
            except RecipeError as error:
                self.problems.append(str(error))

    def check_ratios(self, counts: Mapping[str, int]) -> None:
        """Check that fields divide other numbers as the rules say."""
        for key, value, name, is_multiple in self._ratios:
            other = counts.get(name, 0)
            divisor, multiple = (other, value) if is_multiple else (value, other)
            if divisor and multiple % divisor:
                problem = NO_MULTIPLE if is_multiple else NO_DIVISOR
                self.problems.append(
                    tr(problem, field=key, value=value, other=other, divided=other)
                )

    def _find(self, rule: ConfigRule) -> tuple[str, str, Json]:
        """Return the path and the key of a field, and the mapping that has it, or is to have it."""
        *inner, content = self._holders(rule.section)
        holders = [(f"{rule.section}.", one) for one in inner] + [("", content)]
        for key in (rule.field, *rule.aliases):
            for prefix, holder in holders:
                if key in holder:
                    return prefix + key, key, holder
        prefix, holder = holders[0]
        return prefix + rule.field, rule.field, holder

    def _get(self, key: str) -> object:
        values = (holder.get(key) for holder in self._holders())
        return next((value for value in values if value is not None), None)

    def _holders(self, section: str = TEXT_CONFIG) -> list[Json]:
        content = {} if self.content is None else self.content
        inner = content.get(section)
        return [inner, content] if isinstance(inner, dict) else [content]

    def _set(self, path: str, value: object) -> None:
        if path in self.changes and self.changes[path] != value:
            raise RecipeError(
                "config.json: {field} would have to be both {one} and {other}. Prune the units "
                "of one kind only.",
                field=path,
                one=self.changes[path],
                other=value,
            )
        self.changes[path] = value


def differences(old: Json, new: Json) -> Json:
    """Return the fields of a config that have other values in a new one, with these."""
    found: Json = {}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = differences(before, value)
            if not value:
                continue
        elif key in old and before == value:
            continue
        found[key] = value
    return found


def _new_value(
    rule: ConfigRule, old: object, groups: Sequence[GroupUnits], counts: Mapping[str, int]
) -> object:
    """Return the new value of a field; None if it stays as it is."""
    size, units = groups[0][0].size, groups[0][1]
    alike = all(np.array_equal(units, others) for _, others in groups)
    if rule.value in ("list", "indices", "leading", "extra", "pattern") and not alike:
        raise RecipeError(
            "config.json: {field} applies to all layers. Remove the same units in each.",
            field=rule.field,
        )
    kept = int((~units).sum())
    if rule.value in ("list", "indices"):
        return _new_list(rule, old, size, units)
    if rule.value == "leading":
        return int((~units[:old]).sum()) if type(old) is int else None
    if rule.value == "extra":
        known = counts.get(rule.count, size)
        return int((~units[known:]).sum()) if type(old) is int and size > known else None
    if rule.value == "pattern":
        return _checked_pattern(rule, old, units)
    if rule.value == "forbids":
        if old is not True:
            return None
        raise RecipeError(
            "config.json: {field} true needs all layers. Leave the layers as they are.",
            field=rule.field,
        )
    if rule.value == "pin":
        return counts.get(rule.count)
    if rule.value == "fixed":
        if type(old) is int and 0 <= old < size and units[: old + 1].any():
            raise RecipeError(
                "config.json: {field} must stay {value:,}. Keep the units up to this one.",
                field=rule.field,
                value=old,
            )
        return None
    value = kept
    if rule.value == "proportional":
        before = counts.get(rule.count, 0)
        if before * kept % size:
            raise RecipeError(
                "config.json: {field} {old} cannot be reduced to {kept} of {size}. Keep "
                "another number.",
                field=rule.field,
                old=before,
                kept=kept,
                size=size,
            )
        value = before * kept // size
    return value


def _check_size(rule: ConfigRule, old: object, groups: Sequence[GroupUnits]) -> None:
    for group, _ in groups:
        if type(old) is int and old != group.size:
            raise RecipeError(
                "config.json: {field} is {value:,}, but {group} has {size:,} units. Correct "
                "the file, or leave these units unpruned.",
                field=rule.field,
                value=old,
                group=group.label,
                size=group.size,
            )


def _with_period(rule: ConfigRule, period: object) -> ConfigRule:
    if period is None:
        return rule
    if type(period) is not int or not 0 < period <= MAX_PERIOD:
        raise RecipeError(
            "config.json: {field} {value!r} is no number of layers. Add a list {list} to the file.",
            field=rule.period,
            value=period,
            list=rule.field,
        )
    cycle = (*(rule.cycle[0],) * (period - 1), rule.cycle[-1])
    return rule.model_copy(update={"cycle": cycle})


def _checked_pattern(rule: ConfigRule, old: object, units: Units) -> list[object] | None:
    if isinstance(old, list):
        return _new_list(rule, old, len(units), units)
    period = len(units) if old is True else old
    if type(period) is not int or period <= 1:
        return None
    kept = np.flatnonzero(~units)
    if ((kept - np.arange(len(kept))) % period).any():
        raise RecipeError(
            tr(
                "config.json: {field} {value} makes layers depend on their numbers. Remove only "
                "the last layers.",
                field=rule.field,
                value=json.dumps(old),
            )
            if old is True
            else tr(
                "config.json: {field} {value:,} makes every {value:,} layers a pattern. Remove "
                "only runs of {value:,} layers, or the last layers.",
                field=rule.field,
                value=period,
            )
        )
    return None


def _new_list(rule: ConfigRule, old: object, size: int, units: Units) -> list[object] | None:
    if rule.value == "indices":
        if not isinstance(old, list):
            return None
        renumbered = (~units).cumsum() - 1
        valid = [index for index in old if type(index) is int and 0 <= index < size]
        return [int(renumbered[index]) for index in valid if not units[index]]
    if old is None and rule.cycle:
        old = list(islice(cycle(rule.cycle), size))
    if not isinstance(old, list):
        return None
    if len(old) != size:
        raise RecipeError(
            "config.json: {field} has {count:,} values for {size:,} units. Correct the file.",
            field=rule.field,
            count=len(old),
            size=size,
        )
    return [value for value, gone in zip(old, units, strict=True) if not gone]


def rule_problems(
    rule: SpaceRule, groups: Sequence[GroupUnits], counts: Mapping[str, int]
) -> Iterator[str]:
    """Yield what the rules of a space forbid, one line for each group."""
    title = tr(rule.title)
    minimum, runs = max(1, counts.get(rule.minimum, 1)), counts.get(rule.runs, 1)
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
        elif len(units) % runs or len(set((~units).reshape(runs, -1).sum(1).tolist())) > 1:
            yield tr(
                "{group}: each of {runs:,} runs of {title} must keep equally many. Prune equally "
                "many in each.",
                group=group.label,
                runs=runs,
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


def can_resize(groups: Sequence[GroupUnits], experts: Set[str]) -> bool:
    """Return whether the loader script can give each layer another number of units.

    It can for single channels of layers and batch norms. Attributes of other modules count heads,
    experts and channels of states, and programs join the matrices of all experts of a layer.
    """

    def is_resizable(member: Member) -> bool:
        if member.dim is None or member.width != 1:
            # A channel of an image that is flattened before a linear layer has several columns.
            return member.dim == 1 and member.role == "consumes"
        return member.name.rpartition(".")[2] in RESIZABLE

    return all(
        member.name not in experts and is_resizable(member)
        for group, _ in groups
        for member in group.members
    )
