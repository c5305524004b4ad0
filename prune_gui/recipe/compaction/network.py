"""What is known of a network: its units and config.json, its size, the work of a pass."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.architecture.groups import analysis, coupled_groups, evaluate_counts, spaces
from prune_gui.architecture.tables import SpaceRule
from prune_gui.architecture.torchvision_layers import Windows
from prune_gui.architecture.unit_values import Reading, readings_of_rule
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.folder import TEXT_CONFIG, read_hf_config
from prune_gui.checkpoint.tensor_info import QUANTIZED, size_in_bytes
from prune_gui.checkpoint.tree import is_usually_pruned
from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.methods.listed_units import TOKENS, Tokens
from prune_gui.pruning.predicates import ChannelCut, count_per_channel
from prune_gui.recipe import stack
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.vocabulary.encoding import corpus_texts
from prune_gui.recipe.vocabulary.tokenizer_files import RemovedTokens, without_tokens
from prune_gui.recipe.vocabulary.vocabulary import read_vocabulary

EXPERTS = "experts"  # the name of the space of experts in tables of architectures
Json = dict[str, object]
EXPERTS_PER_TOKEN: Final = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")
"""Keys of config.json."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a network; its multiply-adds are per token, or per image.

    `parameters` is the number of elements that can be pruned: indices and the statistics of norms,
    for instance, are none.
    """

    tensors: int
    parameters: int
    nbytes: int
    multiply_adds: int | None


def figures(
    every: Sequence[tuple[TensorInfo, tuple[int, ...]]],
    active: Mapping[str, float],
    sizes: Mapping[str, int],
) -> Figures:
    """Return the figures of tensors with shapes before or after the removal of units."""
    working = [
        (info, shape)
        for info, shape in every
        if info.name in active or (len(shape) > 1 and is_usually_pruned(info))
    ]
    is_known = all(
        len(shape) == 2 or info.name in active or info.name in sizes for info, shape in working
    )
    work = sum(
        math.prod(shape) * active.get(info.name, 1) * sizes.get(info.name, 1) ** 2
        for info, shape in working
    )
    return Figures(
        tensors=len(every),
        parameters=sum(
            math.prod(shape) for info, shape in every if not (info.not_prunable or info.kind)
        ),
        nbytes=sum(size_in_bytes(shape, info.dtype) for info, shape in every),
        multiply_adds=round(work) if is_known else None,
    )


def active_shares(
    groups: Iterable[tuple[CoupledGroup, int]],
    counts: Mapping[str, int],
    tensors: Mapping[str, TensorInfo],
) -> dict[str, float]:
    """Return the share of each tensor of experts that processes a token."""
    per_token = next((counts[key] for key in EXPERTS_PER_TOKEN if key in counts), None)
    if per_token is None:
        return {}
    return {
        member.name: min(1.0, per_token / max(1, number))
        for group, number in groups
        if group.space == EXPERTS
        for member in group.members
        if member.name in tensors
        and len(tensors[member.name].shape) > (1 if member.dim is None else 2)
    }


@dataclass(frozen=True, slots=True)
class Architecture:
    """The coupled groups of a checkpoint, and what config.json says."""

    spaces: Mapping[str, SpaceRule]
    groups: tuple[CoupledGroup, ...]
    count_expressions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    integers: Mapping[str, int] = field(default_factory=dict)
    config: Json | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    windows: Mapping[str, Windows] = field(default_factory=dict)
    guessed: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Numbers by the names that rules use, before pruning."""
        return evaluate_counts(self.count_expressions, self.integers)


