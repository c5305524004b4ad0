"""A recipe made definite on one checkpoint: every mask, on demand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError, StepError
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.pruning.keys import TensorKeys, ranking_dtype
from prune_gui.pruning.methods import Target
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicate import EntryCut, GivenMask, Predicate
from prune_gui.pruning.selection import Cut
from prune_gui.recipe import stack
from prune_gui.recipe.codes import IN_FILE, KEPT
from prune_gui.recipe.companions import Companions
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.selector import select
from prune_gui.recipe.stack import Layer
from prune_gui.recipe.step import Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step did.

    Attributes:
        pruned: by target, how many entries that were still there it pruned.
        notes: by target or pattern, what a person should know.
    """

    pruned: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


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
    layers: Mapping[str, tuple[Layer, ...]]
    counts: Mapping[str, tuple[int, int]]
    outcomes: tuple[Outcome, ...] = ()
    _companions: Companions = field(default_factory=Companions, repr=False, compare=False)

    def mask(self, name: str) -> torch.Tensor:
        """Return a boolean tensor of the parameter's shape, True where kept.

        Raises:
            RecipeError: the checkpoint has no parameter of that name.
        """
        return self.pruned_by(name) == KEPT

    def pruned_by(self, name: str) -> torch.Tensor:
        """Return, as torch.uint8 of the parameter's shape, the step that pruned each entry.

        0 is kept, i is step i (from 1), 255 was pruned in the file already.

        Raises:
            RecipeError: the checkpoint has no parameter of that name.
        """
        shape = self._info(name).shape
        out = np.empty(math.prod(shape), np.uint8)

        def fill(stretch: tuple[int, int]) -> None:
            out[slice(*stretch)] = self.pruned_by_within(name, *stretch)

        for _ in run(fill, chunks(out.size)):
            pass
        return torch.from_numpy(out).view(shape)

    def pruned_by_within(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Return `pruned_by` for the flat (row-major) entries [start, stop) alone."""
        return stack.pruned_by(self.layers.get(name, ()), start, stop)

    @property
    def total(self) -> tuple[int, int]:
        """(pruned entries, all entries) of every parameter that can be pruned."""
        return (
            sum(pruned for pruned, _ in self.counts.values()),
            sum(total for _, total in self.counts.values()),
        )

    def then(self, step: Step, monitor: Monitor) -> Resolution:
        """Return this resolution with one more step carried out.

        Raises:
            StepError: the step cannot be carried out.
            Cancelled: the monitor said so.
        """
        recipe = self.recipe.with_steps((*self.recipe.steps, step))
        number = len(recipe.steps)
        if not step.enabled:
            return replace(self, recipe=recipe, outcomes=(*self.outcomes, Outcome()))
        try:
            infos, notes = self._select(step)
            targets = [self._target(info) for info in infos]
            decisions = step.method.decide(targets, monitor)
        except RecipeError as error:
            raise StepError(number, str(error)) from error
        layers, counts, pruned = dict(self.layers), dict(self.counts), {}
        for target, decision in zip(targets, decisions, strict=True):
            before, total = counts[target.name]
            counts[target.name] = before + decision.pruned, total
            pruned[target.name] = decision.pruned
            layers[target.name] = (
                *layers.get(target.name, ()),
                *([Layer(number, decision.predicate)] if decision.predicate else []),
            )
            if decision.note:
                notes[target.name] = decision.note
        outcomes = (*self.outcomes, Outcome(pruned, notes))
        return replace(self, recipe=recipe, layers=layers, counts=counts, outcomes=outcomes)

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.checkpoint.tensors[name]
        except KeyError:
            raise RecipeError(f"{self.checkpoint.path} has no parameter named {name}.") from None

    def _select(self, step: Step) -> tuple[list[TensorInfo], dict[str, str]]:
        """Return the parameters a step is for, and notes on patterns that match nothing."""
        every = self.checkpoint.tensors.values()
        matching = select(step.targets, every)
        chosen = [info for info in matching if not info.not_prunable]
        if not chosen:
            reason = (
                f"{matching[0].name} cannot be pruned: {matching[0].not_prunable}"
                if matching
                else f"no parameter matches {', '.join(step.targets)}"
            )
            raise RecipeError(f"{reason}. Change the targets of the step.")
        idle = [p for p in step.targets if not (p.startswith("!") or select([p], every))]
        return chosen, dict.fromkeys(idle, "matches no parameter")

    def _target(self, info: TensorInfo) -> Target:
        pruned, total = self.counts[info.name]
        return Target(
            name=info.name,
            shape=info.shape,
            remaining=total - pruned,
            read=partial(self.checkpoint.read, info.name),
            read_from=lambda path, what: self._companions.reader(self.recipe, path, info, what),
            alive=stack.alive(self.layers.get(info.name, ())),
        )


def begin(recipe: Recipe, checkpoint: Checkpoint, monitor: Monitor) -> Resolution:
    """Return the resolution of `recipe` before its first step: what the file says is pruned.

    That is the masks of reparametrized pairs and, if the recipe starts from ``zeros``, every zero.

    Raises:
        Cancelled: the monitor said so.
    """
    layers: dict[str, tuple[Layer, ...]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for info in checkpoint.tensors.values():
        if info.not_prunable:
            continue
        predicates = _pruned_in_file(info, checkpoint, zeros=recipe.start == "zeros")
        layers_here = tuple(Layer(IN_FILE, predicate) for predicate in predicates)
        pruned = 0
        if layers_here:
            layers[info.name] = layers_here
            monitor.expect(info.nbytes)
            for start, stop in chunks(info.numel):
                pruned += int(np.count_nonzero(stack.pruned_by(layers_here, start, stop)))
                monitor.advance((stop - start) * info.nbytes // info.numel)
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
        Cancelled: `cancel` was set.
    """
    monitor = Monitor(progress, cancel)
    resolution = begin(recipe, checkpoint, monitor)
    for step in recipe.steps:
        resolution = resolution.then(step, monitor)
    return resolution


def _pruned_in_file(info: TensorInfo, checkpoint: Checkpoint, *, zeros: bool) -> list[Predicate]:
    predicates: list[Predicate] = []
    if info.pair is not None:
        checkpoint.read_mask(info.name)  # once, for its check that every value is 0 or 1
        predicates.append(GivenMask(partial(checkpoint.read_key, info.pair[1])))
    if zeros:
        read = partial(checkpoint.read, info.name)
        keys = TensorKeys(read, info.numel, ranking_dtype({read().dtype}))
        everything_below_one = Cut(threshold=1, last_tie=-1, pruned=0)
        predicates.append(EntryCut(keys, everything_below_one))
    return predicates
