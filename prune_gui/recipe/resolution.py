"""A recipe resolved on one checkpoint: computes every mask on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.cluster import use_cluster
from prune_gui.errors import RecipeError, StepError
from prune_gui.executor import current_executor
from prune_gui.file_stamps import FileStamps
from prune_gui.language import tr, trn
from prune_gui.memory import gc_paused
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.parallel import chunks, spread
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.correction import CorrectionMethod
from prune_gui.pruning.methods.listed_units import Tokens
from prune_gui.pruning.predicates import CustomMask, ElementCut, ElementRank, Predicate
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.recipe import stack
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles, mask_reader, masks_in, weight_reader
from prune_gui.recipe.correction.corrected_values import (
    AppliedCorrection,
    CorrectedValues,
    plan_correction,
    values_key,
)
from prune_gui.recipe.outcome import (
    Contents,
    Decide,
    Explanation,
    Outcome,
    compute_cuts,
    decision_cache,
    joined,
)
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO, Recipe, Step, pruned_before
from prune_gui.recipe.selector import meant_by, protected_in
from prune_gui.recipe.stack import AppliedStep, Masks
from prune_gui.recipe.step_scores import layout_notes, read_other, target_layout
from prune_gui.recipe.step_targets import StepTargets, step_targets
from prune_gui.recipe.vocabulary.encoding import selected_tokens

if TYPE_CHECKING:
    from prune_gui.cluster import Client

NEARLY_EMPTY: Final = 0.99
"""The pruned share of a parameter, in [0, 1], from which on there is a warning."""


@dataclass(frozen=True, eq=False)
class Resolution(Masks):
    """What a recipe prunes in a checkpoint. Immutable; `with_step` returns a new resolution.

    Attributes:
        checkpoint: it must stay open while masks are computed.
        layers: the applied steps of each parameter that a step targeted, in order.
        counts: (pruned elements, all elements) of every prunable parameter; of every mask, if the
            file has masks and no prunable parameter.
        outcomes: one per step.
        corrections: the enabled steps that correct kept weights, in order.
        provenance: metadata to write into a pruned checkpoint beside the recipe.
    """

    counts: Mapping[str, tuple[int, int]]
    recipe: Recipe
    outcomes: tuple[Outcome, ...] = ()
    corrections: tuple[AppliedCorrection, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict, repr=False)
    _auxiliary_files: AuxiliaryFiles = field(default_factory=AuxiliaryFiles, repr=False)
    _decisions: Callable[[Hashable, Decide], list[Decision]] = field(
        default_factory=decision_cache, repr=False
    )
    _histograms: HistogramCache = field(default_factory=HistogramCache, repr=False)
    _corrected: CorrectedValues = field(default_factory=CorrectedValues, repr=False)
    _counts_of_targets: dict[int, tuple[int, int]] = field(
        default_factory=dict, init=False, repr=False
    )

    def values(self, name: str) -> torch.Tensor:
        """Return the values of a parameter, with its kept elements as the recipe corrects them.

        Pruned elements have their values of the file; ``values(name) * mask(name)`` is what the
        finalized form contains. Without a correction, this is `Checkpoint.view`. A correction is
        computed on first use from the masks of all steps, and cached; see
        `prune_gui.recipe.correction`.

        Raises:
            RecipeError: the checkpoint has no such parameter, or the recording is not usable.
            CheckpointError: the file changed while it was read.
        """
        self._info(name)
        return self._corrected.get(self, self.corrections, name)

    def values_key(self, name: str) -> Hashable:
        """Return a key that is equal for equal `values` of a parameter of this checkpoint."""
        return values_key(self, self.corrections, name) if self.is_corrected(name) else ()

    def is_corrected(self, name: str) -> bool:
        """Return whether `values` may differ from the values of the file."""
        return any(name in correction.sources for correction in self.corrections)

    def explain(self, name: str, index: Sequence[int]) -> Explanation:
        """Return which step pruned an element, and its rank in every step up to that one.

        Args:
            index: one number per dimension; negative: from the end.

        Raises:
            RecipeError: the checkpoint has no such parameter, or the parameter no such element.
        """
        info = self._info(name)
        sides = list(zip(index, info.shape, strict=False))
        if len(index) != len(info.shape) or not all(-n <= i < n for i, n in sides):
            raise RecipeError(
                "{name} has shape {shape}: it has no element {index}.",
                name=name,
                shape=list(info.shape),
                index=list(index),
            )
        position = tuple(i % n for i, n in sides)
        flat = int(np.ravel_multi_index(position, info.shape))
        value = float(self.checkpoint.values_span(name, flat, flat + 1))
        element_ranks: dict[int, ElementRank] = {}
        for applied in self.layers.get(name, ()):
            element_ranks[applied.step] = applied.predicate.element_rank(flat)
            if element_ranks[applied.step].pruned:
                return Explanation(name, position, value, applied.step, element_ranks)
        return Explanation(name, position, value, KEPT, element_ranks)

    @cached_property
    def protected(self) -> frozenset[str]:
        """The names of the parameters that the recipe protects from all steps."""
        return protected_in(self.checkpoint, self.recipe.protect)

    @cached_property
    def counted(self) -> frozenset[str]:
        """The parameters that totals count: weights, and other tensors that a step prunes.

        These are all if none is a weight, as in a file of masks.
        """
        pruned = (
            name for outcome in self.outcomes for name, count in outcome.pruned.items() if count
        )
        counted = self.checkpoint.weight_names.union(pruned) & self.counts.keys()
        return counted or frozenset(self.counts)

    @cached_property
    def total(self) -> tuple[int, int]:
        """(pruned elements, all elements) over the `counted` parameters."""
        counts = [self.counts[name] for name in self.counted]
        return sum(pruned for pruned, _ in counts), sum(total for _, total in counts)

    def marking_zeros(self, name: str) -> Resolution:
        """Return a resolution for pictures, with the code `ZERO` where kept elements are zero."""
        marked = AppliedStep(ZERO, _zeros(self._info(name), self.checkpoint))
        if any(applied.predicate.covers(marked.predicate) for applied in self.layers.get(name, ())):
            return self
        return replace(self, layers={**self.layers, name: (*self.layers.get(name, ()), marked)})

    @property
    def is_current(self) -> bool:
        """Whether the auxiliary files of the last step are unchanged since it was resolved."""
        if not self.outcomes or not self.outcomes[-1].files:
            return True
        try:
            files = self._contents(self.recipe.steps[-1].method)
        except RecipeError:
            return False
        return files == self.outcomes[-1].files

    def of_targets(self, number: int) -> tuple[int, int]:
        """Return (pruned elements, all elements) of the targets of a step, after all steps."""
        if number not in self._counts_of_targets:
            counts = [self.counts[name] for name in self.outcomes[number - 1].pruned]
            self._counts_of_targets[number] = sum(n for n, _ in counts), sum(n for _, n in counts)
        return self._counts_of_targets[number]

    @gc_paused()
    def with_step(self, step: Step, monitor: Monitor) -> Resolution:
        """Return this resolution with one more step applied.

        Raises:
            StepError: the step cannot be applied.
            CheckpointError: the file changed while it was read.
        """
        recipe = self.recipe.with_steps((*self.recipe.steps, step))
        number = len(recipe.steps)
        if not step.enabled:
            return replace(self, recipe=recipe, outcomes=(*self.outcomes, Outcome()))
        try:
            with monitor.in_charge():
                chosen = step_targets(
                    step, self.checkpoint, self.counts, self.protected, self.recipe.table_path
                )
                self.checkpoint.check_fetch(info.name for info in chosen.infos)
                files = self._contents(step.method)
            if isinstance(step.method, CorrectionMethod):
                return self._with_correction(recipe, step.method, chosen)
            remarks = {**self._remarks_on_protection(), **chosen.remarks}
            targets = [self._target(info, chosen.method) for info in chosen.infos]
            stacks = ((target.name, self.layers.get(target.name, ())) for target in targets)
            before = tuple((name, tuple(one.predicate for one in steps)) for name, steps in stacks)
            decisions = self._decisions(
                (chosen.method, repr(chosen.amounts), files, before),
                lambda: chosen.decide(targets, self.checkpoint, self._auxiliary_files, monitor),
            )
            if current_executor() is not None:
                compute_cuts(decisions, targets, monitor)
        except RecipeError as error:
            raise StepError(number, str(error)) from error
        self.checkpoint.check()  # data read from a file that changed meanwhile are invalid
        layers, counts = dict(self.layers), dict(self.counts)
        pruned, predicates, limits = {}, {}, layout_notes(chosen.method, targets)
        for target, decision in zip(targets, decisions, strict=True):
            name = target.name
            pruned_before_step, total = counts[name]
            counts[name] = pruned_before_step + decision.pruned, total
            pruned[name] = decision.pruned
            layers.setdefault(name, ())
            if decision.predicate is not None:
                predicates[name] = decision.predicate
                layers[name] = (*layers[name], AppliedStep(number, decision.predicate))
            if decision.note:
                limits[name] = joined(limits.get(name, ""), decision.note)
            if decision.pruned and (remark := _nearly_empty(*counts[name])):
                remarks[name] = remark
        step_total = sum(pruned.values()), sum(target.size for target in targets)
        outcome = Outcome(pruned, remarks, limits, predicates, step_total, files, chosen.amounts)
        outcomes = (*self.outcomes, outcome)
        return replace(self, recipe=recipe, layers=layers, counts=counts, outcomes=outcomes)

    def _remarks_on_protection(self) -> dict[str, str]:
        """Return a remark on each pattern that protects nothing, for the first enabled step."""
        if any(outcome.pruned for outcome in self.outcomes):
            return {}
        known = self.checkpoint.tensors
        globs = [text for text in self.recipe.protect if text not in known and text[0] != "!"]
        idle = [text for text in globs if not protected_in(self.checkpoint, [text])]
        note = tr("protects nothing: it matches no parameter")
        return {text: note + meant_by(text, self.checkpoint) for text in idle}

    def _with_correction(
        self, recipe: Recipe, method: CorrectionMethod, chosen: StepTargets
    ) -> Resolution:
        file = self._auxiliary_files.file(method.recording)
        correction = plan_correction(
            len(recipe.steps), method, chosen.infos, self.checkpoint, file, self.protected
        )
        names = correction.sources
        outcome = Outcome(
            pruned=dict.fromkeys(names, 0),
            remarks={**chosen.remarks, **correction.remarks},
            total=(0, sum(self.checkpoint.tensors[name].numel for name in names)),
            files=(file,),
            late_notes=correction.notes,
        )
        corrections = (*self.corrections, correction)
        outcomes = (*self.outcomes, outcome)
        return replace(self, recipe=recipe, corrections=corrections, outcomes=outcomes)

    def _contents(self, method: Method) -> Contents:
        """Return the contents of the files of a method; equal while these are unchanged."""
        table = self.recipe.table_path
        stamps = (FileStamps.of([table]),) if table and method.is_coupled else ()
        if isinstance(method, Tokens):
            return selected_tokens(method, self.checkpoint, table), *stamps
        return *map(self._auxiliary_files.file, method.files.values()), *stamps

    def _target(self, info: TensorInfo, method: Method) -> Target:
        pruned, total = self.counts[info.name]
        layout = target_layout(self.checkpoint, info, method, self._auxiliary_files)
        return Target(
            name=info.name,
            shape=info.shape,
            remaining=total - pruned,
            weights=weight_reader(self.checkpoint, info),
            other=partial(read_other, self.checkpoint, self._auxiliary_files, info, layout),
            remaining_mask=stack.remaining_mask_of(self.layers.get(info.name, ())),
            histogram_cache=self._histograms,
            layout=layout,
        )


@gc_paused()
def initial_resolution(recipe: Recipe, checkpoint: Checkpoint, monitor: Monitor) -> Resolution:
    """Return the resolution of `recipe` before its first step: what is pruned in the file.

    Counted as pruned are: the masks of reparametrized pairs; the zeros of a parameter that this
    program pruned and finalized, unless it has fewer zeros now; and, if the recipe starts from
    ``zeros``, every zero. If no parameter is prunable, these are the zeros of masks.
    """
    layers: dict[str, tuple[AppliedStep, ...]] = {}
    counts: dict[str, tuple[int, int]] = {}
    recorded = pruned_before(checkpoint.metadata)
    for info in checkpoint.tensors.values():
        if info.not_prunable:
            continue
        zeros = recipe.start == "zeros"
        predicates: list[Predicate] = []
        if info.pair is not None:
            checkpoint.read_mask(info.name)  # called only to check that every value is 0 or 1
            predicates.append(CustomMask(mask_reader(checkpoint, info)))
        if zeros or info.name in recorded:
            predicates.append(_zeros(info, checkpoint))
        applied_steps = tuple(AppliedStep(IN_FILE, predicate) for predicate in predicates)
        pruned = 0
        if applied_steps:
            monitor.expect(info.nbytes)
            count = partial(_count, applied_steps, info)
            pruned = sum(spread(count, chunks(info.numel), monitor))
            if zeros or pruned >= recorded.get(info.name, 0):
                layers[info.name] = applied_steps
            else:
                pruned = 0
        counts[info.name] = pruned, info.numel
    if not counts:
        layers, counts = masks_in(checkpoint, monitor)
    return Resolution(checkpoint, layers, counts, recipe.with_steps(()))


def resolve(
    recipe: Recipe,
    checkpoint: Checkpoint,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
    cluster: Client | None = None,
) -> Resolution:
    """Apply every step of `recipe` to `checkpoint`. Nothing is written.

    Args:
        checkpoint: it must stay open while the resolution is used.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.
        cluster: a client of a Dask cluster, whose workers then read the checkpoint, at the same
            path as here. The result is the same; all cuts are computed at once. None: threads of
            this process.

    Raises:
        StepError: a step cannot be applied; the message names the step and the reason.
        CheckpointError: the file changed while it was read, or a worker does not find it.
        ClusterError: the cluster was lost.
    """
    with use_cluster(cluster):
        return resolved(recipe, checkpoint, Monitor(progress, cancel))


def resolved(recipe: Recipe, checkpoint: Checkpoint, monitor: Monitor) -> Resolution:
    """Apply a recipe as `resolve` does, with a monitor for progress and cancelling."""
    resolution = initial_resolution(recipe, checkpoint, monitor)
    for step in recipe.steps:
        resolution = resolution.with_step(step, monitor)
    return resolution


def _count(
    applied_steps: Sequence[AppliedStep], info: TensorInfo, span: tuple[int, int], monitor: Monitor
) -> int:
    monitor.advance((span[1] - span[0]) * info.nbytes // info.numel)
    return int(np.count_nonzero(stack.pruned_by(applied_steps, *span)))


def _zeros(info: TensorInfo, checkpoint: Checkpoint) -> Predicate:
    keys = ScoreKeys.of(weight_reader(checkpoint, info))
    only_zeros = Cut(threshold=1, last_tie=-1, pruned=0)
    return ElementCut(Ranking(keys), Lazy.of_value(only_zeros))


def _nearly_empty(pruned: int, total: int) -> str:
    if pruned == total:
        return tr("none of its weights remain")
    if pruned >= NEARLY_EMPTY * total:
        return trn(
            "only {count:,} of {total:,} weights remains",
            "only {count:,} of {total:,} weights remain",
            total - pruned,
            total=total,
        )
    return ""
