"""The tree of modules that the dotted names of parameters form."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from prune_gui.checkpoint.module_types import MAX_MODULE_PARAMETERS, module_type
from prune_gui.checkpoint.tensor_info import TensorInfo

MAX_DEPTH: Final = 64
"""Deeper components of a name are not split, so that no file can make an endless chain."""
TORCH_MODULES: Final = "torch.nn."
"""The start of the names of the modules of torch."""


@dataclass(frozen=True, eq=False)
class ModuleNode:
    """A module, or a parameter, or (rarely) both.

    Attributes:
        name: the last component of the path.
        path: the dotted path from the root; "" at the root.
        tensor: the parameter with exactly this path, if there is one.
        below: the parameters under this node without `tensor`, in file order.
        depth: 0 at the root.
        module_classes: the dotted names of the classes of all modules by path, as far as the file
            contains them.
    """

    name: str
    path: str
    tensor: TensorInfo | None
    below: tuple[TensorInfo, ...]
    depth: int
    module_classes: Mapping[str, str]

    @cached_property
    def children(self) -> tuple[ModuleNode, ...]:
        """The next level, in numerical order if all names are numbers, else in file order.

        Computed on first use, so that only the expanded part of a large tree costs time.
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
            names.sort(key=_number_order)
        return tuple(self._child(name, groups[name]) for name in names)

    def _child(self, name: str, tensors: list[TensorInfo]) -> ModuleNode:
        path = f"{self.path}.{name}" if self.depth else name
        if len(tensors) == 1 and tensors[0].name == path:  # the most frequent case
            return ModuleNode(name, path, tensors[0], (), self.depth + 1, self.module_classes)
        own = next((tensor for tensor in tensors if tensor.name == path), None)
        below = tuple(tensor for tensor in tensors if tensor is not own)
        return ModuleNode(name, path, own, below, self.depth + 1, self.module_classes)

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The parameters at and below this node."""
        return self.below if self.tensor is None else (self.tensor, *self.below)

    @cached_property
    def numel(self) -> int:
        """Number of elements of the parameters at and below this node."""
        return sum(tensor.numel for tensor in self.tensors)

    @cached_property
    def module_type(self) -> str:
        """The type of the module; "" if it is not known; see `is_type_inferred`."""
        if self.path in self.module_classes:
            return self.module_classes[self.path].rpartition(".")[2] if self.below else ""
        return self.inferred_type

    @property
    def is_type_inferred(self) -> bool:
        """Whether `module_type` is inferred from names and shapes, and not given by the file."""
        return self.path not in self.module_classes

    @property
    def is_torch_module(self) -> bool:
        """Whether the file gives the class of the module, and it is one of torch."""
        return self.module_classes.get(self.path, "").startswith(TORCH_MODULES)

    @cached_property
    def inferred_type(self) -> str:
        """The type of the module as inferred from names and shapes; "" if it cannot be."""
        if not 0 < len(self.below) <= MAX_MODULE_PARAMETERS:
            return ""
        return module_type(self.name, len(self.path) + 1 if self.depth else 0, self.below)

    def walk(self) -> Iterator[ModuleNode]:
        """Yield this node and all nodes below it, each before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def module_tree(
    tensors: Iterable[TensorInfo], module_classes: Mapping[str, str] = MappingProxyType({})
) -> ModuleNode:
    """Return the root of the tree of `tensors`, whose names must be unique.

    Args:
        tensors: the parameters.
        module_classes: see `ModuleNode`.
    """
    return ModuleNode("", "", None, tuple(tensors), 0, module_classes)


def without_shared_start(names: Sequence[str]) -> dict[str, str]:
    """Return names without the components that all begin with, by name; one alone stays."""
    if len(set(names)) <= 1:
        return {name: name for name in names}
    at_depth = zip(*(name.split(".")[:-1] for name in names), strict=False)
    shared = takewhile(lambda components: len(set(components)) == 1, at_depth)
    length = sum(len(components[0]) + 1 for components in shared)
    return {name: name[length:] for name in names}


def module_types_around(tree: ModuleNode) -> dict[str, frozenset[str]]:
    """Return the types of the modules that contain each parameter below a node.

    Modules of the same structure, such as the blocks of a network, are analysed once. If the class
    of a module is known and is not one of torch, the module also has the type that is inferred.
    """
    if tree.module_classes:
        return _module_types_within(tree)
    types_by_name: dict[str, frozenset[str]] = {}
    types_by_structure: dict[Hashable, tuple[frozenset[str], ...]] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if len(node.below) > MAX_MODULE_PARAMETERS:  # has no type
            types_by_name.update(
                (one.tensor.name, frozenset()) for one in node.children if one.tensor
            )
            stack += [child for child in node.children if child.below]
            continue
        start = len(node.path) + 1 if node.depth else 0
        members = tuple((tensor.name[start:], tensor.shape) for tensor in node.below)
        structure = node.depth, "" if node.name.isdigit() else node.name, members
        if structure not in types_by_structure:
            within = _module_types_within(node)
            types_by_structure[structure] = tuple(within[tensor.name] for tensor in node.below)
        types_by_name.update(
            zip((tensor.name for tensor in node.below), types_by_structure[structure], strict=True)
        )
    return types_by_name


def _module_types_within(tree: ModuleNode) -> dict[str, frozenset[str]]:
    types_by_name: dict[str, frozenset[str]] = {}
    stack: list[tuple[ModuleNode, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, outer_types = stack.pop()
        types = outer_types | _types_of(node)
        for child in node.children:
            if child.tensor is not None:
                types_by_name[child.tensor.name] = types
            if child.below:
                stack.append((child, types))
    return types_by_name


def _types_of(node: ModuleNode) -> frozenset[str]:
    """Return the type of a module, and the inferred type if that may be true, too."""
    known, inferred = node.module_type, node.inferred_type
    if node.is_torch_module and not known.startswith(
        inferred
    ):  # "BatchNorm2d" is also a "BatchNorm"
        inferred = ""
    return frozenset(filter(None, (known, inferred)))


def _number_order(digits: str) -> tuple[int, str, int]:
    """Return a sort key by value without a conversion: `int` refuses more than 4300 digits."""
    significant = digits.lstrip("0")
    return len(significant), significant, len(digits)
