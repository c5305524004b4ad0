"""The parameters and the coupled groups that a step targets in a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from prune_gui.architecture.groups import coupled_groups, is_guessed, spaces
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.decisions.base import Decision, Target
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.coupled import CoupledMethod
from prune_gui.pruning.methods.tokens import SPACE as TOKENS
from prune_gui.pruning.methods.tokens import TokenIds, Tokens
from prune_gui.recipe.selector import select
from prune_gui.recipe.step import Step
from prune_gui.recipe.vocabulary.selection import selected_tokens

PROTECTED: Final = deferred("{name} is protected. Unprotect it, or change the targets of the step.")
ALL_PROTECTED: Final = deferred(
    "{name} is protected, like all targets. Unprotect it, or change the targets of the step."
)
GUESSED: Final = deferred(
    "which channels belong together is a guess from the shapes and the order of the file; check "
    "it in Groups"
)


@dataclass(frozen=True, slots=True)
class StepTargets:
    """What a step prunes.

    Attributes:
        method: the method of the step, with what its files list.
        infos: the parameters.
        remarks: for the user, by parameter or pattern.
        groups: the coupled groups of a coupled method; their members are `infos`.
    """

    method: Method
    infos: Sequence[TensorInfo]
    remarks: Mapping[str, str]
    groups: Sequence[CoupledGroup] = ()

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide what to prune of `infos`, given as targets; see `Method.decide`."""
        if isinstance(self.method, CoupledMethod):
            return self.method.decide_groups(self.groups, targets, monitor)
        return self.method.decide(targets, monitor)


def step_targets(
    step: Step,
    checkpoint: Checkpoint,
    counts: Mapping[str, tuple[int, int]],
    protected: Collection[str],
) -> StepTargets:
    """Return what a step prunes.

    Args:
        step: the step.
        checkpoint: the checkpoint.
        counts: (pruned elements, all elements) by parameter, for conditions on the sparsity.
        protected: the names of the protected parameters.

    Raises:
        RecipeError: there is nothing to prune.
    """
    every = checkpoint.tensors.values()
    module_types = partial(getattr, checkpoint, "module_types")
    matching = select(step.targets, every, counts, module_types)
    prunable = [info for info in matching if not info.not_prunable]
    chosen = [info for info in prunable if info.name not in protected]
    if prunable and not chosen:
        raise RecipeError(
            tr(ALL_PROTECTED if len(prunable) > 1 else PROTECTED, name=prunable[0].name)
        )
    if not matching:
        patterns = ", ".join(step.targets)
        raise RecipeError(
            tr(
                "no parameter matches {patterns}. Change the targets of the step.",
                patterns=patterns,
            )
        )
    if not chosen:
        reason = matching[0].not_prunable
        assert reason is not None
        raise RecipeError(
            tr(
                "{name} cannot be pruned: {reason}. Change the targets of the step.",
                name=matching[0].name,
                reason=tr(reason),
            )
        )
    including = [pattern for pattern in step.targets if not pattern.startswith("!")]
    unmatched = [
        pattern
        for pattern in including
        if len(including) > 1 and not select([pattern], every, counts, module_types)
    ]
    left_out = [info.name for info in prunable if info.name in protected]
    remarks = dict.fromkeys(unmatched, tr("matches no parameter"))
    remarks |= dict.fromkeys(left_out, tr("protected, not pruned"))
    if isinstance(step.method, CoupledMethod):
        groups = _groups(step.method, chosen, checkpoint, protected)
        if is_guessed(checkpoint):
            remarks[groups[0].producers[0]] = tr(GUESSED)
        method: Method = step.method
        if isinstance(method, Tokens):
            selection = selected_tokens(method, checkpoint)
            method = TokenIds(ids=selection.ids)
            if selection.remark:
                remarks[groups[0].producers[0]] = selection.remark
        return StepTargets(method, _members(groups, checkpoint), remarks, groups)
    return StepTargets(step.method, chosen, remarks)


def _groups(
    method: CoupledMethod,
    chosen: Iterable[TensorInfo],
    checkpoint: Checkpoint,
    protected: Collection[str],
) -> list[CoupledGroup]:
    """Return the groups of which a step names a tensor that produces the units.

    Raises:
        RecipeError: there are none, or a tensor of them is protected.
    """
    space, names = method.coupled_space, {info.name for info in chosen}
    if space is None:
        names_of_spaces = [name for name in spaces(checkpoint) if name != TOKENS]
        every = [group for name in names_of_spaces for group in coupled_groups(checkpoint, name)]
        found = [group for group in every if group.is_sliced]
    else:
        found = coupled_groups(checkpoint, space)
    if not found:
        raise RecipeError(
            tr("it is not known which slices of the parameters belong together in this file.")
        )
    groups = [group for group in found if not names.isdisjoint(group.producers)]
    if not groups:
        raise RecipeError(
            tr(
                "the targets name no tensor that has units of this kind as outputs, such as "
                "{example}. Change the targets of the step.",
                example=found[0].producers[0],
            )
        )
    for group in groups:
        for member in group.members:
            reason = checkpoint.tensors[member.name].not_prunable
            if reason is not None:
                raise RecipeError(
                    tr(
                        "{name} cannot be pruned: {reason}. Units of {group} are also in it. "
                        "Change the targets of the step.",
                        name=member.name,
                        reason=tr(reason),
                        group=group.label,
                    )
                )
            if member.name in protected:
                raise RecipeError(
                    tr(
                        "{name} is protected, and units of {group} are also in it. Unprotect it, "
                        "or change the targets of the step.",
                        name=member.name,
                        group=group.label,
                    )
                )
    return groups


def _members(groups: Sequence[CoupledGroup], checkpoint: Checkpoint) -> list[TensorInfo]:
    names = {member.name for group in groups for member in group.members}
    return [info for info in checkpoint.tensors.values() if info.name in names]
