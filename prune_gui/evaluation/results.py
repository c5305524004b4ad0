"""What evaluations find, for the window: states of the document, curves, and sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.evaluation.portfolio import PORTFOLIO, NamedRanking
from prune_gui.language import deferred
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.amounts import Amount, with_amount

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Trial
    from prune_gui.evaluation.metrics import Metric


@dataclass(frozen=True, slots=True)
class SweptStep:
    """A step whose amount is tried with several values.

    Attributes:
        replaces: index of the step of the recipe that it replaces; None if it is appended.
        alone: whether it is tried without the other steps of the recipe.
    """

    label: str
    step_at: Callable[[Amount], Step] = field(compare=False)
    replaces: int | None = None
    alone: bool = False

    def recipe_at(self, amount: Amount, base: Recipe) -> Recipe:
        """Return a recipe in which this step has an amount."""
        step = self.step_at(amount)
        if self.alone:
            return base.with_steps((step,))
        if self.replaces is None:
            return base.with_steps((*base.steps, step))
        steps = list(base.steps)
        steps[self.replaces] = step
        return base.with_steps(tuple(steps))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One amount of one step, evaluated."""

    swept: SweptStep
    amount: Amount
    recipe: Recipe | None
    evaluation: Evaluation | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MetricCurve:
    """The points of one step, by ascending sparsity.

    Attributes:
        sparsity: float64 (points,), of all prunable parameters, in percent.
        values: float64 (points,), the metric; NaN where it is not defined.
    """

    label: str
    points: tuple[CurvePoint, ...]
    sparsity: NDArray[np.float64]
    values: NDArray[np.float64]


def of_step(label: str, step: Step, replaces: int | None) -> SweptStep:
    """Return a step of the user as a curve; it has an amount."""
    return SweptStep(label, partial(with_amount, step), replaces)


def rankings(targets: Sequence[str], *, alone: bool) -> Iterator[SweptStep]:
    """Yield the rankings that need no data (see `PORTFOLIO`), for some targets."""

    def step_at(ranking: NamedRanking, amount: Amount) -> Step:
        from prune_gui.evaluation.trials import step_of  # slow to import

        return step_of(ranking.step(targets, float(amount)))

    for ranking in PORTFOLIO:
        yield SweptStep(ranking.name, partial(step_at, ranking), alone=alone)


def metric_curves(points: Sequence[CurvePoint], metric: Metric) -> list[MetricCurve]:
    """Return a curve for each step, in the order in which they first occur."""
    curves = []
    for swept in dict.fromkeys(point.swept for point in points):
        own = [point for point in points if point.swept == swept]
        found = [(each.evaluation.sparsity, each) for each in own if each.evaluation is not None]
        found.sort(key=lambda pair: pair[0])
        curves.append(
            MetricCurve(
                swept.label,
                tuple(point for _, point in found),
                100 * np.array([sparsity for sparsity, _ in found], np.float64),
                np.array([metric.value(point.evaluation) for _, point in found], np.float64),
            )
        )
    return curves


@dataclass(frozen=True, slots=True)
class SensitivityRow:
    """What pruning one parameter or group costs, at each amount.

    Attributes:
        values: the metric; NaN where it failed or is not known yet.
        drops: how much worse than the dense value that is; negative if better.
        errors: why an amount failed, or "".
    """

    label: str
    values: tuple[float, ...]
    drops: tuple[float, ...]
    errors: tuple[str, ...]


def sensitivity_rows(
    groups: Mapping[str, Sequence[str]],
    amounts: Sequence[float],
    trials: Sequence[Trial],
    dense: Evaluation,
    metric: Metric,
) -> list[SensitivityRow]:
    """Return a row for each group of a scan, in its order."""
    found = {(trial.label, trial.amount): trial for trial in trials}
    before = metric.value(dense)
    sign = 1 if metric.higher_is_better(dense) else -1
    rows = []
    for label in groups:
        own = [found.get((label, amount)) for amount in amounts]
        values = tuple(metric.value(each.evaluation) if each else math.nan for each in own)
        rows.append(
            SensitivityRow(
                label,
                values,
                tuple(sign * (before - value) for value in values),
                tuple(each.error if each else "" for each in own),
            )
        )
    return rows


def largest_drop(rows: Sequence[SensitivityRow]) -> float:
    """Return the largest finite drop; 0.0 if nothing is worse."""
    drops = (drop for row in rows for drop in row.drops if math.isfinite(drop))
    return max((*drops, 0.0))


StateKind = Literal["file", "stack", "named"]
FILE: Final = deferred("File")
STACK: Final = deferred("Stack")


@dataclass(frozen=True, slots=True)
class EvaluatedRecipe:
    """How the evaluation of a recipe ended."""

    recipe: Recipe
    evaluation: Evaluation | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state, and what is known of its worth.

    The outcome is that of this recipe, or of an earlier one of the stack; None if there is none.
    """

    kind: StateKind
    name: str
    recipe: Recipe
    outcome: EvaluatedRecipe | None = None
    running: bool = False

    @property
    def stale(self) -> bool:
        """Whether the outcome is that of an earlier stack."""
        return self.outcome is not None and self.outcome.recipe != self.recipe

    @property
    def evaluation(self) -> Evaluation | None:
        """The result; None if there is none."""
        return self.outcome.evaluation if self.outcome is not None else None


class StateResults:
    """The outcomes of recipes that are known for one checkpoint and one evaluator."""

    def __init__(self) -> None:
        self._known: list[EvaluatedRecipe] = []
        self._last_of_stack: EvaluatedRecipe | None = None
        self.running: Recipe | None = None

    def put(self, outcome: EvaluatedRecipe) -> None:
        """Add an outcome, in place of an earlier one of the same recipe."""
        self._known = [each for each in self._known if each.recipe != outcome.recipe]
        self._known.append(outcome)

    def get(self, recipe: Recipe) -> EvaluatedRecipe | None:
        """Return the outcome of a recipe; None if there is none."""
        return next((each for each in self._known if each.recipe == recipe), None)

    def rows(self, stack: Recipe, named: Mapping[str, Recipe]) -> tuple[StateRow, ...]:
        """Return a row for the file, for the stack, and for each named state."""
        states: list[tuple[StateKind, str, Recipe]] = [("file", "", Recipe()), ("stack", "", stack)]
        states += [("named", name, recipe) for name, recipe in named.items()]
        rows = []
        for kind, name, recipe in states:
            outcome = self.get(recipe)
            if kind == "stack":
                self._last_of_stack = outcome = outcome or self._last_of_stack
            rows.append(StateRow(kind, name, recipe, outcome, recipe == self.running))
        return tuple(rows)
