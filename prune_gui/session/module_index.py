"""The module tree with array indices per node, for fast counting and filtering."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import repeat
from re import compile as compile_pattern
from re import split
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree
from prune_gui.checkpoint.tree import is_usually_pruned
from prune_gui.memory import gc_paused
from prune_gui.pruning.layouts import WeightLayout
from prune_gui.recipe.selector import (
    NOTHING,
    RELATIONS,
    Condition,
    CountProperty,
    Counts,
    ModuleTypes,
    Pattern,
    PropertyValue,
    TextProperty,
    patterns_in,
)

LARGE_PARAMETER_COUNT: Final = 1000
"""Number of parameters. The children of larger modules are made by the constructor, which runs on
the worker thread; those of others on first use. Filters of larger checkpoints are not quick."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the module tree.

    Attributes:
        places: indices of the parameters at and below the node in the arrays of the `ModuleIndex`.
    """

    number: int
    node: ModuleNode
    parent: int
    places: NDArray[np.intp]


class Outline(ABC):
    """The nodes of a tree of parameters by number, made on first use; the root is number 0.

    Use it from one thread at a time.
    """

    def __init__(self, root: Node) -> None:
        self._nodes = [root]
        self._children: dict[int, Sequence[Node]] = {}

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def children(self, number: int) -> Sequence[Node]:
        if number not in self._children:
            self._children[number] = self._made_below(self._nodes[number])
        return self._children[number]

    @abstractmethod
    def find(self, path: str) -> Node | None:
        """Return the first node of a path; None if there is none."""

    @abstractmethod
    def nodes_of(self, path: str) -> Sequence[Node]:
        """Return the nodes of a path that are made so far."""

    @abstractmethod
    def _made_below(self, node: Node) -> Sequence[Node]: ...

    def _make_below_large(self) -> None:
        for node in self._nodes:  # the list grows in this loop
            if len(node.places) > LARGE_PARAMETER_COUNT:
                self.children(node.number)


class ModuleIndex(Outline):
    """The nodes of the module tree. `load_condition_values` may run on any thread.

    Attributes:
        tensors: in file order; each array below has one value per tensor.
        elements: int64, number of elements.
        prunable: int64, number of elements that can be pruned: all or none of a tensor.
        is_weight: bool, whether totals count it (see `TensorInfo.kind`).
    """

    @gc_paused()
    def __init__(
        self,
        tensors: Iterable[TensorInfo],
        module_types: Callable[[], ModuleTypes] = dict,
        module_classes: Mapping[str, str] = MappingProxyType({}),
        layouts: Callable[[], Mapping[str, WeightLayout]] = dict,
    ) -> None:
        self.tensors = tuple(tensors)
        self.layouts = layouts
        self._module_types = module_types
        self._index_by_name = {tensor.name: index for index, tensor in enumerate(self.tensors)}
        self._lowercase_names = [tensor.name.lower() for tensor in self.tensors]
        self.elements = np.array([tensor.numel for tensor in self.tensors], np.int64)
        can_be_pruned = np.array([not tensor.not_prunable for tensor in self.tensors], np.bool_)
        self.prunable = self.elements * can_be_pruned
        usually_pruned = np.array([is_usually_pruned(tensor) for tensor in self.tensors], np.bool_)
        self.is_weight = np.array([tensor.kind is None for tensor in self.tensors], np.bool_)
        self._is_plain = can_be_pruned & self.is_weight
        self._is_weight = self._is_plain & usually_pruned
        self._all_indices = np.arange(len(self.tensors))
        super().__init__(Node(0, module_tree(self.tensors, module_classes), -1, self._all_indices))
        self._condition_values: dict[str, tuple[list[PropertyValue], NDArray[np.intp]]] = {}
        self._make_below_large()

    def _made_below(self, node: Node) -> Sequence[Node]:
        inner = enumerate(node.node.children, start=len(self._nodes))
        made = [Node(at, one, node.number, self._indices_of(one)) for at, one in inner]
        self._nodes += made
        return made

    def find(self, path: str) -> Node | None:
        node = self._nodes[0]
        while node.node.path != path or node.number == 0:
            for child in self.children(node.number):
                at = child.node.path
                if path == at or (child.node.below and path.startswith(f"{at}.")):
                    node = child
                    break
            else:
                return None
        return node

    def nodes_of(self, path: str) -> Sequence[Node]:
        node = self.find(path)
        return () if node is None else (node,)

    def module_type_of(self, parameter: str) -> str:
        """Return the type of the module that holds a parameter; "" if it is unknown.

        The inferred type of a class that is not of torch says more about its dimensions.
        """
        module = parameter.rpartition(".")[0]
        if not module or (found := self.find(module)) is None:
            return ""
        inferred = "" if found.node.is_torch_module else found.node.inferred_type
        return inferred or found.node.module_type

    def __contains__(self, name: str) -> bool:
        """Return whether there is a parameter of this name."""
        return name in self._index_by_name

    def index_of(self, name: str) -> int:
        return self._index_by_name[name]

    def pruned(self, counts: Mapping[str, tuple[int, int]]) -> NDArray[np.int64]:
        """Return the pruned elements per parameter, int64, given (pruned, total) by name."""
        pruned = np.zeros(len(self.tensors), np.int64)
        indices = self._indices_in(counts)
        pruned[indices] = np.fromiter((n for n, _ in counts.values()), np.int64, len(counts))
        return pruned

    def values_of(self, values: Mapping[str, int], *, missing: int) -> NDArray[np.int64]:
        """Return a number per parameter, int64, given some by name; `missing` for the others."""
        found = map(values.get, self._index_by_name, repeat(missing))
        return np.fromiter(found, np.int64, len(self.tensors))

    def countable(self, counts: Mapping[str, tuple[int, int]]) -> NDArray[np.int64]:
        """Return the elements per parameter that can be pruned, or are counted in a mask; int64."""
        if self.prunable.any():
            return self.prunable
        countable = np.zeros(len(self.tensors), np.int64)
        indices = self._indices_in(counts)
        countable[indices] = self.elements[indices]
        return countable

    def matches(self, text: str, counts: Counts = NOTHING) -> NDArray[np.bool_]:
        """Return a boolean per parameter: its full name contains all words, or matches the glob.

        Conditions may follow the words or the glob. Commas separate several such patterns, and
        ``!`` excludes, as in the targets of a step. Upper and lower case are the same.

        Args:
            text: for example "query", "*.bias", "query type:Linear sparsity>0.9, !layer.0".
        """
        patterns = list(map(Pattern.parse, patterns_in(text)))
        included = [self._pattern_mask(one, counts) for one in patterns if not one.excludes]
        excluded = [self._pattern_mask(one, counts) for one in patterns if one.excludes]
        everything = np.ones(len(self.tensors), np.bool_)
        mask = np.logical_or.reduce(included) if included else everything
        return mask & ~np.logical_or.reduce(excluded) if excluded else mask

    def is_quick(self, text: str) -> bool:
        """Return whether `matches` is fast: its values are loaded, or parameters are few."""
        return not self._unloaded_conditions(text) or len(self.tensors) <= LARGE_PARAMETER_COUNT

    def load_condition_values(self, text: str) -> None:
        """Load the values that the conditions in `text` compare; may run on any thread."""
        for condition in self._unloaded_conditions(text):
            self._load_condition_values(condition)

    def _unloaded_conditions(self, text: str) -> list[Condition]:
        return [
            one
            for part in patterns_in(text)
            for one in Pattern.parse(part).conditions
            if one.field.name not in self._condition_values
            and not isinstance(one.field, CountProperty)
        ]

    def _load_condition_values(self, condition: Condition) -> None:
        field = condition.field
        needs_types = isinstance(field, TextProperty) and field.uses_module_types
        module_types = self._module_types() if needs_types else {}
        distinct: dict[PropertyValue, int] = {}
        indices = [
            distinct.setdefault(condition.property_of(tensor, module_types), len(distinct))
            for tensor in self.tensors
        ]
        self._condition_values[field.name] = list(distinct), np.array(indices, np.intp)

    def _pattern_mask(self, pattern: Pattern, counts: Counts) -> NDArray[np.bool_]:
        mask = self._name_mask(pattern.glob)
        for condition in pattern.conditions:
            mask &= self._condition_mask(condition, counts)
        return mask

    def _condition_mask(self, condition: Condition, counts: Counts) -> NDArray[np.bool_]:
        if isinstance(condition.field, CountProperty):
            numbers = condition.field.number(self.pruned(counts), np.maximum(self.elements, 1))
            relation: Callable[..., Any] = RELATIONS[condition.relation]  # vectorised
            return np.array(relation(numbers, condition.value), np.bool_)
        if condition.field.name not in self._condition_values:
            self._load_condition_values(condition)
        values, indices = self._condition_values[condition.field.name]
        return np.array([condition.accepts(value) for value in values], np.bool_)[indices]

    def _name_mask(self, text: str) -> NDArray[np.bool_]:
        text, names = text.strip().lower(), self._lowercase_names
        if set(text) & set("*?["):
            is_match = compile_pattern(translate(text)).match
            # Searching the longest literal part of the glob first is much faster.
            plain = max(split(r"[*?]|\[.*", text), key=len)
            return np.array([plain in name and bool(is_match(name)) for name in names], np.bool_)
        words = text.split()
        return np.array([all(word in name for word in words) for name in names], np.bool_)

    def selected_parameters(
        self, nodes: Iterable[Node], shown: NDArray[np.bool_]
    ) -> frozenset[str]:
        """Return the names of the parameters that a selection of nodes stands for.

        A parameter stands for itself. A module stands for its parameters of two or more dimensions
        that are not embeddings: embeddings, biases and norms are rarely pruned. Without such
        parameters it stands for all that are weights (see `TensorInfo.kind`), or else for all.
        Parameters that cannot be pruned, or are not `shown` (boolean, see `matches`), are left out.
        """
        names: set[str] = set()
        for node in nodes:
            chosen = self._selected_indices(node, shown)
            names.update(self.tensors[index].name for index in chosen.tolist())
        return frozenset(names)

    def count_selected(self, node: Node, shown: NDArray[np.bool_]) -> int:
        return len(self._selected_indices(node, shown))

    def _selected_indices(self, node: Node, shown: NDArray[np.bool_]) -> NDArray[np.intp]:
        indices = node.places[shown[node.places]]
        for preferred in (self._is_weight, self._is_plain):
            if preferred[indices].any():
                return indices[preferred[indices]]
        return indices[self.prunable[indices] > 0]

    def _indices_in(self, counts: Mapping[str, object]) -> NDArray[np.intp]:
        return np.fromiter(map(self._index_by_name.__getitem__, counts), np.intp, len(counts))

    def _indices_of(self, node: ModuleNode) -> NDArray[np.intp]:
        if node.tensor and not node.below:  # the most frequent case
            index = self._index_by_name[node.tensor.name]
            return self._all_indices[index : index + 1]
        names = (tensor.name for tensor in node.tensors)
        return np.fromiter(map(self._index_by_name.__getitem__, names), np.intp)
