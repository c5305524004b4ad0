"""A recipe made definite on one checkpoint: every mask, on demand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.errors import RecipeError, StepError
from prune_gui.language import later, tr, trn
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods import Target
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import CustomMask, ElementCut, ElementRank, Predicate
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut, Ranking
from prune_gui.recipe import stack
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles, file_entries, mask_entries
from prune_gui.recipe.decision_cache import DecisionCache
from prune_gui.recipe.explanation import Explanation
from prune_gui.recipe.provenance import pruned_before
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.selector import select
from prune_gui.recipe.stack import AppliedStep
from prune_gui.recipe.step import Step

Tile = tuple[slice, ...]
PROTECTED: Final = later(
    "{name} is protected. Protect it no longer, or change the targets of the step."
)
ALL_PROTECTED: Final = later(
    "{name} is protected, like all targets. Protect it no longer, or change the targets of the "
    "step."
)
NEARLY_EMPTY: Final = 0.99
"""The pruned share from which on a parameter is warned of."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step did.

    Attributes:
        pruned: by target, how many entries that were still there it pruned.
        remarks: by target or pattern, what a person should know.
        predicates: by target, what it prunes there.
        total: (pruned entries, all entries) of all targets together.
        files: those that the method named, as they were opened.
    """

    pruned: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    total: tuple[int, int] = (0, 0)
    files: tuple[Checkpoint, ...] = ()
    _noted: list[tuple[object, Mapping[str, str]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def notes(self) -> Mapping[str, str]:
        """The remarks, and what is odd about the scores that somebody has looked at so far.

        The same object as before, unless somebody has looked at some since.
        """
        latest = Lazy.latest
        if not self._noted or self._noted[-1][0] is not latest:
            found = dict(self.remarks)
            for name, predicate in self.predicates.items():
                if note := predicate.note:
                    found[name] = _together(found.get(name, ""), note)
            self._noted[:] = [(latest, found)]
        return self._noted[-1][1]


@dataclass(frozen=True)
class Resolution:
    """What a recipe prunes of a checkpoint. Immutable; adding a step gives a new one.

    Attributes:
        recipe: the steps carried out.
        checkpoint: must stay open while masks are asked for.
        layers: for each parameter that a step touched, what the steps say of it, in order.
        counts: for every parameter that can be pruned: (pruned entries, all entries).
        outcomes: one per step.
    """

    recipe: Recipe
    checkpoint: Checkpoint
    layers: Mapping[str, tuple[AppliedStep, ...]]
    counts: Mapping[str, tuple[int, int]]
    outcomes: tuple[Outcome, ...] = ()
    _companions: AuxiliaryFiles = field(default_factory=AuxiliaryFiles, repr=False, compare=False)
    _decided: DecisionCache = field(default_factory=DecisionCache, repr=False, compare=False)
    _remembered: HistogramCache = field(default_factory=HistogramCache, repr=False, compare=False)
    _of_targets: dict[int, tuple[int, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def mask(self, name: str, tile: Tile | None = None) -> torch.Tensor:
        """Return a boolean tensor of the parameter's shape, True where kept.

        Args:
            name: of the parameter.
            tile: one slice of step 1 per dimension, to get that part alone.

        Raises:
            RecipeError: the checkpoint has no parameter of that name, or that no such tile.
            CheckpointError: the file was changed meanwhile.
        """
        if tile is not None:
            return self._tile(name, tile) == KEPT
        return self._whole(name, stack.kept, torch.bool)

    def pruned_by(self, name: str, tile: Tile | None = None) -> torch.Tensor:
        """Return, as torch.uint8 of the parameter's shape, the step that pruned each entry.

        0 is kept, i is step i (from 1), 255 was pruned in the file already.

        Args:
            name: of the parameter.
            tile: one slice of step 1 per dimension, to get that part alone.

        Raises:
            RecipeError: the checkpoint has no parameter of that name, or that no such tile.
            CheckpointError: the file was changed meanwhile.
        """
        if tile is not None:
            return self._tile(name, tile)
        return self._whole(name, stack.pruned_by, torch.uint8)

    def pruned_by_within(
        self, name: str, start: int, stop: int, out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return `pruned_by` for the flat (row-major) entries [start, stop) alone.

        It is written to `out`, if that is given.
        """
        return stack.pruned_by(self.layers.get(name, ()), start, stop, out)

    def explain(self, name: str, index: Sequence[int]) -> Explanation:
        """Return which step pruned an entry, and how it stood in every step up to that one.

        Args:
            name: of the parameter.
            index: of the entry, one number per dimension; negative ones count from the end.

        Raises:
            RecipeError: the checkpoint has no parameter of that name, or that no such entry.
        """
        info = self._info(name)
        sides = list(zip(index, info.shape, strict=False))
        if len(index) != len(info.shape) or not all(-n <= i < n for i, n in sides):
            raise RecipeError(
                tr(
                    "{name} has shape {shape}: no entry {index} in it.",
                    name=name,
                    shape=list(info.shape),
                    index=list(index),
                )
            )
        place = tuple(i % n for i, n in sides)
        flat = flat_index(info.shape, place)
        value = float(self.checkpoint.view(name)[place])
        element_ranks: dict[int, ElementRank] = {}
        for layer in self.layers.get(name, ()):
            element_ranks[layer.step] = layer.predicate.element_rank(flat)
            if element_ranks[layer.step].pruned:
                return Explanation(name, place, value, layer.step, element_ranks)
        return Explanation(name, place, value, KEPT, element_ranks)

    @cached_property
    def protected(self) -> frozenset[str]:
        """The names of the parameters that no step touches."""
        if not self.recipe.protect:
            return frozenset()
        every, kinds = self.checkpoint.tensors.values(), partial(getattr, self.checkpoint, "kinds")
        return frozenset(info.name for info in select(self.recipe.protect, every, kinds=kinds))

    @cached_property
    def total(self) -> tuple[int, int]:
        """(pruned entries, all entries) of every parameter that can be pruned."""
        return (
            sum(pruned for pruned, _ in self.counts.values()),
            sum(total for _, total in self.counts.values()),
        )

    @property
    def is_current(self) -> bool:
        """Whether the files that the last step names are still those that it was decided by."""
        if not self.outcomes or not self.outcomes[-1].files:
            return True
        try:
            found = tuple(map(self._companions.file, self.recipe.steps[-1].method.files.values()))
        except RecipeError:
            return False
        return found == self.outcomes[-1].files

    def of_targets(self, number: int) -> tuple[int, int]:
        """Return (pruned entries, all entries) of the targets of a step, by all steps together."""
        if number not in self._of_targets:
            counts = [self.counts[name] for name in self.outcomes[number - 1].pruned]
            self._of_targets[number] = sum(n for n, _ in counts), sum(n for _, n in counts)
        return self._of_targets[number]

    @gc_paused()
    def with_step(self, step: Step, monitor: Monitor) -> Resolution:
        """Return this resolution with one more step carried out.

        Raises:
            StepError: the step cannot be carried out.
            CheckpointError: the file was changed meanwhile.
            Cancelled: the monitor said so.
        """
        recipe = self.recipe.with_steps((*self.recipe.steps, step))
        number = len(recipe.steps)
        if not step.enabled:
            return replace(self, recipe=recipe, outcomes=(*self.outcomes, Outcome()))
        try:
            infos, remarks = self._select(step)
            targets = [self._target(info) for info in infos]
            files = tuple(map(self._companions.file, step.method.files.values()))
            before = tuple((target.name, self._predicates(target.name)) for target in targets)
            decisions = self._decided.get(
                (step.method, files, before),
                lambda: step.method.decide(targets, monitor),
            )
        except RecipeError as error:
            raise StepError(number, str(error)) from error
        self.checkpoint.check()  # what was read from a file that changed meanwhile may be anything
        layers, counts = dict(self.layers), dict(self.counts)
        pruned, predicates = {}, {}
        for target, decision in zip(targets, decisions, strict=True):
            name = target.name
            already, total = counts[name]
            counts[name] = already + decision.pruned, total
            pruned[name] = decision.pruned
            layers.setdefault(name, ())
            if decision.predicate is not None:
                predicates[name] = decision.predicate
                layers[name] = (*layers[name], AppliedStep(number, decision.predicate))
            warning = _nearly_empty(*counts[name]) if decision.pruned else ""
            if remark := _together(decision.note, warning):
                remarks[name] = remark
        in_all = sum(pruned.values()), sum(target.size for target in targets)
        outcomes = (*self.outcomes, Outcome(pruned, remarks, predicates, in_all, files))
        return replace(self, recipe=recipe, layers=layers, counts=counts, outcomes=outcomes)

    def _whole(self, name: str, part: stack.Part, dtype: torch.dtype) -> torch.Tensor:
        """Return `part` of a whole parameter."""
        shape, layers = self._info(name).shape, self.layers.get(name, ())
        out = np.empty(shape, np.uint8)
        flat = out.reshape(-1)

        def fill(span: tuple[int, int]) -> None:
            part(layers, *span, flat[slice(*span)])

        for _ in run(fill, chunks(flat.size)):
            pass
        self.checkpoint.check()
        return torch.from_numpy(out).view(dtype)

    def _predicates(self, name: str) -> tuple[Predicate, ...]:
        return tuple(layer.predicate for layer in self.layers.get(name, ()))

    def _tile(self, name: str, tile: Tile) -> torch.Tensor:
        shape = self._info(name).shape
        if len(tile) != len(shape) or any(part.step not in (None, 1) for part in tile):
            raise RecipeError(
                tr(
                    "{name} has shape {shape}; a tile of it is {dims} slices of step 1.",
                    name=name,
                    shape=list(shape),
                    dims=len(shape),
                )
            )
        ranges = [range(*part.indices(n)) for part, n in zip(tile, shape, strict=True)]
        out = np.empty([len(some) for some in ranges], np.uint8)
        if out.ndim == 0:
            return self.pruned_by(name)
        for place in np.ndindex(out.shape[:-1]) if out.size else ():
            index = [some[i] for some, i in zip(ranges, (*place, 0), strict=True)]
            first = flat_index(shape, index)
            out[place] = self.pruned_by_within(name, first, first + out.shape[-1])
        return torch.from_numpy(out)

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.checkpoint.tensors[name]
        except KeyError:
            raise RecipeError(
                tr("{path} has no parameter named {name}.", path=self.checkpoint.path, name=name)
            ) from None

    def _select(self, step: Step) -> tuple[list[TensorInfo], dict[str, str]]:
        """Return the parameters a step is for, and notes on patterns that match nothing."""
        every = self.checkpoint.tensors.values()
        kinds = partial(getattr, self.checkpoint, "kinds")
        matching = select(step.targets, every, self.counts, kinds)
        prunable = [info for info in matching if not info.not_prunable]
        chosen = [info for info in prunable if info.name not in self.protected]
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
        idle = [
            pattern
            for pattern in including
            if len(including) > 1 and not select([pattern], every, self.counts, kinds)
        ]
        spared = [info.name for info in prunable if info.name in self.protected]
        remarks = dict.fromkeys(idle, tr("matches no parameter"))
        return chosen, remarks | dict.fromkeys(spared, tr("protected, so left as it is"))

    def _target(self, info: TensorInfo) -> Target:
        pruned, total = self.counts[info.name]
        return Target(
            name=info.name,
            shape=info.shape,
            remaining=total - pruned,
            weights=file_entries(self.checkpoint, info),
            other=lambda path, what: self._companions.entries(path, info, what),
            remaining_mask=stack.remaining_mask_of(self.layers.get(info.name, ())),
            remembered=self._remembered,
        )


