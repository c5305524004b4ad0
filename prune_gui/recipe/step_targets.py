"""The parameters and the coupled groups that a step targets in a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from prune_gui.architecture.groups import analysis, coupled_groups, spaces
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.roles import counted
from prune_gui.checkpoint.tensor_info import CODE_DTYPES, PACKED, QUANTIZED
from prune_gui.errors import RecipeError
from prune_gui.language import join_items, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.coupled import CoupledMethod
from prune_gui.pruning.methods.listed_units import TokenIds, Tokens
from prune_gui.recipe.amounts import Amount, amounts_by_target, grouped_by_amount
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.recipe.recipe import Step
from prune_gui.recipe.selector import meant_by, select_in, unmatched_remark
from prune_gui.recipe.step_scores import group_scores
from prune_gui.recipe.vocabulary.encoding import selected_tokens

QUANTIZED_REASONS: Final = frozenset({QUANTIZED, PACKED})


@dataclass(frozen=True, slots=True)
class StepTargets:
    """What a step prunes; `groups` are those of a coupled method, with `infos` as members."""

    method: Method
    infos: Sequence[TensorInfo]
    remarks: Mapping[str, str]
    groups: Sequence[CoupledGroup] = ()
    amounts: Mapping[str, Amount] = field(default_factory=dict)

    def decide(
        self,
        targets: Sequence[Target],
        checkpoint: Checkpoint,
        files: AuxiliaryFiles,
        monitor: Monitor,
    ) -> list[Decision]:
        """Decide what to prune of `infos`, given as targets; see `Method.decide`."""
        if isinstance(self.method, CoupledMethod):
            path = self.method.files.get("importance")
            given = group_scores(path, self.groups, checkpoint, files) if path else ()
            return self.method.decide_groups(self.groups, targets, monitor, given)
        if not self.amounts:
            return self.method.decide(targets, monitor)
        by_name = {target.name: target for target in targets}
        decisions: dict[str, Decision] = {}
        for own, names in grouped_by_amount(self.method, by_name, self.amounts):
            decided = own.decide([by_name[name] for name in names], monitor)
            decisions |= zip(names, decided, strict=True)
        return [decisions[name] for name in by_name]


def step_targets(
    step: Step,
    checkpoint: Checkpoint,
    counts: Mapping[str, tuple[int, int]],
    protected: Collection[str],
    table: Path | None = None,
) -> StepTargets:
    """Return what a step prunes."""
    every_kind = step.method.takes_every_kind
    matching = select_in(checkpoint, step.targets, counts, every_kind=every_kind)
    prunable = [info for info in matching if not info.not_prunable]
    chosen = [info for info in prunable if info.name not in protected]
    if prunable and not chosen:
        name = prunable[0].name
        if len(prunable) == 1:
            raise RecipeError(
                "{name} is protected. Unprotect it, or change the targets of the step.", name=name
            )
        raise RecipeError(
            "{name} is protected, like all targets. Unprotect it, or change the targets of the "
            "step.",
            name=name,
        )
    selected, every = {info.name for info in matching}, matching
    if any(info.kind is not None for info in checkpoint.tensors.values()):
        every = select_in(checkpoint, step.targets, counts, every_kind=True)
    left_out = [info for info in every if info.kind is not None and info.name not in selected]
    patterns = ", ".join(step.targets)
    if not matching and left_out:
        raise RecipeError(
            "{patterns} match no weights, only {tensors}. Name them exactly to prune them, or "
            "change the targets of the step.",
            patterns=patterns,
            tensors=_counted(left_out),
        )
    if not matching:
        raise RecipeError(
            "no parameter matches {patterns}. Change the targets of the step.",
            patterns=", ".join(
                text if text.startswith("!") else text + meant_by(text, checkpoint)
                for text in step.targets
            ),
        )
    if not chosen:
        reason = matching[0].not_prunable
        assert reason is not None
        raise RecipeError(
            "{name} cannot be pruned: {reason}. Change the targets of the step.",
            name=matching[0].name,
            reason=tr(reason),
        )
    excluding = [text for text in step.targets if text.startswith("!")]
    looked_for = excluding if len(step.targets) - len(excluding) == 1 else step.targets
    unmatched = {text: unmatched_remark(text, checkpoint, counts) for text in looked_for}
    not_pruned = [info.name for info in prunable if info.name in protected]
    remarks = {text: remark for text, remark in unmatched.items() if remark}
    remarks |= dict.fromkeys(not_pruned, tr("protected, not pruned"))
    if not step.method.corrects:
        remarks |= _remarks_on_kinds(step.method, matching, left_out, chosen)
    if isinstance(step.method, CoupledMethod):
        groups = _groups(step.method, chosen, checkpoint, protected, table)
        if analysis(checkpoint, table).guessed:
            remarks[groups[0].producers[0]] = tr(
                "which channels belong together is a guess from the shapes and the order of the "
                "file; check it in Groups"
            )
        method: Method = step.method
        if isinstance(method, Tokens):
            selection = selected_tokens(method, checkpoint, table)
            method = TokenIds(ids=selection.ids)
            if selection.remark:
                remarks[groups[0].producers[0]] = selection.remark
        names = {member.name for group in groups for member in group.members}
        infos = [info for info in checkpoint.tensors.values() if info.name in names]
        return StepTargets(method, infos, remarks, groups)
    amounts: dict[str, Amount] = {}
    if step.method.own_amounts:
        module_types = partial(getattr, checkpoint, "module_types")
        amounts, idle = amounts_by_target(step.method.own_amounts, chosen, counts, module_types)
        remarks = dict.fromkeys(idle, tr("its amount is unused: it matches no target")) | remarks
    return StepTargets(step.method, chosen, remarks, amounts=amounts)


def _remarks_on_kinds(
    method: Method,
    matching: Sequence[TensorInfo],
    left_out: Sequence[TensorInfo],
    chosen: Sequence[TensorInfo],
) -> dict[str, str]:
    """Return remarks on what was left out, on quantized tensors, and on codes without scales."""
    remarks = {}
    floats = [info for info in left_out if not info.not_prunable]
    if floats and not method.is_coupled:
        remarks[""] = trn(
            "{tensors} was left out; name it exactly to prune it",
            "{tensors} were left out; name them exactly to prune them",
            len(floats),
            tensors=_counted(floats),
        )
    if packed := [info.name for info in matching if info.not_prunable in QUANTIZED_REASONS]:
        remarks[packed[0]] = trn(
            "quantized; it cannot be pruned and stays unchanged",
            "one of {count:,} quantized tensors that cannot be pruned and stay unchanged",
            len(packed),
        )
    unscaled = [i.name for i in chosen if i.dtype in CODE_DTYPES and not (i.scale or i.kind)]
    ranks = method.is_coupled or method.score_kind not in (None, "random")
    if unscaled and ranks:
        remarks[unscaled[0]] = trn(
            "ranked by its stored codes: no scale of known shape is beside it",
            "one of {count:,} tensors that are ranked by their stored codes: no scales of known "
            "shape are beside them",
            len(unscaled),
        )
    return remarks


def _counted(tensors: Iterable[TensorInfo]) -> str:
    kinds = Counter(info.kind for info in tensors if info.kind is not None)
    return join_items(counted(kind, count) for kind, count in kinds.items())


def _groups(
    method: CoupledMethod,
    chosen: Iterable[TensorInfo],
    checkpoint: Checkpoint,
    protected: Collection[str],
    table: Path | None,
) -> list[CoupledGroup]:
    space, names = method.coupled_space, {info.name for info in chosen}
    if space is None:
        every = [
            group
            for name, rule in spaces(checkpoint, table).items()
            if not rule.outside
            for group in coupled_groups(checkpoint, name, table)
        ]
        found = [group for group in every if group.is_sliced]
    else:
        found = coupled_groups(checkpoint, space, table)
    if not found:
        raise RecipeError(
            "it is not known which slices of the parameters belong together in this file."
        )
    groups = [group for group in found if not names.isdisjoint(group.producers)]
    if not groups:
        raise RecipeError(
            "the targets name no tensor that has units of this kind as outputs, such as "
            "{example}. Change the targets of the step.",
            example=found[0].producers[0],
        )
    for group in groups:
        for member in group.members:
            reason = checkpoint.tensors[member.name].not_prunable
            if reason is not None:
                raise RecipeError(
                    "{name} cannot be pruned: {reason}. Units of {group} are also in it. "
                    "Change the targets of the step.",
                    name=member.name,
                    reason=tr(reason),
                    group=group.label,
                )
            if member.name in protected:
                raise RecipeError(
                    "{name} is protected, and units of {group} are also in it. Unprotect it, "
                    "or change the targets of the step.",
                    name=member.name,
                    group=group.label,
                )
    return groups
