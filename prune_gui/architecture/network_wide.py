"""Spaces of the whole network: their tensors, and whether all of them are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile

from prune_gui.architecture.matching import Found, Slot
from prune_gui.architecture.tables import ArchitectureTable, SpaceRule, name_pattern
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.language import tr


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
    """Return the tensors of a space of the whole network; None if there are none.

    The label is the path of the first tensor, or of a complete space that of all; "*" if they have
    no path in common.
    """
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
        at_depth = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
        path = [names[0] for names in at_depth]
    label = ".".join(path) or "*"
    return Slot(label, "", tuple(range(len(space.members))), found)


def misfit(
    table: ArchitectureTable, space: SpaceRule, slot: Slot, tensors: Iterable[TensorInfo]
) -> str:
    """Return why the tensors of a slot are no group, in a sentence; "" if they are one."""
    first = None
    for index, several in slot.found.items():
        for found in several:
            length = _length(found.info, space.members[index].dim or 0)
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


def _length(info: TensorInfo, dim: int) -> int:
    return info.shape[dim] if dim < len(info.shape) else 0
