"""What the compact form of a pruned checkpoint contains, before anything is written."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.architecture.groups import evaluate_counts
from prune_gui.architecture.tables import SpaceRule
from prune_gui.architecture.torchvision_layers import output_sizes
from prune_gui.checkpoint import Checkpoint, TensorInfo, TensorWriter
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.folder import positive_integers
from prune_gui.checkpoint.write.content import Spans
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.pruning.methods.listed_units import TOKENS
from prune_gui.recipe.compaction import network
from prune_gui.recipe.compaction.config import (
    AdaptedConfig,
    can_resize,
    differences,
    held_spaces,
    rule_problems,
    unloadable,
)
from prune_gui.recipe.compaction.folding import (
    Folded,
    Folding,
    Unfolded,
    fold_constants,
    unfolded_notes,
)
from prune_gui.recipe.form_tensors import Kept, finalized, sliced, sliced_shape
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.vocabulary.models import renumber
from prune_gui.recipe.vocabulary.tokenizer_files import RemovedTokens

IMAGE_SIZE: Final = 224
"""The height and width of images, in pixels, if config.json has no `image_size`."""
plans: WeakKeyDictionary[Resolution, dict[bool, CompactPlan]] = WeakKeyDictionary()
"""By resolution and `allow_unloadable`."""


Attributes = tuple[tuple[str, int, int], ...]
"""Paths of integers of modules, each with the kept and the old number of units."""


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor that remains; `shift` (float64) is added before channels are removed."""

    info: TensorInfo
    keys: tuple[tuple[str, str], ...]
    kept: Kept
    shift: NDArray[np.float64] | None = None
    all_pruned: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The new shape."""
        return sliced_shape(self.info.shape, self.kept)


@dataclass(frozen=True, slots=True)
class SpaceUnits:
    """The units of a space before and after; `uniform` if all groups keep equally many."""

    space: str
    title: str
    before: int
    after: int
    uniform: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """What remains of a checkpoint.

    Attributes:
        config: the whole new config.json; None if there is none.
        changes: the new values of its fields, by their paths.
        fields: these in the mappings of config.json.
        attributes: None if the table of the architecture has no groups written out.
        image_size: height and width in pixels for multiply-adds, with the strides of torchvision.
    """

    tensors: tuple[KeptTensor, ...]
    removed: tuple[str, ...]
    spaces: tuple[SpaceUnits, ...]
    config: network.Json | None
    changes: Mapping[str, object]
    fields: network.Json
    needs_loader: bool
    attributes: Attributes | None
    tokens: RemovedTokens | None
    folded: tuple[Folded, ...]
    unfolded: tuple[Unfolded, ...]
    guessed: bool
    problems: tuple[str, ...]
    before: network.Figures
    after: network.Figures
    image_size: int | None


def compact_plan(
    resolution: Resolution, monitor: Monitor, *, allow_unloadable: bool = False
) -> CompactPlan:
    """Return the plan of the compact form; cached while the resolution is used."""
    cached = plans.setdefault(resolution, {})
    if allow_unloadable not in cached:
        checkpoint = resolution.checkpoint
        check_source(checkpoint)
        architecture = network.architecture_of(checkpoint, resolution.recipe.table_path)
        cached[allow_unloadable] = planned(
            resolution, architecture, monitor, allow_unloadable=allow_unloadable
        )
    plan = cached[allow_unloadable]
    if plan.problems and not allow_unloadable:
        raise _impossible(resolution, plan.problems[0])
    return plan


def check_source(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint has nothing that would no longer fit its parameters."""
    for info in checkpoint.tensors.values():
        if info.scale is not None and math.prod(info.scale.shape) > 1:
            raise CheckpointError(
                "{name} has a scale for each row or block, and these would not fit the smaller "
                "parameter. Save {file} in the finalized form.",
                name=info.name,
                file=checkpoint.path.name,
            )
    if checkpoint.has_moments():
        raise CheckpointError(
            "{file} has optimizer states, which would not fit the smaller parameters. Save its "
            "state dict alone in a file, and open that.",
            file=checkpoint.path.name,
        )


