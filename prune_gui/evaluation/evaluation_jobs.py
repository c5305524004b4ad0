"""The jobs that run an evaluator for the window, and what they find and report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.engine import Job
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation.portfolio import PORTFOLIO, NamedRanking
from prune_gui.evaluation.spec import FINAL, SEARCH
from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.amounts import Amount, with_amount

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.evaluation import Evaluation, Evaluator, SearchResult, Trial
    from prune_gui.evaluation.metrics import Metric
    from prune_gui.recipe.resolver import Resolver


@dataclass(frozen=True, slots=True)
class Begun:
    """A recipe is being evaluated."""

    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Dense:
    """The result to compare with: that of the unpruned file."""

    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Goal:
    """What a search looks for: exactly one of the first two is set."""

    amount: float | None = None  # the best recipe at this sparsity of the targets, in [0, 1]
    at_least: float | None = None  # the most sparsity that holds this share of the dense value
    trials: int = 0

    def limit(self, dense: Evaluation, metric: Metric) -> float:
        """Return the value to hold; NaN if none is to be held."""
        value = metric.value(dense)
        if self.at_least is None:
            return math.nan
        return value * self.at_least if metric.higher_is_better(dense) else value / self.at_least


@dataclass(frozen=True, slots=True)
class SweptStep:
    """A step whose amount is tried with several values."""

    label: str
    step_at: Callable[[Amount], Step] = field(compare=False)
    replaces: int | None = None  # the index of a step of the recipe; None: it is appended
    alone: bool = False  # without the other steps of the recipe
    is_ranking: bool = False  # whether this is no step of the user

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
    details: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MetricCurve:
    """Points of a metric, by ascending sparsity."""

    label: str
    points: tuple[Any, ...]  # what was evaluated
    sparsity: NDArray[np.float64]  # (points,), in percent
    values: NDArray[np.float64]  # (points,), the metric; NaN where it is not defined

    @classmethod
    def of(cls, label: str, points: Iterable[tuple[float, float, object]]) -> MetricCurve:
        """Return the curve of points in any order: the sparsity in [0, 1], the value, the point."""
        found = sorted(points, key=lambda each: each[0])
        sparsity, values = np.array([each[:2] for each in found], np.float64).reshape(-1, 2).T
        return cls(label, tuple(point for *_, point in found), 100 * sparsity, values)


def of_step(label: str, step: Step, replaces: int | None, *, alone: bool = False) -> SweptStep:
    """Return a step of the user as a curve; it has an amount."""
    return SweptStep(label, partial(with_amount, step), replaces, alone)


def rankings(targets: Sequence[str], *, alone: bool) -> Iterator[SweptStep]:
    """Yield the rankings that need no data (see `PORTFOLIO`), for some targets."""

    def step_at(ranking: NamedRanking, amount: Amount) -> Step:
        from prune_gui.evaluation.trials import step_of  # slow to import

        return step_of(ranking.step(targets, float(amount)))

    for ranking in PORTFOLIO:
        yield SweptStep(ranking.name, partial(step_at, ranking), alone=alone, is_ranking=True)


def metric_curves(points: Sequence[CurvePoint], metric: Metric) -> list[MetricCurve]:
    """Return a curve for each step, in the order in which they first occur."""
    own: dict[SweptStep, list[CurvePoint]] = {}
    for point in points:
        own.setdefault(point.swept, []).append(point)
    return [trial_curve(swept.label, found, metric) for swept, found in own.items()]


def trial_curve(label: str, trials: Sequence[CurvePoint | Trial], metric: Metric) -> MetricCurve:
    """Return the curve of the trials that did not fail."""
    found = ((each.evaluation, each) for each in trials)
    return MetricCurve.of(
        label,
        ((one.sparsity, metric.value(one), each) for one, each in found if one is not None),
    )


@dataclass(frozen=True, slots=True)
class SensitivityRow:
    """What pruning one parameter or group costs, at each amount."""

    label: str
    values: tuple[float, ...]  # the metric; NaN where it failed or is not known yet
    drops: tuple[float, ...]  # how much worse than the dense value that is; negative if better
    trials: tuple[Trial | None, ...]  # None: not known yet

    @property
    def largest_drop(self) -> float:
        """The largest finite drop; 0.0 if nothing is worse."""
        return max((*filter(math.isfinite, self.drops), 0.0))


def sensitivity_rows(
    groups: Mapping[str, Sequence[str]],
    amounts: Sequence[float],
    trials: Sequence[Trial],
    start: Evaluation,
    metric: Metric,
) -> list[SensitivityRow]:
    """Return a row for each group of a scan, in its order; `start` is without its step."""
    found = {(trial.label, trial.amount): trial for trial in trials}
    before = metric.value(start)
    sign = 1 if metric.higher_is_better(start) else -1
    rows = []
    for label in groups:
        own = tuple(found.get((label, amount)) for amount in amounts)
        values = tuple(metric.value(each.evaluation) if each else math.nan for each in own)
        rows.append(
            SensitivityRow(
                label,
                values,
                tuple(sign * (before - value) for value in values),
                own,
            )
        )
    return rows


def sensitivity_curve(row: SensitivityRow) -> MetricCurve:
    """Return the metric by the amount."""
    pairs = zip(row.values, row.trials, strict=True)
    found = ((each.amount, value, each) for value, each in pairs if each and each.evaluation)
    return MetricCurve.of(row.label, found)


def pareto_front(curve: MetricCurve, *, higher_is_better: bool) -> NDArray[np.intp]:
    """Return the indices of points for which no other is better and at least as sparse."""
    values = curve.values if higher_is_better else -curve.values
    values = np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    order = np.lexsort((values, curve.sparsity))
    best_from = np.maximum.accumulate(np.append(values[order], -np.inf)[::-1])[::-1]
    return order[values[order] > best_from[1:]]


StateKind = Literal["file", "stack", "draft", "named"]
FILE: Final = deferred("File")
STACK: Final = deferred("Stack")


@dataclass(frozen=True, slots=True)
class EvaluatedRecipe:
    """How the evaluation of a recipe ended."""

    recipe: Recipe
    evaluation: Evaluation | None = None
    error: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state, and what is known of its worth: the outcome of it, or of an earlier stack."""

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

    def rows(
        self, stack: Recipe, named: Mapping[str, Recipe], draft: Recipe | None = None
    ) -> tuple[StateRow, ...]:
        """Return a row for the file, for the stack, for the draft, and for each named state."""
        states: list[tuple[StateKind, str, Recipe]] = [("file", "", Recipe()), ("stack", "", stack)]
        states += [("draft", "", draft)] if draft is not None else []
        states += [("named", name, recipe) for name, recipe in named.items()]
        rows = []
        for kind, name, recipe in states:
            outcome = self.get(recipe)
            if kind == "stack":
                self._last_of_stack = outcome = outcome or self._last_of_stack
            rows.append(StateRow(kind, name, recipe, outcome, recipe == self.running))
        return tuple(rows)


