"""Scores of coupled groups and of optimizers, and which channels of a target a step means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch

from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.state_dict_search import moments
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import deferred
from prune_gui.pruning.decisions.target import Content, GroupScores, Target
from prune_gui.pruning.layouts import CoupledGroup, WeightLayout
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.correction import Refit
from prune_gui.pruning.methods.fields import OPTIMIZER
from prune_gui.pruning.selection.scores import Scores, TensorScores, WeightScores
from prune_gui.recipe.auxiliary_files import (
    AuxiliaryFiles,
    RecordedScores,
    scores_tensor,
    weight_reader,
)
from prune_gui.recipe.correction.unit_errors import UnitErrors

SQUARES: Final = "exp_avg_sq"
"""The moving average of squared gradients, as `Adam` and `AdamW` of torch call it."""
UNCERTAIN: Final = deferred(
    "{file}: the weights cannot be ranked by its optimizer, because it is not certain which "
    "moments belong to which parameter: {reason}. Name a file of scores."
)
_squares: WeakKeyDictionary[Checkpoint, dict[str, ReferenceType[torch.Tensor]]] = (
    WeakKeyDictionary()
)
"""By checkpoint and parameter; weak, because a checkpoint releases its tensors when it closes."""


def group_scores(
    path: str, groups: Sequence[CoupledGroup], checkpoint: Checkpoint, files: AuxiliaryFiles
) -> list[GroupScores]:
    """Return the scores of groups in a file; no score is read.

    If a group of this kind has a vector in the file, all must have one. Otherwise it has scores of
    weights.
    """
    file = files.file(path)
    recorded = RecordedScores.of(file)
    if recorded is not None and recorded.statistic == Refit.statistic:
        return [
            GroupScores(path, UnitErrors.of(group, checkpoint, file, recorded), {})
            for group in groups
        ]
    keys = {group.key for group in coupled_groups(checkpoint, groups[0].space)}
    if keys.isdisjoint(file.tensors):
        return [_of_weights(path, group, checkpoint, files) for group in groups]
    _check_keys(path, file, keys, groups[0], checkpoint)
    return [GroupScores(path, files.vector(path, one.key, one.size), {}) for one in groups]


def _check_keys(
    path: str, file: Checkpoint, keys: set[str], example: CoupledGroup, checkpoint: Checkpoint
) -> None:
    unknown = [name for name in file.tensors if name not in keys | checkpoint.tensors.keys()]
    if not unknown:
        return
    others = [space for space in spaces(checkpoint) if space != example.space]
    for space in others:
        keys = keys | {group.key for group in coupled_groups(checkpoint, space)}
    for name in unknown:
        if name not in keys:
            raise RecipeError(
                "{path}: {name} is the name of no group of units in {file}; they are named "
                "like {example}. Rename it or remove it.",
                path=path,
                name=name,
                file=checkpoint.path.name,
                example=example.key,
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
            "{path} has no scores of {group}: neither a vector {key} with one score for each "
            "of its {count:,} units, nor a tensor with the name of a parameter, such as "
            "{example}.",
            path=path,
            group=group.label,
            key=group.key,
            count=group.size,
            example=group.producers[0],
        )
    if all(member.dim is None for member in members):
        scored = {member.offset for member in members}
        missing = [member for member in group.members if member.offset not in scored]
        if missing:
            raise RecipeError(
                "{path} has no scores of unit {unit} of {group}. Add a tensor with the name of "
                "a parameter of it, such as {example}.",
                path=path,
                unit=missing[0].offset,
                group=group.label,
                example=missing[0].name,
            )
    names = dict.fromkeys(member.name for member in members)
    weights = {
        name: files.entries(
            path, checkpoint.tensors[name], "scores", weight_layout(checkpoint, name)
        )
        for name in names
    }
    return GroupScores(path, None, weights)


def target_layout(
    checkpoint: Checkpoint, info: TensorInfo, method: Method, files: AuxiliaryFiles
) -> WeightLayout:
    """Return the layout of a target, from a recording that the method ranks by if there is one."""
    path = method.files.get("importance")
    recorded = RecordedScores.of(files.file(path)) if path and path != OPTIMIZER else None
    if recorded is not None and recorded.name_of(info) in recorded.transposed:
        return WeightLayout(1, 0, deferred("as the layer that was recorded, by the file of scores"))
    return weight_layout(checkpoint, info.name)


def layout_notes(method: Method, targets: Sequence[Target]) -> dict[str, str]:
    """Return a note on each target that is not (out, in), if the step depends on it."""
    if not method.depends_on_layout:
        return {}
    unusual = (target for target in targets if not target.layout.is_usual)
    return {target.name: target.layout.describe(target.shape) for target in unusual}


@dataclass(frozen=True)
class OptimizerScores(WeightScores):
    """v * w^2, where v is Adam's moving average of the squared gradient of the weight w.

    This is twice the score of Optimal Brain Damage (LeCun et al. 1990), with v as the diagonal of
    the Fisher information. The bias correction of v is the same factor for all weights.
    """

    squares: Scores

    @property
    def nbytes(self) -> int:
        """The bytes that are read."""
        return self.weights.nbytes + self.squares.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the scores of the flat indices [start, stop)."""
        weights = self.weights.part(start, stop).to(self.dtype)
        return self.squares.part(start, stop).to(self.dtype) * weights * weights


@dataclass(frozen=True, slots=True)
class _StoredSquares:
    checkpoint: TorchCheckpoint
    name: str

    def __call__(self) -> torch.Tensor:
        tensor = _squares_of(self.checkpoint)[self.name]()
        if tensor is None:
            raise CheckpointError("{file} is closed.", file=self.checkpoint.path.name)
        return self.checkpoint.values_of(tensor).detach()


def read_other(
    checkpoint: Checkpoint,
    files: AuxiliaryFiles,
    info: TensorInfo,
    layout: WeightLayout,
    path: str,
    what: Content,
) -> Scores:
    """Return a reader of a tensor for a parameter: of a file, or of the checkpoint's optimizer."""
    if path != OPTIMIZER:
        return files.entries(path, info, what, layout)
    try:
        found = _squares_of(checkpoint)
    except CheckpointError as error:
        raise RecipeError(str(error)) from error
    tensor = found[info.name]() if info.name in found else None
    if (
        not isinstance(checkpoint, TorchCheckpoint)
        or tensor is None
        or not tensor.is_floating_point()
    ):
        raise RecipeError(
            "{file} has no exp_avg_sq of {name}, which Adam keeps: importance: optimizer needs a "
            "training checkpoint with the state of the optimizer. Open one, or name a file of "
            "scores.",
            file=checkpoint.path.name,
            name=info.name,
        )
    read = _StoredSquares(checkpoint, info.name)
    squares = TensorScores(read, info.shape, tensor.dtype)
    return OptimizerScores(weight_reader(checkpoint, info), squares)


def _squares_of(checkpoint: Checkpoint) -> dict[str, ReferenceType[torch.Tensor]]:
    if not isinstance(checkpoint, TorchCheckpoint):
        return {}
    if checkpoint not in _squares:
        _squares[checkpoint] = {
            name: ref(tensor)
            for name, tensors in moments(checkpoint, UNCERTAIN).items()
            for key, tensor in tensors
            if key == SQUARES
        }
    return _squares[checkpoint]