@gc_paused()
def initial_resolution(recipe: Recipe, checkpoint: Checkpoint, monitor: Monitor) -> Resolution:
    """Return the resolution of `recipe` before its first step: what the file says is pruned.

    That is the masks of reparametrized pairs; the zeros of what this program pruned and finalized,
    unless there are fewer by now; and, if the recipe starts from ``zeros``, every zero.

    Raises:
        Cancelled: the monitor said so.
    """
    layers: dict[str, tuple[AppliedStep, ...]] = {}
    counts: dict[str, tuple[int, int]] = {}
    remembered = pruned_before(checkpoint.metadata)
    for info in checkpoint.tensors.values():
        if info.not_prunable:
            continue
        zeros = recipe.start == "zeros"
        predicates = _pruned_in_file(info, checkpoint, zeros=zeros or info.name in remembered)
        layers_here = tuple(AppliedStep(IN_FILE, predicate) for predicate in predicates)
        pruned = 0
        if layers_here:
            monitor.expect(info.nbytes)
            pruned = sum(run(partial(_count, layers_here, info, monitor), chunks(info.numel)))
            if zeros or pruned >= remembered.get(info.name, 0):
                layers[info.name] = layers_here
            else:
                pruned = 0
        counts[info.name] = pruned, info.numel
    return Resolution(recipe.with_steps(()), checkpoint, layers, counts)