def states_job(evaluator: Evaluator, resolver: Resolver, recipes: Sequence[Recipe]) -> Job:
    """Evaluate recipes; reports `Begun` before and an `EvaluatedRecipe` after each."""

    def work(monitor: Monitor) -> None:
        own_resolver = resolver.copy()
        monitor.expect(len(recipes))
        for recipe in recipes:
            monitor.report(Begun(recipe))
            monitor.report(_outcome(evaluator, own_resolver, recipe, FINAL, monitor))
            monitor.advance(1)

    return Job(deferred("Evaluating"), work, evaluates=True)


def stored_job(reader: Evaluator, checkpoint: Checkpoint, recipes: Sequence[Recipe]) -> Job:
    """Look for stored results of recipes, a list of `EvaluatedRecipe`; `reader` is not run."""

    def work(monitor: Monitor) -> list[EvaluatedRecipe]:
        keys = [reader.key(checkpoint, recipe, FINAL, monitor) for recipe in recipes]
        pairs = zip(recipes, map(reader.database.get, keys), strict=True)
        return [EvaluatedRecipe(recipe, found) for recipe, found in pairs if found is not None]

    return Job(deferred("Looking for stored results"), work, lane="stored results", idle=True)


def metric_sweep_job(
    evaluator: Evaluator,
    resolver: Resolver,
    base: Recipe,
    steps: Sequence[SweptStep],
    amounts: Sequence[Amount],
) -> Job:
    """Evaluate a recipe with several steps and amounts; fails if the file cannot be evaluated.

    Reports `Dense`, then a `CurvePoint` for each amount of each step.
    """

    def work(monitor: Monitor) -> None:
        own_resolver = resolver.copy()
        monitor.expect(1 + len(steps) * len(amounts))
        dense = _outcome(evaluator, own_resolver, Recipe(), SEARCH, monitor)
        if dense.evaluation is None:
            raise EvaluationError(dense.error, details=dense.details)
        monitor.report(Dense(dense.evaluation))
        monitor.advance(1)
        for amount in amounts:
            for step in steps:
                try:
                    recipe = step.recipe_at(amount, base)
                except RecipeError as error:
                    point = CurvePoint(step, amount, None, None, error.brief, error.details)
                else:
                    found = _outcome(evaluator, own_resolver, recipe, SEARCH, monitor)
                    outcome = found.evaluation, found.error, found.details
                    point = CurvePoint(step, amount, recipe, *outcome)
                monitor.report(point)
                monitor.advance(1)

    return Job(deferred("Evaluating the curves"), work, evaluates=True)


