"""Tries whether a network without some of its units runs, and computes the same.

The compact network is built as the loader script builds it. Some modules have integers that count
units, such as `num_heads`, which no tensor tells; they are found by trying.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any, Final

import numpy as np
import torch

from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.extra_files import shipped_script
from prune_gui.tracing.labelled_tensors import tensors_in

EXACT: Final = 1e-4
"""The limit of what is rounding, relative to the largest output."""
MAX_TRIES: Final = 12

Run = Callable[[torch.nn.Module], Any]


def outputs(run: Run, model: torch.nn.Module) -> list[torch.Tensor]:
    """Return what a network computes."""
    with torch.no_grad():
        return [one.detach().clone() for one in tensors_in(run(model))]


@dataclass(slots=True)
class Checker:
    """Tries groups of units of a model, whose tensors it shares but does not change."""

    model: torch.nn.Module
    run: Run
    patterns: list[frozenset[tuple[str, str]]] = field(default_factory=lambda: [frozenset()])
    """Sets of attributes that were found, by the class of their module and their name."""

    _failed: set[object] = field(default_factory=set)
    _known: dict[tuple[CoupledGroup, ...], float | None] = field(default_factory=dict)
    _masked: tuple[object, list[torch.Tensor]] = (None, [])
    """Units, and the outputs with zeros in their place."""

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        values = {}
        for name, tensor in self.model.state_dict().items():
            is_one_value = tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all())
            if tensor.is_floating_point() and is_one_value:  # such as a scale of zeros
                random = torch.rand(tensor.shape, generator=generator) + 0.5
                values[name] = random.to(tensor)
        self.model = self._with_values(values)

    def _with_values(self, values: Mapping[str, torch.Tensor]) -> torch.nn.Module:
        """Return a copy of the model with some other tensors, which shares all others."""
        tensors: dict[int, Any] = {}
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            if name in values and id(tensor) not in tensors:
                new = values[name]
                tensors[id(tensor)] = torch.nn.Parameter(new, False) if is_parameter else new
            tensors.setdefault(id(tensor), tensor)
        return copy.deepcopy(self.model, tensors)

    def difference(self, groups: Sequence[CoupledGroup]) -> float | None:
        """Return how much the outputs without half of the units differ from those with zeros.

        It is relative to the largest output; None if the network does not run without the units.
        """
        key = tuple(groups)
        if key not in self._known:
            self._known[key] = self._difference(groups)
        return self._known[key]

    def _difference(self, groups: Sequence[CoupledGroup]) -> float | None:
        generator = np.random.default_rng(0)
        removed: dict[str, dict[int, list[Any]]] = {}
        attributes = []
        for group in groups:
            gone = generator.permutation(group.size)[: group.size // 2]
            kept = group.size - len(gone)
            attributes += [(one, kept, group.size) for one in group.attributes]
            for member in group.members:
                assert member.dim is not None
                channels = member.channels(group.size)[gone].reshape(-1)
                removed.setdefault(member.name, {}).setdefault(member.dim, []).append(channels)
        state = self.model.state_dict(keep_vars=True)
        small = {name: tensor.detach() for name, tensor in state.items()}
        for name, by_dim in removed.items():
            for dim, several in by_dim.items():
                kept_channels = torch.ones(state[name].shape[dim], dtype=torch.bool)
                kept_channels[np.concatenate(several)] = False
                small[name] = small[name].index_select(dim, kept_channels.nonzero()[:, 0])
        for name, tensor in state.items():  # tied ones have several names
            same = (small[one] for one in removed if state[one] is tensor)
            small[name] = next(same, small[name])
        try:
            compact = self._with_values({name: state[name].to("meta") for name in removed})
            functions = _loader(attributes)
            functions["resize_layers"](compact, small)
            functions["fill"](compact, small)
            found = outputs(self.run, compact)
        except Exception:  # noqa: BLE001 - whatever the code of the network raises
            return None
        del compact, small
        units = tuple(replace(group, attributes=()) for group in groups)
        if self._masked[0] != units:
            self._masked = units, self._masked_outputs(removed)
        expected = self._masked[1]
        if [one.shape for one in found] != [one.shape for one in expected]:
            return None
        differences = [
            float((one.double() - other.double()).abs().max())
            / max(1e-30, float(other.abs().max()))
            for one, other in zip(found, expected, strict=True)
            if other.is_floating_point() and other.numel()
        ]
        return max(differences, default=0.0)

    def _masked_outputs(self, removed: Mapping[str, Mapping[int, list[Any]]]) -> list[torch.Tensor]:
        """Return the outputs with zeros in place of channels, by tensor and dimension."""
        state = self.model.state_dict()
        values = {}
        for name, by_dim in removed.items():
            values[name] = state[name].clone()
            for dim, several in by_dim.items():
                values[name].index_fill_(dim, torch.from_numpy(np.concatenate(several)), 0)
        return outputs(self.run, self._with_values(values))

    def settle(self, groups: Sequence[CoupledGroup]) -> list[CoupledGroup]:
        """Return the groups that can be removed, with the attributes that they need.

        A network may run with a wrong number of heads, for instance: attributes with which the
        outputs are those with zeros come first. Without hidden channels they never are.
        """
        exact = self._settle([one for one in groups if one.space != "hidden"], EXACT)
        known = {one.label for one in exact}
        return exact + self._settle([one for one in groups if one.label not in known], math.inf)

    def _settle(self, groups: Sequence[CoupledGroup], limit: float) -> list[CoupledGroup]:
        """Return the groups without which the outputs differ by less than a limit."""
        groups = [one for one in groups if (self._kind(one), limit) not in self._failed]
        if not groups:
            return []
        for pattern in self.patterns:
            known = [self._with(group, pattern) for group in groups]
            if self._differs_less(known, limit):
                return known
        if len(groups) == 1:
            [group] = groups
            for pattern in self._candidates(group):
                if self._differs_less([self._with(group, pattern)], limit):
                    [needed] = self._needed([self._with(group, pattern)])
                    self.patterns.append(frozenset(map(self._kind_of, needed.attributes)))
                    return [needed]
            self._failed.add((self._kind(group), limit))
            return []
        middle = (len(groups) + 1) // 2
        return self._settle(groups[:middle], limit) + self._settle(groups[middle:], limit)

    def _differs_less(self, groups: Sequence[CoupledGroup], limit: float) -> bool:
        difference = self.difference(groups)
        return difference is not None and difference < limit

    def settle_together(self, groups: Sequence[CoupledGroup]) -> list[CoupledGroup]:
        """Return groups of which the same share must go; none if that does not run either."""
        for is_equal in (True, False):
            taken: set[str] = set()
            known = []
            for group in groups:
                own = [
                    f"{path}.{name}".lstrip(".")
                    for path, name, value in self._integers(group)
                    if value == group.size or not is_equal
                ]
                added = (one for one in own if one not in taken)
                known.append(replace(group, attributes=(*group.attributes, *added)))
                taken.update(own)
            if self.difference(known) is not None:
                return self._needed(known)
        return []

    def _needed(self, groups: list[CoupledGroup]) -> list[CoupledGroup]:
        """Return groups without attributes that only happen to have a number that fits."""
        best = self.difference(groups)
        kinds = {self._kind_of(one) for group in groups for one in group.attributes}
        for kind in sorted(kinds):
            fewer = [
                replace(
                    group,
                    attributes=tuple(one for one in group.attributes if self._kind_of(one) != kind),
                )
                for group in groups
            ]
            found = self.difference(fewer)
            if found is not None and best is not None and found <= max(best, EXACT):
                groups, best = fewer, found
        return groups

    def _candidates(self, group: CoupledGroup) -> Iterator[frozenset[tuple[str, str]]]:
        found = list(self._integers(group))
        widths = {group.size * one.width for one in group.members}
        sets = [
            [one for one in found if one[2] == group.size],
            [one for one in found if one[2] in {group.size, *widths}],
            [one for one in found if one[2] in widths],
            found,
            *([one] for one in found),
        ]
        tried = set(self.patterns)
        for chosen in sets[:MAX_TRIES]:
            pattern = frozenset((self._class_of(path), name) for path, name, _ in chosen)
            if pattern not in tried:
                tried.add(pattern)
                yield pattern

    def _integers(self, group: CoupledGroup) -> Iterator[tuple[str, str, int]]:
        """Yield integers of the modules around the members that may count units."""
        sizes = _loader([])["SIZES"]
        paths: dict[str, None] = {}
        for member in group.members:
            path = member.name.rpartition(".")[0]
            while path:
                paths[path] = None
                path = path.rpartition(".")[0]
        for path in (*paths, ""):
            module = self.model.get_submodule(path)
            if any(one.__name__ in sizes for one in type(module).__mro__):
                continue
            for name, value in vars(module).items():
                if type(value) is int and value > 1 and not value % group.size:
                    yield path, name, value

    def _with(self, group: CoupledGroup, pattern: frozenset[tuple[str, str]]) -> CoupledGroup:
        attributes = (
            f"{path}.{name}".lstrip(".")
            for path, name, _ in (self._integers(group) if pattern else ())
            if (self._class_of(path), name) in pattern
        )
        return replace(group, attributes=(*group.attributes, *attributes))

    def _kind(self, group: CoupledGroup) -> object:
        """Return what groups of modules alike have in common."""
        paths = {member.name.rpartition(".")[0].rpartition(".")[0] for member in group.members}
        return group.space, frozenset(map(self._class_of, paths))

    def _kind_of(self, attribute: str) -> tuple[str, str]:
        path, _, name = attribute.rpartition(".")
        return self._class_of(path), name

    def _class_of(self, path: str) -> str:
        return type(self.model.get_submodule(path)).__qualname__


def _loader(attributes: Sequence[tuple[str, int, int]]) -> Mapping[str, Any]:
    """Return the functions of the loader script."""
    text = Template(shipped_script("load_compact.py.template")).substitute(
        imports="import warnings\nfrom pathlib import Path\nimport torch",
        reading="    state = {}",
        filling=shipped_script("fill.py.template"),
        attributes=repr(list(attributes)),
        fields="{}",
    )
    functions: dict[str, Any] = {"__file__": "load.py", "__name__": "load"}
    exec(compile(text, "load_compact.py.template", "exec"), functions)
    return functions