def planned(
    resolution: Resolution,
    architecture: network.Architecture,
    monitor: Monitor,
    *,
    allow_unloadable: bool = False,
) -> CompactPlan:
    """Return the plan of the compact form for known groups; see `compact_plan`.

    Problems are collected, not raised. Units that can only be masked, or need the same share of
    others, stay, unless `allow_unloadable` is set.
    """
    checkpoint, spaces = resolution.checkpoint, architecture.spaces
    removable: list[CoupledGroup] = []
    masked: list[CoupledGroup] = []
    for group in architecture.groups:
        if group.space == TOKENS and not any(network.token_steps(resolution.recipe)):
            continue  # the vocabulary becomes smaller only if that is asked for
        loadable = allow_unloadable or spaces[group.space].loadable
        (removable if loadable else masked).append(group)
    # The units in a block that can only be masked would all be removed, too.
    blocks = [group for group in masked if spaces[group.space].of_blocks]
    _check_unpruned(resolution, spaces, blocks, monitor)
    groups = list(
        zip(removable, network.removable_units(resolution, removable, monitor), strict=True)
    )
    held = held_spaces(spaces, groups)
    if not allow_unloadable:
        groups = [(group, units) for group, units in groups if group.space not in held]
    with monitor.in_charge():
        tokens = network.remove_tokens(resolution, groups)
    folding = fold_constants(resolution, architecture, groups, monitor)
    changed = {group.space for group, units in groups if units.any()}
    if not changed:
        _check_unpruned(resolution, spaces, masked, monitor)
        for problem in held.values():
            raise _impossible(resolution, problem)
        nothing = tr(
            "No unit of {file} is pruned in all of its tensors, so nothing can be removed. Prune "
            "whole units with a coupled method, or save the finalized form.",
            file=checkpoint.path.name,
        )
        message = " ".join((nothing, *unfolded_notes(folding.unfolded)))
        raise RecipeError(message)
    tensors = tuple(
        _kept_tensors(checkpoint, groups, network.PrunedChannels(resolution, monitor), folding)
    )
    kept_keys = {old for tensor in tensors for _, old in tensor.keys}
    remaining = [
        (group, units)
        for group, units in groups
        if any(member.name in kept_keys for member in group.members)
    ]
    by_space: dict[str, list[network.GroupUnits]] = defaultdict(list)
    for group, units in remaining:
        by_space[group.space].append((group, units))
    config = AdaptedConfig(copy.deepcopy(architecture.config))
    problems: list[str] = []
    for space, members in by_space.items():
        if any(units.any() for _, units in members):
            config.apply(space, spaces[space], members, architecture.counts)
            problems += rule_problems(spaces[space], members, architecture.counts)
    new_integers = positive_integers(config.content or {})
    config.check_ratios(evaluate_counts(architecture.count_expressions, new_integers))
    problems += config.problems
    if allow_unloadable:
        problems += held.values()
    if tokens and config.content is not None:
        config.changes |= renumber(config.content, tokens.new_ids, tokens.removed)
    problems += [
        tr("All {title} would be removed. Prune fewer.", title=tr(spaces[space].title))
        for space in spaces
        if space in changed and space not in by_space and spaces[space].of_blocks
    ]
    loose = [  # no field of config.json says the new sizes of the groups that remain
        space
        for space, members in by_space.items()
        if any(units.any() for _, units in members)
        and (space in config.differing or not spaces[space].config)
    ]
    experts = {
        member.name
        for group in architecture.groups
        if group.space == network.EXPERTS
        for member in group.members
        if member.dim is None
    }
    problems += [
        tr(
            "{title}: the layers would keep different numbers, which no program loads. Prune "
            "equally many in each layer.",
            title=tr(spaces[space].title),
        )
        for space in loose
        if not spaces[space].groups and not can_resize(by_space[space], experts)
    ]
    attributes = tuple(
        (attribute, int((~units).sum()), group.size)
        for group, units in remaining
        for attribute in (group.attributes if units.any() else ())
    )
    image_size = architecture.integers.get("image_size", IMAGE_SIZE)
    sizes = output_sizes(architecture.windows, image_size)
    every, integers = checkpoint.tensors, architecture.integers
    active = network.active_shares(((group, group.size) for group, _ in groups), integers, every)
    still = network.active_shares(
        ((group, int((~units).sum())) for group, units in remaining), integers, every
    )
    kept_names = {tensor.info.name for tensor in tensors}
    return CompactPlan(
        tensors=tensors,
        removed=tuple(name for name in checkpoint.tensors if name not in kept_names),
        spaces=tuple(_space_units(groups, remaining, spaces)),
        config=config.content,
        changes=config.changes,
        fields=differences(architecture.config or {}, config.content or dict(config.changes)),
        needs_loader=bool(loose),
        attributes=attributes if any(rule.groups for rule in spaces.values()) else None,
        tokens=tokens,
        folded=folding.folded,
        unfolded=folding.unfolded,
        guessed=architecture.guessed,
        problems=tuple(dict.fromkeys(problems)),
        before=network.figures([(info, info.shape) for info in every.values()], active, sizes),
        after=network.figures([(tensor.info, tensor.shape) for tensor in tensors], still, sizes),
        image_size=image_size if sizes else None,
    )


def _check_unpruned(
    resolution: Resolution,
    spaces: Mapping[str, SpaceRule],
    masked: Sequence[CoupledGroup],
    monitor: Monitor,
) -> None:
    for group, units in zip(
        masked, network.removable_units(resolution, masked, monitor), strict=True
    ):
        if units.any():
            raise _impossible(resolution, unloadable(spaces[group.space]))


def _impossible(resolution: Resolution, problem: str) -> RecipeError:
    return RecipeError(
        "{file} cannot be made compact: {problem}",
        file=resolution.checkpoint.path.name,
        problem=problem,
    )


