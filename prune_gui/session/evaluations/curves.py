"""Curves of a metric: the steps to try with several amounts, and the points that are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.evaluation.portfolio import PORTFOLIO, Ranking
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.amounts import Amount, with_amount

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation
    from prune_gui.session.evaluations.metric import Metric


@dataclass(frozen=True, slots=True)
class SweptStep:
    """A step whose amount is tried with several values.

    Attributes:
        label: how its curve is called.
        step_at: returns the step with an amount.
        replaces: index of the step of the recipe that it replaces; None if it is appended.
        alone: whether it is tried without the other steps of the recipe.
    """

    label: str
    step_at: Callable[[Amount], Step] = field(compare=False)
    replaces: int | None = None
    alone: bool = False

    def recipe_at(self, amount: Amount, base: Recipe) -> Recipe:
        """Return a recipe in which this step has an amount.

        Raises:
            RecipeError: the step does not accept the amount.
        """
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
    """One amount of one step, evaluated.

    Attributes:
        swept: the step.
        amount: its amount.
        recipe: the recipe with that amount.
        evaluation: the result; None if it failed.
        error: why it failed, or "".
    """

    swept: SweptStep
    amount: Amount
    recipe: Recipe | None
    evaluation: Evaluation | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MetricCurve:
    """The points of one step, by ascending sparsity.

    Attributes:
        label: how it is called.
        points: the evaluated points.
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
    for ranking in PORTFOLIO:
        yield SweptStep(ranking.name, partial(_ranked, ranking, tuple(targets)), alone=alone)


def _ranked(ranking: Ranking, targets: Sequence[str], amount: Amount) -> Step:
    from prune_gui.evaluation.trials import step_of  # slow to import

    return step_of(ranking.step(targets, float(amount)))


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
