"""Building coupled groups from matched tensors, and checking them against the shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from prune_gui.architecture.matching import Slot
from prune_gui.architecture.tables import UNIT, MemberRule, SpaceRule
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.layouts import CoupledGroup, Member


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
            length = _length(file, found.info, rule.dim)
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


def _length(file: str, info: TensorInfo, dim: int) -> int:
    if dim >= len(info.shape) or not info.shape[dim]:
        raise _misfit(file, info, tr("dimension {dim}", dim=dim))
    return info.shape[dim]


def _misfit(file: str, info: TensorInfo, other: str) -> RecipeError:
    return RecipeError(
        "{file}: {name!r} of shape {shape} does not fit {other} in the table of its "
        "architecture. Check config.json, or name the file of a table that fits.",
        file=file,
        name=info.name,
        shape=list(info.shape),
        other=other,
    )
