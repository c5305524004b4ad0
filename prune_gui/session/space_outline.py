"""The parameters below the units that they have: spaces, their groups, and the members of these.

Groups whose units are whole tensors, such as layers, have a node per unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui import architecture
from prune_gui.checkpoint import Checkpoint, ModuleNode
from prune_gui.checkpoint.tree import without_shared_start
from prune_gui.language import deferred, tr
from prune_gui.memory import gc_paused
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.session.module_index import ModuleIndex, Node, Outline

NO_CLASSES: Final[Mapping[str, str]] = MappingProxyType({})
"""The tree has no modules."""
OTHER: Final = deferred("Other parameters")
SPACE_DEPTH: Final = 1
UNIT_NAMES: Final = {
    "groups": deferred("head {unit:,}"),
    "heads": deferred("head {unit:,}"),
    "experts": deferred("expert {unit:,}"),
    "layers": deferred("layer {unit:,}"),
}
"""The name of a unit by the last part of the name of its space."""


@dataclass(frozen=True, eq=False)
class UnitNode(ModuleNode):
    """A space of units, a group of it, or a unit, with the parameters that have them.

    Attributes:
        units: number of units; 0 for one unit, and for parameters that have none.
    """

    units: int = 0

    @cached_property
    def module_type(self) -> str:
        """No module, so it has no type."""
        return ""


@dataclass(frozen=True, slots=True)
class UnitSpace:
    """The groups of a space; none for the parameters that have no units."""

    title: str
    groups: Sequence[CoupledGroup]


class SpaceOutline(Outline):
    """The nodes of a tree of spaces, groups and parameters.

    A parameter has a node below each group that it is a member of, and one below the last space
    if it is a member of none.

    Attributes:
        spaces: the spaces in the order of their nodes, which are the numbers from 1 on.
    """

    @gc_paused()
    def __init__(self, index: ModuleIndex, found: Iterable[UnitSpace]) -> None:
        self._index = index
        super().__init__(index[0])
        self._made: dict[str, list[Node]] = {}
        self._groups: dict[int, CoupledGroup] = {}
        self._first_group: dict[str, tuple[int, int]] = {}  # (number of the space, its group)
        self.spaces: list[UnitSpace] = []
        for space in found:
            names: dict[str, None] = {}
            number = len(self.spaces) + 1
            for group_number, group in enumerate(space.groups):
                for member in group.members:
                    names[member.name] = None
                    self._first_group.setdefault(member.name, (number, group_number))
            self._add(space, names)
        others = [one.name for one in index.tensors if one.name not in self._first_group]
        if others:
            self._add(UnitSpace(OTHER, ()), others)
        self._children[0] = self._nodes[1:]
        self._make_below_large()

    @classmethod
    def of(cls, checkpoint: Checkpoint, table: Path | None, index: ModuleIndex) -> SpaceOutline:
        rules = architecture.groups.spaces(checkpoint, table)
        found = [
            UnitSpace(rule.title, architecture.groups.coupled_groups(checkpoint, name, table))
            for name, rule in rules.items()
        ]
        return cls(index, found)

    def _made_below(self, node: Node) -> Sequence[Node]:
        if not isinstance(node.node, UnitNode):
            return ()
        is_space = node.node.depth == SPACE_DEPTH and self.spaces[node.number - 1].groups
        return self._make_groups(node) if is_space else self._make_members(node)

    def find(self, path: str) -> Node | None:
        if path not in self._index:
            return None
        node = self._nodes[len(self.spaces)]
        if path in self._first_group:
            number, group = self._first_group[path]
            node = self.children(number)[group]
        index = self._index.index_of(path)
        while node.node.tensor is None:
            node = next(one for one in self.children(node.number) if index in one.places)
        return node

    def nodes_of(self, path: str) -> Sequence[Node]:
        """Return the nodes of a parameter that are made so far."""
        return self._made.get(path, ())

    def group_numbers(self, space: int) -> range:
        """Return the numbers of the groups of a space, given by the number of its node."""
        groups = self.children(space)
        return range(groups[0].number, groups[0].number + len(groups))

    def group_of(self, number: int) -> CoupledGroup | None:
        """Return the group at or above a node that is made; None if there is none."""
        while number > 0 and number not in self._groups:
            number = self._nodes[number].parent
        return self._groups.get(number)

    def _add(self, space: UnitSpace, names: Iterable[str]) -> None:
        self.spaces.append(space)
        units = sum(group.size for group in space.groups)
        self._append(tr(space.title), tr(space.title), self._indices(names), 0, units)

    def _make_groups(self, parent: Node) -> Sequence[Node]:
        groups = self.spaces[parent.number - 1].groups
        names = without_shared_start([group.label for group in groups])
        made = []
        for group in groups:
            members = self._indices(dict.fromkeys(member.name for member in group.members))
            label = group.label
            made.append(self._append(names[label], label, members, parent.number, group.size))
            self._groups[made[-1].number] = group
        return made

    def _make_members(self, parent: Node) -> Sequence[Node]:
        group = self._groups.get(parent.number)
        if group is None or group.is_sliced:
            return self._make_parameters(parent, parent.places)
        common: dict[str, None] = {}
        by_unit: dict[int, dict[str, None]] = defaultdict(dict)
        for member in group.members:
            (common if member.dim is not None else by_unit[member.offset])[member.name] = None
        made = self._make_parameters(parent, self._indices(common))
        for unit, names in sorted(by_unit.items()):
            name, path = unit_name(group, unit), _shared_path(list(names))
            made.append(self._append(name, path or name, self._indices(names), parent.number, 0))
        return made

    def _make_parameters(self, parent: Node, places: NDArray[np.intp]) -> list[Node]:
        prefix, depth = f"{parent.node.path}.", parent.node.depth + 1
        made = []
        for i, index in enumerate(places.tolist()):
            tensor = self._index.tensors[index]
            label = tensor.name.removeprefix(prefix)
            leaf = ModuleNode(label, tensor.name, tensor, (), depth, NO_CLASSES)
            node = Node(len(self._nodes), leaf, parent.number, places[i : i + 1])
            self._nodes.append(node)
            self._made.setdefault(tensor.name, []).append(node)
            made.append(node)
        return made

    def _append(
        self, name: str, path: str, places: NDArray[np.intp], parent: int, units: int
    ) -> Node:
        below = tuple(self._index.tensors[index] for index in places.tolist())
        depth = self._nodes[parent].node.depth + 1
        unit_node = UnitNode(name, path, None, below, depth, NO_CLASSES, units)
        node = Node(len(self._nodes), unit_node, parent, places)
        self._nodes.append(node)
        return node

    def _indices(self, names: Iterable[str]) -> NDArray[np.intp]:
        return np.fromiter(map(self._index.index_of, names), np.intp)


def _shared_path(names: Sequence[str]) -> str:
    """Return the components that all names begin with; "" for one name alone."""
    return names[0].removesuffix(without_shared_start(names)[names[0]]).rstrip(".")


def unit_name(group: CoupledGroup, unit: int) -> str:
    """Return what a unit is, with its number: "KV head 3 (query heads 12-15)", "expert 5"."""
    kind = group.space.rpartition("_")[2]
    if kind == "groups":
        widths = [one.width for one in group.members if one.role == "produces"]
        number = max(widths) // min(widths) if widths else 1
        if number > 1:
            first, last = unit * number, (unit + 1) * number - 1
            message = deferred("KV head {unit:,} (query heads {first:,}-{last:,})")
            return tr(message, unit=unit, first=first, last=last)
    name = UNIT_NAMES.get(kind, deferred("unit {unit:,}"))
    return tr(name, unit=unit)