def resolve(
    recipe: Recipe,
    checkpoint: Checkpoint,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> Resolution:
    """Carry out every step of `recipe` on `checkpoint`. Nothing is written.

    Args:
        recipe: what to do.
        checkpoint: stays open for as long as the resolution is used.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        StepError: a step cannot be carried out; the message says which and why.
        CheckpointError: the file was changed meanwhile.
        Cancelled: `cancel` was set.
    """
    monitor = Monitor(progress, cancel)
    resolution = initial_resolution(recipe, checkpoint, monitor)
    for step in recipe.steps:
        resolution = resolution.with_step(step, monitor)
    return resolution


def _count(
    layers: Sequence[AppliedStep], info: TensorInfo, monitor: Monitor, span: tuple[int, int]
) -> int:
    """Count what is pruned of a stretch of a parameter."""
    monitor.advance((span[1] - span[0]) * info.nbytes // info.numel)
    return int(np.count_nonzero(stack.pruned_by(layers, *span)))


def _pruned_in_file(info: TensorInfo, checkpoint: Checkpoint, *, zeros: bool) -> list[Predicate]:
    predicates: list[Predicate] = []
    if info.pair is not None:
        checkpoint.read_mask(info.name)  # once, for its check that every value is 0 or 1
        predicates.append(CustomMask(mask_entries(checkpoint, info)))
    if zeros:
        keys = ScoreKeys.of(file_entries(checkpoint, info))
        everything_below_one = Cut(threshold=1, last_tie=-1, pruned=0)
        predicates.append(ElementCut(Ranking(keys), Lazy.known(everything_below_one)))
    return predicates


def flat_index(shape: Sequence[int], index: Sequence[int]) -> int:
    """Return the place of an entry in row-major order."""
    return sum(i * math.prod(shape[dim + 1 :]) for dim, i in enumerate(index))


def _together(one: str, other: str) -> str:
    """Return two remarks, each of which may be "", as one."""
    return tr("{one}; {other}", one=one, other=other) if one and other else one or other


def _nearly_empty(pruned: int, total: int) -> str:
    """Warn of a parameter of which little or nothing is left."""
    if pruned == total:
        return tr("nothing is left of it")
    if pruned >= NEARLY_EMPTY * total:
        return trn(
            "only {count:,} of {total:,} entries is left",
            "only {count:,} of {total:,} entries are left",
            total - pruned,
            total=total,
        )
    return ""