def _kept_tensors(
    checkpoint: Checkpoint,
    groups: Sequence[network.GroupUnits],
    pruned: network.PrunedChannels,
    folding: Folding,
) -> Iterator[KeptTensor]:
    cuts: dict[str, dict[int, network.Units]] = defaultdict(dict)
    for group, units in groups:
        for member in group.members if units.any() else ():
            if member.dim is not None:
                info = pruned.info(member.name)
                channels = group.channels(member.name, member.dim, info.shape[member.dim], units)
                cut = cuts[info.name].setdefault(member.dim, np.zeros_like(channels))
                cut |= channels
    renumbering = network.Renumbering(groups, checkpoint.tensors)
    for info in checkpoint.tensors.values():
        new_keys = ((renumbering.new_key(key), key) for key in (info.name, *info.aliases))
        keys = tuple((new, old) for new, old in new_keys if new is not None)
        if keys:
            kept = {dim: np.flatnonzero(~cut) for dim, cut in cuts.get(info.name, {}).items()}
            shift, all_pruned = folding.shifts.get(info.name), info.name not in folding.tensors
            yield KeptTensor(info, keys, kept, shift, all_pruned)


def _space_units(
    groups: Sequence[network.GroupUnits],
    remaining: Sequence[network.GroupUnits],
    spaces: Mapping[str, SpaceRule],
) -> Iterator[SpaceUnits]:
    for space, rule in spaces.items():
        units_of = [units for group, units in groups if group.space == space]
        if any(units.any() for units in units_of):
            kept = [int((~units).sum()) for group, units in remaining if group.space == space]
            uniform, before = len(set(kept)) <= 1, sum(map(len, units_of))
            yield SpaceUnits(space, rule.title, before, sum(kept), uniform, rule.exact)


WRITABLE_FORMATS = ("safetensors", "torch")


def check_format(file_format: FileFormat, name: str) -> None:
    """Check that the compact form can be written in a format."""
    if file_format.name not in WRITABLE_FORMATS:
        raise CheckpointError(
            "{name}: save the compact form as .safetensors or .pt instead.", name=name
        )


def compact_tensors(resolution: Resolution, plan: CompactPlan) -> Iterator[TensorWriter]:
    """Yield the tensors that remain, without special ones, which the torch writer copies."""
    for info in resolution.checkpoint.tensors.values():
        if info.special is not None and info.name in plan.removed:
            raise _special_error(info.name, info.special)
    for tensor in plan.tensors:
        info = tensor.info
        if info.special is not None:
            if any(new != old for new, old in tensor.keys):
                raise _special_error(info.name, info.special)
        elif tensor.shift is None and not tensor.kept:
            yield finalized(resolution, info, tensor.keys)
        else:
            values = partial(_values if tensor.shift is None else _shifted, resolution, tensor)
            yield TensorWriter.of(tensor.keys[0][0], info.dtype, tensor.shape, values, tensor.keys)


def remaining_pruned(resolution: Resolution, plan: CompactPlan) -> dict[str, int]:
    """Return how many elements of each remaining tensor are pruned, by the new name."""
    return {
        tensor.keys[0][0]: _pruned(resolution, tensor)
        for tensor in plan.tensors
        if tensor.info.name in resolution.layers
    }


def folded_units(plan: CompactPlan) -> dict[str, int]:
    """Return how many removed units have their constants in each tensor, by the new name."""
    units = {tensor.name: tensor.units for tensor in plan.folded}
    return {
        tensor.keys[0][0]: units[tensor.info.name]
        for tensor in plan.tensors
        if tensor.info.name in units
    }


def _pruned(resolution: Resolution, tensor: KeptTensor) -> int:
    """Return the number of pruned elements, without those that become other numbers than 0."""
    info = tensor.info
    if tensor.all_pruned and tensor.shift is None:
        pruned = resolution.counts.get(info.name, (0, 0))[0]
        return pruned - (info.numel - math.prod(tensor.shape))
    kept = resolution.mask(info.name)
    if tensor.shift is not None:
        kept |= torch.from_numpy(tensor.shift) != 0
    for dim, channels in tensor.kept.items():
        kept = kept.index_select(dim, torch.from_numpy(channels))
    return kept.numel() - int(kept.count_nonzero())


def _values(resolution: Resolution, tensor: KeptTensor, spans: Spans) -> Iterator[torch.Tensor]:
    info = tensor.info
    steps = resolution.layers.get(info.name, ()) if _pruned(resolution, tensor) else ()
    flat = resolution.values(info.name).reshape(-1)
    return sliced(flat, info.shape, tensor.kept, steps, spans)


def _shifted(resolution: Resolution, tensor: KeptTensor, spans: Spans) -> Iterator[torch.Tensor]:
    assert tensor.shift is not None
    added = torch.from_numpy(tensor.shift)
    old = torch.cat(list(finalized(resolution, tensor.info).chunks()))
    new = torch.where(added == 0, old, (old.double() + added).to(old.dtype))
    for dim, channels in tensor.kept.items():
        new = new.index_select(dim, torch.from_numpy(channels))
    for start, stop in spans:
        yield new[start:stop]


def _special_error(name: str, special: str) -> RecipeError:
    return RecipeError(
        "{name} ({special}) cannot be removed or renamed. Leave its layer unpruned.",
        name=name,
        special=tr(special),
    )