def scan_job(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    base: Recipe,
    groups: Mapping[str, Sequence[str]],
    amounts: Sequence[float],
    metric: Metric,
) -> Job:
    """Prune one group of patterns at a time after a recipe.

    Reports `Dense`, then an `EvaluatedRecipe` of the recipe alone, then each `Trial`.
    """

    def work(monitor: Monitor) -> None:
        from prune_gui.evaluation.trials import Trials, scan_trials  # slow to import

        monitor.expect(1 + len(groups) * len(amounts))
        monitor.report(Dense(_choose_metric(evaluator, checkpoint, metric, monitor)))
        trials = Trials(evaluator, checkpoint, base, monitor, monitor.report)
        monitor.report(EvaluatedRecipe(base, trials.dense))
        monitor.advance(1)
        for trial in scan_trials(trials, groups, amounts, "l1_unstructured"):
            monitor.report(trial)
            monitor.advance(1)

    return Job(deferred("Scanning the sensitivity"), work, evaluates=True)


def search_job(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    base: Recipe,
    targets: Sequence[str],
    goal: Goal,
    metric: Metric,
) -> Job:
    """Search for a step after a recipe, a `SearchResult`; reports as `scan_job` does.

    The share of the goal is that of the value of the unpruned file.
    """

    def work(monitor: Monitor) -> SearchResult:
        from prune_gui.evaluation.search import Search  # slow to import

        dense = _choose_metric(evaluator, checkpoint, metric, monitor)
        monitor.report(Dense(dense))
        search = Search(
            evaluator, checkpoint, targets=targets, recipe=base, trials=goal.trials,
            cancel=monitor, show=monitor.report, show_trial=monitor.report,
        )  # fmt: skip
        monitor.report(EvaluatedRecipe(base, search.dense))
        if goal.at_least is None or not base.steps:
            return search.run(goal.at_least, goal.amount)
        return search.run(goal.limit(dense, metric), None, absolute=True)

    return Job(deferred("Searching for a recipe"), work, evaluates=True)


def close_job(evaluator: Evaluator) -> Job:
    """End the process of an evaluator that is no longer used."""
    return Job(deferred("Ending the evaluator"), lambda _: evaluator.close(), evaluates=True)


def _choose_metric(
    evaluator: Evaluator, checkpoint: Checkpoint, metric: Metric, monitor: Monitor
) -> Evaluation:
    """Evaluate the unpruned file, and make the evaluator use a metric; return the result."""
    dense = evaluator.evaluate(checkpoint, split=SEARCH, cancel=monitor, show=monitor.report)
    evaluator.metric = metric.name_in(dense)
    return dense


def _outcome(
    evaluator: Evaluator, resolver: Resolver, recipe: Recipe, split: str, monitor: Monitor
) -> EvaluatedRecipe:
    """Evaluate a recipe; an error of the evaluator or of a step is stored in the outcome."""
    # the progress counts evaluations, not bytes
    steps = Monitor(None, monitor, monitor.report)
    try:
        evaluation = evaluator.evaluate_lazily(
            resolver.checkpoint, recipe, lambda: resolver.resolve(recipe, steps), split, steps
        )
    except (EvaluationError, RecipeError) as error:
        return EvaluatedRecipe(recipe, None, error.brief, error.details)
    return EvaluatedRecipe(recipe, evaluation)