def architecture_of(checkpoint: Checkpoint, table: Path | None = None) -> Architecture:
    """Return the groups of a checkpoint, by a table in a file or by those of this program."""
    rules = spaces(checkpoint, table)
    if not rules:
        raise RecipeError(
            "{file}: it is not known which slices of its tensors belong together. Specify a "
            "table of its architecture.",
            file=checkpoint.path.name,
        )
    known = analysis(checkpoint, table)
    groups = tuple(group for space in rules for group in coupled_groups(checkpoint, space, table))
    config, _ = read_hf_config(checkpoint.path.parent)
    readings = dict(known.readings)
    for group in groups:
        rule = rules[group.space]
        if rule.activation:
            values = (config[key] for key in rule.activation if config and key in config)
            function = next(values, None)
            # The fields of the config of several models may be about another one.
            is_known = isinstance(function, str) and TEXT_CONFIG not in (config or {})
            activation = str(function) if is_known else None
            readings |= readings_of_rule(group, rule, activation, checkpoint.tensors)
    return Architecture(
        rules,
        groups,
        known.table.counts if known.table else {},
        checkpoint.hf_config,
        config,
        readings,
        known.windows,
        known.guessed,
    )


Units = NDArray[np.bool_]  # bool (units of a group,)
GroupUnits = tuple[CoupledGroup, Units]  # a group, and its removed units


def removable_units(
    resolution: Resolution, groups: Sequence[CoupledGroup], monitor: Monitor
) -> list[Units]:
    """Return for each group which of its units can be removed.

    A unit can be removed if every element of its slice of every member is pruned, by any of the
    steps or in the file. Members that no step can prune do not count: integer buffers, and tensors
    that share memory. Groups of a space that share slices of a tied tensor keep the same units.
    """
    pruned = PrunedChannels(resolution, monitor)
    removable = [pruned_units(group.size, group.members, pruned) for group in groups]
    _keep_shared(groups, removable, pruned.info)
    return removable


class PrunedChannels:
    """Finds the channels of which every element is pruned."""

    def __init__(self, resolution: Resolution, monitor: Monitor) -> None:
        self._resolution = resolution
        self._monitor = monitor
        tensors = resolution.checkpoint.tensors.values()
        self._by_alias = {alias: info for info in tensors for alias in info.aliases}
        self._counted: Callable[[str, int], Units] = cache(self._count)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor by its name or an alias."""
        checkpoint = self._resolution.checkpoint
        info = checkpoint.tensors.get(name) or self._by_alias.get(name)
        if info is None:
            raise RecipeError(
                "{file} has no tensor {name}, which the table of the architecture names. "
                "Correct the table.",
                file=checkpoint.path.name,
                name=name,
            )
        return info

    def remaining(self, info: TensorInfo) -> int:
        """Return the number of elements that are not pruned."""
        return info.numel - self._resolution.counts.get(info.name, (0, 0))[0]

    def known(self, info: TensorInfo, dim: int) -> Units:
        """Return the channels that steps on channels prune: bool (channels,)."""
        channels = np.zeros(info.shape[dim], np.bool_)
        for applied in self._resolution.layers.get(info.name, ()):
            predicate = applied.predicate
            if isinstance(predicate, ChannelCut) and predicate.dim == dim:
                channels |= predicate.chosen().pruned
        return channels

    def every(self, info: TensorInfo, dim: int) -> Units:
        """Return all pruned channels: bool (channels,). Reads the tensor if that is needed."""
        return self._counted(info.name, dim)

    def _count(self, name: str, dim: int) -> Units:
        info = self._resolution.checkpoint.tensors[name]
        channels = self.known(info, dim)
        per_channel = info.numel // max(1, info.shape[dim])
        others = info.numel - self.remaining(info) - int(channels.sum()) * per_channel
        if others < per_channel or not info.numel:
            return channels
        steps = self._resolution.layers.get(name, ())
        self._monitor.expect(info.nbytes)

        def kept(start: int, stop: int) -> NDArray[np.bool_]:
            self._monitor.advance((stop - start) * info.nbytes // info.numel)
            return stack.kept(steps, start, stop)

        counts = count_per_channel(info.shape, dim, kept)
        self._resolution.checkpoint.check()
        empty: Units = counts == 0
        return empty


def pruned_units(size: int, members: Sequence[Member], pruned: PrunedChannels) -> Units:
    """Return the units of a group that are pruned in all given members; none if no member."""
    units = np.ones(size, np.bool_)
    found = []
    for member in members:
        info = pruned.info(member.name)
        is_float = info.dtype.startswith(("float", "bfloat"))
        is_buffer = member.dim is None and info.special is None and not is_float
        # No step can prune these, and their values do not keep a unit.
        if not is_buffer and info.spared in (None, QUANTIZED) and info.numel:
            found.append((member, info))
    if not found:
        return np.zeros(size, np.bool_)
    for member, info in found:  # costs nothing, so it comes before any tensor is read
        if member.dim is None:
            units[member.offset] &= not pruned.remaining(info)
        elif (info.numel - pruned.remaining(info)) * info.shape[member.dim] < (
            info.numel * member.width
        ):
            units[:] = False
    for member, info in sorted(found, key=lambda pair: pair[1].numel):
        if member.dim is None or not units.any():
            continue
        known = _units(member, size, pruned.known(info, member.dim))
        if (units & ~known).any():
            units &= _units(member, size, pruned.every(info, member.dim))
    return units


def _units(member: Member, size: int, channels: Units) -> Units:
    slices: Units = np.all(channels[member.channels(size)], axis=1)
    return slices


def _keep_shared(
    groups: Sequence[CoupledGroup], removable: Sequence[Units], info_of: Callable[[str], TensorInfo]
) -> None:
    """Keep the units of a space that share slices with a kept unit of another group of it."""
    claims: dict[tuple[str, str, int | None], set[int]] = defaultdict(set)
    for index, group in enumerate(groups):
        for member in group.members:
            claims[group.space, info_of(member.name).name, member.dim].add(index)
    shared = [(key, indices) for key, indices in claims.items() if len(indices) > 1]
    changed = bool(shared)
    while changed:
        changed = False
        for (_, name, dim), indices in shared:
            slices = [
                (index, member)
                for index in indices
                for member in groups[index].members
                if (info_of(member.name).name, member.dim) == (name, dim)
            ]
            length = 1 if dim is None else info_of(name).shape[dim]
            needed = np.zeros(length, np.bool_)
            for index, member in slices:
                for unit, span in _spans(member, groups[index].size):
                    if not removable[index][unit]:
                        needed[span] = True
            for index, member in slices:
                for unit, span in _spans(member, groups[index].size):
                    if removable[index][unit] and needed[span].any():
                        removable[index][unit] = False
                        changed = True


def _spans(member: Member, size: int) -> Iterator[tuple[int, slice]]:
    """Yield the units of a member, each with its channels; a whole tensor is one channel."""
    if member.dim is None:
        yield member.offset, slice(0, 1)
        return
    for unit, start in enumerate(member.channels(size)[:, 0].tolist()):
        yield unit, slice(start, start + member.width)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The new numbers of modules in a list of modules, None if removed, and the members' names."""

    new: Mapping[str, str | None]
    members: frozenset[str]


