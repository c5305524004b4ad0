"""The tree of modules with places in arrays, so that counting and filtering are quick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from re import compile as compile_pattern
from re import split
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree
from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.checkpoint.module_types import is_usual
from prune_gui.recipe.selector import (
    NOTHING,
    RELATIONS,
    Condition,
    Counts,
    Kinds,
    Looked,
    Pattern,
    patterns_in,
)

LARGE: Final = 1000
"""Modules of more parameters are split at once, where it can take its time; others when asked."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree.

    Attributes:
        number: of the branch in the outline.
        node: the module or parameter.
        parent: the number of the branch it hangs on; -1 for the root.
        places: where the parameters at and below it stand in the arrays of the outline.
    """

    number: int
    node: ModuleNode
    parent: int
    places: NDArray[np.intp]


class ModuleIndex:
    """The branches of the tree by number, made when first asked for; the root is number 0.

    For use from one thread at a time, but for `look`.

    Args:
        tensors: of a checkpoint.
        kinds: returns the kinds of the modules around each, for `matches`.

    Attributes:
        tensors: in file order; the arrays have an element for each.
        entries: how many entries each has.
        prunable: how many of them can be pruned: all or none.
    """

    @gc_paused()
    def __init__(self, tensors: Iterable[TensorInfo], kinds: Callable[[], Kinds] = dict) -> None:
        self.tensors = tuple(tensors)
        self._kinds = kinds
        self._places = {tensor.name: place for place, tensor in enumerate(self.tensors)}
        self._lowered = [tensor.name.lower() for tensor in self.tensors]
        self.entries = np.array([tensor.numel for tensor in self.tensors], np.int64)
        can_be_pruned = np.array([not tensor.not_prunable for tensor in self.tensors], np.bool_)
        self.prunable = self.entries * can_be_pruned
        usual = np.array([is_usual(tensor) for tensor in self.tensors], np.bool_)
        self._weights = can_be_pruned & usual
        self._every = np.arange(len(self.tensors))
        self._branches = [Node(0, module_tree(self.tensors), -1, self._every)]
        self._children: dict[int, Sequence[Node]] = {}
        self._looked: dict[str, tuple[list[Looked], NDArray[np.intp]]] = {}
        for branch in self._branches:  # grows on the way
            if len(branch.places) > LARGE:
                self.children(branch.number)

    def __getitem__(self, number: int) -> Node:
        return self._branches[number]

    def children(self, number: int) -> Sequence[Node]:
        """Return the branches directly below one."""
        known = self._children.get(number)
        if known is None:
            nodes = self._branches[number].node.children
            first = len(self._branches)
            known = [
                Node(first + i, node, number, self._places_of(node)) for i, node in enumerate(nodes)
            ]
            self._branches += known
            self._children[number] = known
        return known

    def find(self, path: str) -> Node | None:
        """Return the branch of a dotted path, if there is one."""
        branch = self._branches[0]
        while branch.node.path != path or branch.number == 0:
            for child in self.children(branch.number):
                at = child.node.path
                if path == at or (child.node.below and path.startswith(f"{at}.")):
                    branch = child
                    break
            else:
                return None
        return branch

    def place_of(self, name: str) -> int:
        """Return where a parameter stands in the arrays."""
        return self._places[name]

    def pruned(self, counts: Mapping[str, tuple[int, int]]) -> NDArray[np.int64]:
        """Return how many entries of each are pruned, given (pruned, all) by parameter name."""
        pruned = np.zeros(len(self.tensors), np.int64)
        places = np.fromiter(map(self._places.__getitem__, counts), np.intp, len(counts))
        pruned[places] = np.fromiter((n for n, _ in counts.values()), np.int64, len(counts))
        return pruned

    def matches(self, text: str, counts: Counts = NOTHING) -> NDArray[np.bool_]:
        """Return for each whether its full name holds all words of `text`, or fits it as a glob.

        Conditions may follow, commas part several such patterns, and ``!`` excludes, as in the
        targets of a step. Upper and lower case are the same.

        Args:
            text: for example "query", "*.bias", "query type:Linear sparsity>0.9, !layer.0".
            counts: for conditions on sparsity.

        Raises:
            RecipeError: a condition makes no sense.
        """
        patterns = list(map(Pattern.parse, patterns_in(text)))
        wanted = [self._match(one, counts) for one in patterns if not one.excludes]
        unwanted = [self._match(one, counts) for one in patterns if one.excludes]
        everything = np.ones(len(self.tensors), np.bool_)
        found = np.logical_or.reduce(wanted) if wanted else everything
        return found & ~np.logical_or.reduce(unwanted) if unwanted else found

    def is_quick(self, text: str) -> bool:
        """Tell whether `matches` knows what conditions are about, or has few to look at.

        Raises:
            RecipeError: a condition makes no sense.
        """
        return not self._new_in(text) or len(self.tensors) <= LARGE

    def look(self, text: str) -> None:
        """Find out what the conditions in `text` are about; on any thread.

        Raises:
            RecipeError: a condition makes no sense.
        """
        for condition in self._new_in(text):
            self._look(condition)

    def _new_in(self, text: str) -> list[Condition]:
        """Return conditions that look at what has not been looked at yet."""
        every = [one for part in patterns_in(text) for one in Pattern.parse(part).conditions]
        return [one for one in every if one.field not in self._looked and one.field != "sparsity"]

    def _look(self, condition: Condition) -> None:
        """Keep what of each parameter a condition is about."""
        kinds = self._kinds() if condition.field == "type" else {}
        distinct: dict[Looked, int] = {}
        places = [
            distinct.setdefault(condition.looks_at(tensor, kinds, NOTHING), len(distinct))
            for tensor in self.tensors
        ]
        self._looked[condition.field] = list(distinct), np.array(places, np.intp)

    def _match(self, pattern: Pattern, counts: Counts) -> NDArray[np.bool_]:
        found = self._names_match(pattern.glob)
        for condition in pattern.conditions:
            found &= self._fits(condition, counts)
        return found

    def _fits(self, condition: Condition, counts: Counts) -> NDArray[np.bool_]:
        """Return for each whether a condition holds of it."""
        if condition.field == "sparsity":
            shares = self.pruned(counts) / np.maximum(self.entries, 1)
            holds: Callable[..., Any] = RELATIONS[condition.relation]  # of all numbers at once
            return np.array(holds(shares, condition.value), np.bool_)
        if condition.field not in self._looked:
            self._look(condition)
        values, where = self._looked[condition.field]
        return np.array([condition.accepts(value) for value in values], np.bool_)[where]

    def _names_match(self, text: str) -> NDArray[np.bool_]:
        text = text.strip().lower()
        if set(text) & set("*?["):
            fits = compile_pattern(translate(text)).match
            # What the glob says letter by letter is looked for first: that is much quicker.
            plain = max(split(r"[*?]|\[.*", text), key=len)
            return np.array(
                [plain in name and fits(name) is not None for name in self._lowered], np.bool_
            )
        words = text.split()
        return np.array([all(word in name for word in words) for name in self._lowered], np.bool_)

    def meant_by(self, branches: Iterable[Node], shown: NDArray[np.bool_]) -> frozenset[str]:
        """Return the names of the parameters that are meant by selecting branches.

        A parameter means itself. A module means its parameters of two or more dimensions that are
        no embeddings, as these, biases and norms are rarely pruned, or all of them if it has none
        such. What cannot be pruned, or is not among those `shown` (see `matches`), is left out.
        """
        names: set[str] = set()
        for branch in branches:
            places = branch.places[shown[branch.places]]
            weights = places[self._weights[places]]
            chosen = weights if len(weights) else places[self.prunable[places] > 0]
            names.update(self.tensors[place].name for place in chosen.tolist())
        return frozenset(names)

    def _places_of(self, node: ModuleNode) -> NDArray[np.intp]:
        if node.tensor and not node.below:  # by far the most
            place = self._places[node.tensor.name]
            return self._every[place : place + 1]
        names = (tensor.name for tensor in node.tensors)
        return np.fromiter(map(self._places.__getitem__, names), np.intp)
