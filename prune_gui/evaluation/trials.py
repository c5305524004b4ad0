"""Evaluating several steps after the same base recipe: one trial each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation.cache import Evaluation
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.spec import SEARCH
from prune_gui.isolated.watching import ShowStatus
from prune_gui.language import suggestion, tr
from prune_gui.monitor import CancelFlag, Monitor, Report
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe.patterns import patterns_for
from prune_gui.recipe.recipe import Recipe, Step
from prune_gui.recipe.selector import protected_in, select_in

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution


@dataclass(frozen=True, slots=True)
class Trial:
    """Steps after a base recipe, evaluated."""

    label: str  # what was tried: the name of a ranking, or of what was pruned
    amount: float  # the sparsity of the targets, in [0, 1]
    steps: tuple[Step, ...]  # after the base recipe
    evaluation: Evaluation | None
    value: float
    error: str = ""
    details: str = ""


ShowTrial = Callable[[Trial], None]


class Trials:
    """Evaluates steps after a base recipe, which is resolved once."""

    def __init__(
        self,
        evaluator: Evaluator,
        checkpoint: Checkpoint,
        base: Recipe,
        cancel: CancelFlag | None,
        show: ShowStatus | None,
    ) -> None:
        self._evaluator = evaluator
        self._checkpoint = checkpoint
        self._monitor = Monitor(None, cancel, cast("Report | None", show))
        self._resolution: Resolution | None = None
        self.base = base
        self.dense = self.evaluate((), SEARCH)
        self.value = evaluator.value(self.dense)
        self.higher_is_better = evaluator.higher_is_better(self.dense)

    def try_steps(self, label: str, amount: float, *fields: Mapping[str, object]) -> Trial:
        """Evaluate steps, given as in a recipe file; an error is stored in the trial."""
        steps = tuple(map(step_of, fields))
        try:
            evaluation = self.evaluate(steps, SEARCH)
            return Trial(label, amount, steps, evaluation, self._evaluator.value(evaluation))
        except (EvaluationError, RecipeError) as error:
            return Trial(label, amount, steps, None, math.nan, error.brief, error.details)

    def evaluate(self, steps: tuple[Step, ...], split: str) -> Evaluation:
        """Evaluate the base recipe with further steps; see `Evaluator.evaluate`."""
        recipe, resolve = self.recipe_with(steps), partial(self.resolve, steps)
        return self._evaluator.evaluate_lazily(
            self._checkpoint, recipe, resolve, split, self._monitor
        )

    def key(self, steps: tuple[Step, ...]) -> str:
        """Return the key of the stored result of further steps; see `Evaluator.key`."""
        return self._evaluator.key(self._checkpoint, self.recipe_with(steps), SEARCH, self._monitor)

    def recipe_with(self, steps: tuple[Step, ...]) -> Recipe:
        """Return the base recipe with further steps."""
        return self.base.with_steps((*self.base.steps, *steps))

    def is_better(self, one: float, other: float) -> bool:
        """Return whether a value is better than another; any number is better than NaN."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one > other if self.higher_is_better else one < other

    def resolve(self, steps: tuple[Step, ...]) -> Resolution:
        """Return the resolution of the base recipe with further steps."""
        from prune_gui.recipe.resolution import resolved  # torch: slow to import

        if self._resolution is None:
            self._resolution = resolved(self.base, self._checkpoint, self._monitor)
        resolution = self._resolution
        for each in steps:
            resolution = resolution.with_step(each, self._monitor)
        return resolution


def step_of(fields: Mapping[str, object]) -> Step:
    """Return the step with these fields, as in a recipe file."""
    [step] = Recipe.validated({"steps": [fields]}, tr("The step"), None).steps
    return step


TARGETS: Final = ("!dims<2",)
"""What is pruned by default: all weights but biases and norms."""
AMOUNTS: Final = (0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan."""

    dense: Evaluation
    trials: tuple[Trial, ...]


def scan(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    amounts: Sequence[float] = AMOUNTS,
    *,
    targets: Sequence[str] = TARGETS,
    depth: int | None = None,
    method: str = "l1_unstructured",
    recipe: Recipe | None = None,
    cancel: CancelFlag | None = None,
    show: ShowStatus | None = None,
) -> Scan:
    """Prune one target at a time by several amounts, and evaluate each.

    An evaluation that fails is a trial with an error.

    Args:
        evaluator: the evaluator.
        checkpoint: the open checkpoint.
        amounts: shares of each target, in [0, 1].
        targets: patterns of the parameters, see `select`.
        depth: parameters with the same first parts of the name, this many, are pruned together;
            None: each by itself.
        method: name of the pruning method.
        recipe: steps to apply before.
        cancel: for example a `threading.Event`.
        show: called about twice a second with time and memory.

    Raises:
        EvaluationError: the checkpoint cannot be evaluated without the step, or no single number
            counts.
        RecipeError: the targets match nothing, the method does not exist, or has no amount.
        CheckpointError: the checkpoint cannot be read, or handed over.
    """
    check_method(method)
    base = recipe or Recipe()
    groups = groups_of(checkpoint, targets, depth, base.protect)
    trials = Trials(evaluator, checkpoint, base, cancel, show)
    return Scan(trials.dense, tuple(scan_trials(trials, groups, amounts, method)))


def scan_trials(
    trials: Trials, groups: Mapping[str, Sequence[str]], amounts: Sequence[float], method: str
) -> Iterator[Trial]:
    """Make the trials of a scan one by one; see `scan`."""
    for label, patterns in groups.items():
        for amount in amounts:
            fields = {"method": method, "targets": list(patterns), "amount": float(amount)}
            yield trials.try_steps(label, amount, fields)


def check_method(method: str) -> None:
    """Check that a method exists and has an amount."""
    names = [name for name, each in METHODS.items() if "amount" in each.model_fields]
    if method not in names:
        raise RecipeError(
            "{method} is no method with an amount.", method=method + suggestion(method, names)
        )


def groups_of(
    checkpoint: Checkpoint, targets: Sequence[str], depth: int | None, protect: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the patterns of each group by its label, in the order of the file; see `scan`.

    Parameters that the patterns `protect` match are left out.
    """
    tensors, kept = checkpoint.tensors.values(), protected_in(checkpoint, protect)
    chosen = (info for info in select_in(checkpoint, targets) if not info.not_prunable)
    prunable = (info.name for info in chosen if info.name not in kept)
    names = names_by_group(prunable, depth)
    if not names:
        raise RecipeError(
            "{patterns} match no parameter that can be pruned.", patterns=", ".join(targets)
        )
    return {label: patterns_for(members, tensors) for label, members in names.items()}


def names_by_group(names: Iterable[str], depth: int | None) -> dict[str, list[str]]:
    """Return parameters by the first `depth` parts of their names, all parts if it is None."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(".".join(name.split(".")[:depth]), []).append(name)
    return groups
