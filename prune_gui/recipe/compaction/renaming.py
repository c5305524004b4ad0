"""Renumbering the blocks and experts that remain when whole tensors are removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.recipe.compaction.removal import Units


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The new numbers of the modules in a list of modules.

    Attributes:
        new: the new number by the old one; None if the module is removed.
        members: the names of the members of the group.
    """

    new: Mapping[str, str | None]
    members: frozenset[str]


class Renumbering:
    """The new keys of tensors in numbered modules, such as the blocks "model.layers.3".

    The remaining units get the first of the old numbers. A key that is no name of a parameter, an
    alias, goes with the unit; a parameter that is no member keeps its key, so that what all blocks
    have in common stays in the first one.
    """

    def __init__(
        self, groups: Sequence[CoupledGroup], removed: Sequence[Units], names: Iterable[str]
    ) -> None:
        self._lists: dict[str, _Numbers] = {}
        self._names = frozenset(names)
        self._removed: set[str] = set()
        for group, units in zip(groups, removed, strict=True):
            whole = [member for member in group.members if member.dim is None]
            if whole and units.any():
                self._add(whole, units)

    def new_key(self, key: str) -> str | None:
        """Return the new key of a tensor; None if it is removed."""
        if key in self._removed:
            return None
        if not self._lists:
            return key
        parts = key.split(".")
        renamed = list(parts)
        for index, part in enumerate(parts):
            found = self._lists.get(".".join(parts[:index]))
            if found is None or part not in found.new:
                continue
            if key in self._names and key not in found.members:
                continue
            number = found.new[part]
            if number is None:
                return None
            renamed[index] = number
        return ".".join(renamed)

    def _add(self, members: Sequence[Member], units: Units) -> None:
        names = frozenset(member.name for member in members)
        numbers: dict[str, dict[int, str]] = {}
        for member in members:
            if units[member.offset]:
                self._removed.add(member.name)
            parts = member.name.split(".")
            at = member.number_at
            if at is not None and at < len(parts) and parts[at].isdecimal():
                numbers.setdefault(".".join(parts[:at]), {})[member.offset] = parts[at]
        for path, number_of in numbers.items():
            old = [number_of[unit] for unit in sorted(number_of)]
            kept = [number_of[unit] for unit in sorted(number_of) if not units[unit]]
            new: dict[str, str | None] = dict.fromkeys(old)
            new.update(zip(kept, old, strict=False))
            self._lists[path] = _Numbers(new, names)
