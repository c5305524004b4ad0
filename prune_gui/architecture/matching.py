"""Matching the names of parameters against the table of an architecture."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from prune_gui.architecture.tables import (
    UNIT,
    ArchitectureTable,
    GroupRule,
    MemberRule,
    SpaceRule,
    name_pattern,
)
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.checkpoint.tree import shared_start
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.layouts import CoupledGroup, Member

NUMBER: Final = re.compile(r"(?<![^.])[0-9]+(?![^.])")  # a component of a path that is a number
OTHER_MODEL: Final = re.compile(
    r"vision|visual|image|pixel|video|audio|speech|qformer|perceiver|resampler|depth"
)
"""In the path of a module, shows that it is no part of the text model."""
VISION_MODEL: Final = re.compile(r"vision|visual|image")
"""In the path of a module, shows that it is a part of a model of images."""


class RepeatedModule(NamedTuple):
    """A repeated module of a list, with its parameters by their names below its path."""

    stack: str
    number: int
    tensors: dict[str, TensorInfo]

    @property
    def path(self) -> str:
        """The path of the module."""
        return f"{self.stack}.{self.number}"


class Found(NamedTuple):
    """A tensor that a rule is about; `name` may be an alias."""

    name: str
    unit: int | None
    info: TensorInfo


class Slot(NamedTuple):
    """What may be a group: the tensors found for each of its rules, by index of the rule."""

    label: str
    stack: str
    rules: tuple[int, ...]
    found: dict[int, list[Found]]


def blocks_of(
    table: ArchitectureTable, named: Iterable[tuple[str, TensorInfo]]
) -> list[RepeatedModule]:
    """Return the blocks of a table, by stack in the order of the file, and by number."""
    stacks = "|".join(map(re.escape, table.stacks))
    pattern = re.compile(rf"((.*?\.)?(?:{stacks}))\.([0-9]{{1,7}})\.(.+)", re.DOTALL)
    found: dict[str, dict[int, dict[str, TensorInfo]]] = defaultdict(lambda: defaultdict(dict))
    others = set()
    for name, info in named:
        if match := pattern.fullmatch(name):
            stack, prefix, number, rest = match.groups()
            found[stack][int(number)][rest] = info
            if prefix and OTHER_MODEL.search(prefix):
                others.add(stack)
    blocks = [
        RepeatedModule(stack, number, numbered[number])
        for stack, numbered in found.items()
        for number in sorted(numbered)
        if all(name in numbered[number] for name in table.signature)
    ]
    return [block for block in blocks if block.stack not in others] or blocks


class Match(NamedTuple):
    """A rule that a name in a block is about; `path` stands for `start`, up to the last "*"."""

    space: str
    start: str
    path: str
    rule: int
    unit: int | None


def slots_of(table: ArchitectureTable, blocks: Sequence[RepeatedModule]) -> dict[str, list[Slot]]:
    """Return what may be a group, by space, in the order of the blocks."""
    rules = [
        (name, _start(rule), index, name_pattern(rule.name))
        for name, space in table.spaces.items()
        if not space.outside
        for index, rule in enumerate(space.members)
    ]
    alike = {
        (name, start): tuple(index for n, s, index, _ in rules if (n, s) == (name, start))
        for name, start, _, _ in rules
    }

    @cache  # blocks are alike
    def matches(rest: str) -> list[Match]:
        result = []
        for name, start, index, pattern in rules:
            if match := pattern.fullmatch(rest):
                depth = start.count(".") + 1 if start else 0
                path = ".".join(rest.split(".")[:depth])
                unit = int(match["unit"]) if "unit" in pattern.groupindex else None
                result.append(Match(name, start, path, index, unit))
        return result

    def order(slot: Slot) -> tuple[str, list[int], str]:
        numbers = NUMBER.findall(slot.label[len(slot.stack) :])
        return slot.stack, list(map(int, numbers)), slot.label

    slots: dict[str, list[Slot]] = {name: [] for name in table.spaces}
    for block in blocks:
        of_block: dict[tuple[str, str, str], Slot] = {}
        block_path = block.path
        for rest, info in block.tensors.items():
            for space_name, start, path, rule, unit in matches(rest):
                key = space_name, start, path
                if key not in of_block:
                    label = f"{block_path}.{path}" if path else block_path
                    slot = Slot(label, block.stack, alike[key[:2]], {})
                    of_block[key] = slot
                    if _has_space(table.spaces[space_name], block.stack):
                        slots[space_name].append(slot)
                found = Found(f"{block_path}.{rest}", unit, info)
                of_block[key].found.setdefault(rule, []).append(found)
    for name, space in table.spaces.items():
        if space.of_blocks:
            slots[name] = _slots_of_blocks(space, blocks)
        else:
            slots[name].sort(key=order)
    return slots


def _slots_of_blocks(space: SpaceRule, blocks: Sequence[RepeatedModule]) -> list[Slot]:
    """Return the tensors of each block by its number; those are spared that only one block has."""
    slots: dict[str, Slot] = {}
    holders = Counter((block.stack, rest) for block in blocks for rest in block.tensors)
    for block in blocks:
        if _has_space(space, block.stack):
            slot = slots.setdefault(block.stack, Slot(block.stack, block.stack, (), {}))
            path = block.path
            slot.found[block.number] = [
                Found(f"{path}.{rest}", block.number, info)
                for rest, info in block.tensors.items()
                if rest not in space.spared or holders[block.stack, rest] > 1
            ]
    return list(slots.values())


def _start(rule: MemberRule) -> str:
    parts = rule.name.split(".")
    last = max((i for i, part in enumerate(parts) if "*" in part), default=-1)
    return ".".join(parts[: last + 1])


def _has_space(space: SpaceRule, stack: str) -> bool:
    return not space.stacks or any(f".{stack}".endswith(f".{own}") for own in space.stacks)


def is_complete(space: SpaceRule, slot: Slot, known: Mapping[str, int]) -> bool:
    """Return whether a slot has all members that a group needs."""
    forms: dict[str, set[bool]] = defaultdict(set)
    for index in slot.rules:
        rule = space.members[index]
        if not rule.optional:
            forms[rule.form].add(index in slot.found)
        if rule.shared_length and rule.dim is not None:
            length = known[rule.shared_length]
            for found in slot.found.get(index, ()):
                if found.info.shape[rule.dim : rule.dim + 1] != (length,):
                    return False
    required = forms.pop("", {True})
    return (
        required == {True}
        and all(len(present) == 1 for present in forms.values())
        and (not forms or {True} in forms.values())
    )


class NameMatcher:
    """Finds which patterns a name matches, below any prefix."""

    def __init__(self, patterns: Sequence[str]) -> None:
        compiled = [
            re.compile(rf"(?:.*\.)?{name_pattern(pattern).pattern}", re.DOTALL)
            for pattern in patterns
        ]
        self._depth = max((pattern.count(".") for pattern in patterns), default=0) + 1

        @cache  # blocks are alike
        def matches(end: str) -> tuple[int, ...]:
            return tuple(i for i, pattern in enumerate(compiled) if pattern.fullmatch(end))

        self._matches = matches

    def __call__(self, name: str) -> tuple[int, ...]:
        """Return the indices of the patterns that a name matches."""
        return self._matches(".".join(name.rsplit(".", self._depth)[-self._depth :]))


def network_slot(space: SpaceRule, named: Iterable[tuple[str, TensorInfo]]) -> Slot | None:
    """Return the tensors of a space of the whole network; its label is their path or "*"."""
    matches = NameMatcher([rule.name for rule in space.members])
    found: dict[int, list[Found]] = {}
    paths = []
    for name, info in named:
        for index in matches(name):
            paths.append(name.split("."))
            found.setdefault(index, []).append(Found(name, None, info))
    if not paths:
        return None
    path = paths[0][:-1] or paths[0]
    if space.complete:
        path = shared_start(paths)
    label = ".".join(path) or "*"
    return Slot(label, "", tuple(range(len(space.members))), found)


def misfit(
    table: ArchitectureTable, space: SpaceRule, slot: Slot, tensors: Iterable[TensorInfo]
) -> str:
    """Return why the tensors of a slot are no group, in a sentence; "" if they are one."""
    first = None
    for index, several in slot.found.items():
        for found in several:
            shape, dim = found.info.shape, space.members[index].dim or 0
            length = shape[dim] if dim < len(shape) else 0
            if first is None:
                first = found.info.name, length
            elif length != first[1]:
                return tr(
                    "{name} has {count:,} {title}, but {other} has {other_count:,}.",
                    name=found.info.name,
                    count=length,
                    title=tr(space.title),
                    other=first[0],
                    other_count=first[1],
                )
    if first is None or not space.complete:
        return ""
    known = NameMatcher(
        [rule.name for other in table.spaces.values() for rule in other.members] + [*space.spared]
    )
    for info in tensors:
        if (
            first[1] in info.shape
            and info.dtype.startswith(("float", "bfloat"))
            and not any(known(name) for name in (info.name, *info.aliases))
        ):
            return tr(
                "{name} of shape {shape} may have {title}, but the table of the architecture does "
                "not name it.",
                name=info.name,
                shape=list(info.shape),
                title=tr(space.title),
            )
    return ""


def build_group(
    file: str, name: str, space: SpaceRule, slot: Slot, known: Mapping[str, int]
) -> CoupledGroup:
    """Build the group of a slot."""
    factor, factor_of = 0, ""
    divided: list[tuple[MemberRule, TensorInfo, list[int]]] = []
    for index in slot.rules:
        rule = space.members[index]
        if rule.dim is None or rule.shared_length:
            continue
        for found in slot.found.get(index, ()):
            length = found.info.shape[rule.dim] if rule.dim < len(found.info.shape) else 0
            if not length:
                raise _misfit(file, found.info, tr("dimension {dim}", dim=rule.dim))
            parts = [known[part] if isinstance(part, str) else part for part in rule.parts]
            if parts:
                quotient, remainder = divmod(length, sum(parts))
                if remainder or not quotient or (factor and quotient != factor):
                    raise _misfit(file, found.info, factor_of or slot.label)
                factor, factor_of = quotient, factor_of or found.info.name
            lengths = [part * factor for part in parts] or [length]
            divided.append((rule, found.info, lengths))
    whole = _whole_members(space, slot)
    tensors_per_unit = Counter(member.offset for member in whole)
    size = known[space.size] if space.size else factor or len(tensors_per_unit)
    members = []
    for rule, info, lengths in divided:
        start = 0
        for length in lengths:
            width, remainder = divmod(length, size) if size else (0, 1)
            if remainder:
                raise _misfit(file, info, slot.label)
            members.append(Member(info.name, rule.dim, start, width, rule.role))
            start += length
    if whole and not (
        len(tensors_per_unit) == size == max(tensors_per_unit) + 1
        and len(set(tensors_per_unit.values())) == 1
    ):
        raise RecipeError(
            "{file}: {label} lacks tensors of some of its {count:,} units. Open the whole "
            "checkpoint.",
            file=file,
            label=slot.label,
            count=size,
        )
    by_slice: dict[tuple[str, int | None, int, int], Member] = {}
    for member in (*members, *whole):  # a tied tensor may have two roles; the first one counts
        key = member.name, member.dim, member.offset, member.width
        by_slice.setdefault(key, member)
    return CoupledGroup(name, slot.label, size, tuple(by_slice.values()))


def written_groups(
    checkpoint: Checkpoint, space: str, rules: Sequence[GroupRule]
) -> list[CoupledGroup]:
    """Return the groups that a table has written out, whose slices the tensors must have."""
    infos = {
        name: info for info in checkpoint.tensors.values() for name in (info.name, *info.aliases)
    }
    groups = []
    for rule in rules:
        members = []
        for one in rule.members:
            info = infos.get(one.name)
            if info is None:
                raise RecipeError(
                    "{file} has no tensor {name}, which the table of the architecture names. "
                    "Name the file of a table that fits.",
                    file=checkpoint.path.name,
                    name=one.name,
                )
            member = Member(info.name, one.dim, one.offset, one.width, one.role, starts=one.starts)
            length = info.shape[one.dim] if one.dim < len(info.shape) else 0
            last = max(one.starts, default=one.offset + (rule.size - 1) * one.width)
            if last + one.width > length:
                raise _misfit(checkpoint.path.name, info, rule.label)
            members.append(member)
        groups.append(CoupledGroup(space, rule.label, rule.size, tuple(members), rule.attributes))
    return groups


def group_of_blocks(file: str, name: str, slot: Slot) -> CoupledGroup:
    """Build the group whose units are the blocks of a stack, of which some may be missing."""
    component = slot.stack.count(".") + 1
    members = [
        Member(found.info.name, None, unit, number_at=component)
        for unit, number in enumerate(sorted(slot.found))
        for found in slot.found[number]
    ]
    members = list(dict.fromkeys(members))
    shared = [tensor for tensor, n in Counter(m.name for m in members).items() if n > 1]
    if shared:
        raise RecipeError(
            "{file}: {name!r} is shared by several blocks, so that none can be removed by "
            "itself. Prune other units.",
            file=file,
            name=shared[0],
        )
    return CoupledGroup(name, slot.label, len(slot.found), tuple(members))


def joined(file: str, stacks: Sequence[str], groups: Sequence[CoupledGroup]) -> list[CoupledGroup]:
    """Return one group for each stack, whose units are common to all of its blocks."""
    by_stack: dict[str, list[CoupledGroup]] = {}
    for stack, group in zip(stacks, groups, strict=True):
        by_stack.setdefault(stack, []).append(group)
    result = []
    for stack, several in by_stack.items():
        first = several[0]
        for group in several:
            if group.size != first.size:
                raise RecipeError(
                    "{file}: {label} has {count:,} units, but {other} has {other_count:,}. "
                    "Name the file of a table that fits.",
                    file=file,
                    label=group.label,
                    count=group.size,
                    other=first.label,
                    other_count=first.size,
                )
        members = dict.fromkeys(member for group in several for member in group.members)
        result.append(CoupledGroup(first.space, stack, first.size, tuple(members)))
    return result


def _whole_members(space: SpaceRule, slot: Slot) -> list[Member]:
    members = []
    for index in slot.rules:
        rule = space.members[index]
        if rule.dim is not None:
            continue
        component = slot.stack.count(".") + 2 + rule.name.split(".").index(UNIT)
        for found in slot.found.get(index, ()):
            assert found.unit is not None
            tied = found.name != found.info.name
            number_at = None if tied else component
            members.append(Member(found.info.name, None, found.unit, 1, rule.role, number_at))
    return sorted(members, key=lambda member: member.offset)


def _misfit(file: str, info: TensorInfo, other: str) -> RecipeError:
    return RecipeError(
        "{file}: {name!r} of shape {shape} does not fit {other} in the table of its "
        "architecture. Check config.json, or name the file of a table that fits.",
        file=file,
        name=info.name,
        shape=list(info.shape),
        other=other,
    )