class Renumbering:
    """The new keys of tensors in numbered modules, such as the blocks "model.layers.3".

    The remaining units get the first of the old numbers. An alias goes with its unit; a parameter
    that is no member keeps its key, so that what all blocks have in common stays in the first one.
    """

    def __init__(self, groups: Iterable[GroupUnits], names: Iterable[str]) -> None:
        self._lists: dict[str, _Numbers] = {}
        self._names = frozenset(names)
        self._removed: set[str] = set()
        for group, units in groups:
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


def remove_tokens(resolution: Resolution, groups: Iterable[GroupUnits]) -> RemovedTokens | None:
    """Return what changes with the removal of tokens; None if none is removed."""
    for group, units in groups:
        if group.space == TOKENS and units.any():
            vocabulary = read_vocabulary(resolution.checkpoint.model_files_folder, group.size)
            removable = vocabulary.removable(set(np.flatnonzero(units).tolist()))
            units[:] = False
            units[list(removable)] = True
            corpora = [Path(one.corpus) for one in token_steps(resolution.recipe) if one.corpus]
            texts = chain.from_iterable(map(corpus_texts, corpora))
            return without_tokens(vocabulary, units, texts) if removable else None
    return None


def token_steps(recipe: Recipe) -> Iterator[Tokens]:
    """Yield the methods that prune tokens. Without one, the vocabulary stays, even if zero."""
    for step in recipe.steps:
        if step.enabled and isinstance(step.method, Tokens):
            yield step.method
