"""Evaluating several steps after the same base recipe: one trial each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation.cache import Evaluation
from prune_gui.evaluation.evaluator import SEARCH, Evaluator
from prune_gui.evaluation.process import ShowStatus
from prune_gui.language import tr
from prune_gui.monitor import CancelFlag, Monitor
from prune_gui.recipe.recipe import Recipe, Step

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution


@dataclass(frozen=True, slots=True)
class Trial:
    """Steps after a base recipe, evaluated.

    Attributes:
        label: what was tried: the name of a ranking, or of what was pruned.
        amount: the sparsity of the targets, in [0, 1].
        steps: the steps after the base recipe.
        evaluation: the result; None if it failed.
        value: the number that counts; NaN if it failed.
        error: why it failed, or "".
    """

    label: str
    amount: float
    steps: tuple[Step, ...]
    evaluation: Evaluation | None
    value: float
    error: str = ""


ShowTrial = Callable[[Trial], None]


class Trials:
    """Evaluates steps after a base recipe, which is resolved once.

    Args:
        evaluator: the evaluator.
        checkpoint: the open checkpoint.
        base: the steps before the one to try.
        cancel: for example a `threading.Event`.
        show: called about twice a second with time and memory.

    Attributes:
        base: see above.
        dense: the result of the base recipe by itself, on the split "search".
        value: its number that counts.
        higher_is_better: whether higher values are better.

    Raises:
        EvaluationError: the base recipe cannot be evaluated, or no single number counts.
    """

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
        self._monitor = Monitor(None, cancel)
        self._show = show
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
            return Trial(label, amount, steps, None, math.nan, str(error))

    def evaluate(self, steps: tuple[Step, ...], split: str) -> Evaluation:
        """Evaluate the base recipe with further steps; see `Evaluator.evaluate`."""
        return self._evaluator.evaluate_lazily(
            self._checkpoint, self.recipe_with(steps), partial(self.resolve, steps), split,
            self._monitor, self._show,
        )  # fmt: skip

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
        """Return the resolution of the base recipe with further steps.

        Raises:
            RecipeError: a step cannot be applied.
            CheckpointError: the checkpoint cannot be read.
        """
        from prune_gui.recipe.resolution import initial_resolution  # torch: slow to import

        if self._resolution is None:
            resolution = initial_resolution(self.base, self._checkpoint, self._monitor)
            for each in self.base.steps:
                resolution = resolution.with_step(each, self._monitor)
            self._resolution = resolution
        resolution = self._resolution
        for each in steps:
            resolution = resolution.with_step(each, self._monitor)
        return resolution


def step_of(fields: Mapping[str, object]) -> Step:
    """Return the step with these fields, as in a recipe file.

    Raises:
        RecipeError: a field is not valid.
    """
    [step] = Recipe.validated({"steps": [fields]}, tr("The step"), None).steps
    return step
