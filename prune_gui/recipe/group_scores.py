"""The scores of the units of coupled groups in a file that a step names."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.decisions.target import GroupScores
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.recipe.recorded_scores import scores_tensor


def group_scores(
    path: str, groups: Sequence[CoupledGroup], checkpoint: Checkpoint, files: AuxiliaryFiles
) -> list[GroupScores]:
    """Return the scores of groups in a file; no score is read.

    If a group of the kind of `groups` has a vector in the file (see `CoupledGroup.key`), all of
    `groups` must have one. Otherwise the file has scores of weights by parameter name.
    """
    file = files.file(path)
    keys = {group.key for group in coupled_groups(checkpoint, groups[0].space)}
    if keys.isdisjoint(file.tensors):
        return [_of_weights(path, group, checkpoint, files) for group in groups]
    _check_keys(path, file, keys, groups[0], checkpoint)
    return [GroupScores(path, files.vector(path, one.key, one.size), {}) for one in groups]


def _check_keys(
    path: str, file: Checkpoint, keys: set[str], example: CoupledGroup, checkpoint: Checkpoint
) -> None:
    """Check that each name in a file is that of a group or of a parameter."""
    unknown = [name for name in file.tensors if name not in keys | checkpoint.tensors.keys()]
    if not unknown:
        return
    others = [space for space in spaces(checkpoint) if space != example.space]
    for space in others:
        keys = keys | {group.key for group in coupled_groups(checkpoint, space)}
    for name in unknown:
        if name not in keys:
            raise RecipeError(
                tr(
                    "{path}: {name} is the name of no group of units in {file}; they are named "
                    "like {example}. Rename it or remove it.",
                    path=path,
                    name=name,
                    file=checkpoint.path.name,
                    example=example.key,
                )
            )


def _of_weights(
    path: str, group: CoupledGroup, checkpoint: Checkpoint, files: AuxiliaryFiles
) -> GroupScores:
    """Return the scores of the weights of a group, of the tensors that a file has."""
    file = files.file(path)
    members = [
        member
        for member in group.members
        if scores_tensor(file, checkpoint.tensors[member.name]) is not None
    ]
    if not members:
        raise RecipeError(
            tr(
                "{path} has no scores of {group}: neither a vector {key} with one score for each "
                "of its {count:,} units, nor a tensor with the name of a parameter, such as "
                "{example}.",
                path=path,
                group=group.label,
                key=group.key,
                count=group.size,
                example=group.producers[0],
            )
        )
    if all(member.dim is None for member in members):
        scored = {member.offset for member in members}
        missing = [member for member in group.members if member.offset not in scored]
        if missing:
            raise RecipeError(
                tr(
                    "{path} has no scores of unit {unit} of {group}. Add a tensor with the name of "
                    "a parameter of it, such as {example}.",
                    path=path,
                    unit=missing[0].offset,
                    group=group.label,
                    example=missing[0].name,
                )
            )
    names = dict.fromkeys(member.name for member in members)
    weights = {
        name: files.entries(
            path, checkpoint.tensors[name], "scores", weight_layout(checkpoint, name)
        )
        for name in names
    }
    return GroupScores(path, None, weights)
