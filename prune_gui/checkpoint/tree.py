"""The tree of modules that dotted parameter names spell out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from prune_gui.checkpoint.module_types import MOST, module_type
from prune_gui.checkpoint.tensor_info import TensorInfo

MAX_DEPTH: Final = 64
"""Parts of a name beyond this depth stay together, so that no file can make an endless chain."""


@dataclass(frozen=True, eq=False)
class ModuleNode:
    """A module, or a parameter, or (rarely) both.

    Attributes:
        name: the last part of the path.
        path: the dotted path from the root; "" at the root.
        tensor: the parameter of exactly this path, if there is one.
        below: the parameters under this node, itself not included, in file order.
        depth: 0 at the root.
    """

    name: str
    path: str
    tensor: TensorInfo | None
    below: tuple[TensorInfo, ...]
    depth: int

    @cached_property
    def children(self) -> tuple[ModuleNode, ...]:
        """The next level: by number if all its names are numbers, else in file order.

        Made when first asked for, so that a tree of 100,000 parameters costs what is opened of it.
        """
        start = len(self.path) + 1 if self.depth else 0
        last_level = self.depth == MAX_DEPTH - 1
        groups: dict[str, list[TensorInfo]] = {}
        for tensor in self.below:
            end = -1 if last_level else tensor.name.find(".", start)
            part = tensor.name[start:] if end < 0 else tensor.name[start:end]
            groups.setdefault(part, []).append(tensor)
        names = list(groups)
        if all(name.isascii() and name.isdigit() for name in names):
            names.sort(key=_by_number)
        return tuple(self._child(name, groups[name]) for name in names)

    def _child(self, name: str, tensors: list[TensorInfo]) -> ModuleNode:
        path = f"{self.path}.{name}" if self.depth else name
        if len(tensors) == 1 and tensors[0].name == path:  # by far the most common
            return ModuleNode(name, path, tensors[0], (), self.depth + 1)
        own = next((tensor for tensor in tensors if tensor.name == path), None)
        below = tuple(tensor for tensor in tensors if tensor is not own)
        return ModuleNode(name, path, own, below, self.depth + 1)

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The parameters at and below this node."""
        return self.below if self.tensor is None else (self.tensor, *self.below)

    @cached_property
    def numel(self) -> int:
        """Entries of the parameters at and below this node."""
        return sum(tensor.numel for tensor in self.tensors)

    @cached_property
    def kind(self) -> str:
        """What kind of module this is, as far as names and shapes tell; "" if they do not."""
        if not 0 < len(self.below) <= MOST:
            return ""
        return module_type(self.name, len(self.path) + 1 if self.depth else 0, self.below)

    def walk(self) -> Iterator[ModuleNode]:
        """Yield this node and all below it, each before its children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


def module_tree(tensors: Iterable[TensorInfo]) -> ModuleNode:
    """Return the root of the tree of `tensors`, whose names must differ."""
    return ModuleNode("", "", None, tuple(tensors), 0)


def module_types_around(tree: ModuleNode) -> dict[str, frozenset[str]]:
    """Return, for every parameter below a node, the kinds of the modules it is in, if any.

    Modules that are alike, such as the blocks of a network, are looked through once.
    """
    found: dict[str, frozenset[str]] = {}
    known: dict[Hashable, tuple[frozenset[str], ...]] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if len(node.below) > MOST:  # of no kind
            found.update((one.tensor.name, frozenset()) for one in node.children if one.tensor)
            waiting += [child for child in node.children if child.below]
            continue
        start = len(node.path) + 1 if node.depth else 0
        inside = tuple((tensor.name[start:], tensor.shape) for tensor in node.below)
        alike = node.depth, "" if node.name.isdigit() else node.name, inside
        if alike not in known:
            within = _module_types_within(node)
            known[alike] = tuple(within[tensor.name] for tensor in node.below)
        found.update(zip((tensor.name for tensor in node.below), known[alike], strict=True))
    return found


def _module_types_within(tree: ModuleNode) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    waiting: list[tuple[ModuleNode, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, kinds = waiting.pop()
        here = kinds | {node.kind} if node.kind else kinds
        for child in node.children:
            if child.tensor is not None:
                found[child.tensor.name] = here
            if child.below:
                waiting.append((child, here))
    return found


def _by_number(digits: str) -> tuple[int, str, int]:
    """Order digits by value without converting them: `int` refuses more than a few thousand."""
    significant = digits.lstrip("0")
    return len(significant), significant, len(digits)
