"""The jobs that run an evaluator; each reports what it finds, and a `Status` twice a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_gui.engine import Job
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation.results import CurvePoint, EvaluatedRecipe, SweptStep
from prune_gui.evaluation.spec import FINAL, SEARCH
from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.evaluation import Evaluation, Evaluator, SearchResult
    from prune_gui.evaluation.metrics import Metric
    from prune_gui.recipe.amounts import Amount
    from prune_gui.recipe.resolver import Resolver


@dataclass(frozen=True, slots=True)
class Begun:
    """A recipe is being evaluated."""

    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Dense:
    """The result to compare with: of the file, or of the recipe before the step that is tried."""

    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Goal:
    """What a search looks for: exactly one of the first two is set.

    Attributes:
        amount: the best recipe at this sparsity of the targets, in [0, 1].
        at_least: the most sparsity that holds this share of the dense value.
    """

    amount: float | None = None
    at_least: float | None = None
    trials: int = 0


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
    """Look for stored results of recipes; the result is a list of `EvaluatedRecipe`.

    Only this job uses the evaluator `reader`, which is not run.
    """

    def work(monitor: Monitor) -> list[EvaluatedRecipe]:
        pairs = [(one, reader.stored(checkpoint, one, FINAL, monitor)) for one in recipes]
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
            raise EvaluationError(dense.error)
        monitor.report(Dense(dense.evaluation))
        monitor.advance(1)
        for amount in amounts:
            for step in steps:
                try:
                    recipe = step.recipe_at(amount, base)
                except RecipeError as error:
                    point = CurvePoint(step, amount, None, error=str(error))
                else:
                    found = _outcome(evaluator, own_resolver, recipe, SEARCH, monitor)
                    point = CurvePoint(step, amount, recipe, found.evaluation, found.error)
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
    """Prune one group at a time after a recipe; reports `Dense`, then each `Trial`.

    `groups` are the patterns of each group by its label, see `groups_of`.
    """

    def work(monitor: Monitor) -> None:
        from prune_gui.evaluation.trials import Trials, scan_trials  # slow to import

        monitor.expect(1 + len(groups) * len(amounts))
        monitor.report(Dense(_choose_metric(evaluator, checkpoint, base, metric, monitor)))
        trials = Trials(evaluator, checkpoint, base, monitor, monitor.report)
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
    """Search for a step after a recipe; reports `Dense`, then each `Trial`.

    The result is a `SearchResult`. `targets` are patterns of the parameters to prune.
    """

    def work(monitor: Monitor) -> SearchResult:
        from prune_gui.evaluation.search import Search  # slow to import

        monitor.report(Dense(_choose_metric(evaluator, checkpoint, base, metric, monitor)))
        search = Search(
            evaluator, checkpoint, targets=targets, recipe=base, trials=goal.trials,
            cancel=monitor, show=monitor.report, show_trial=monitor.report,
        )  # fmt: skip
        return search.run(goal.at_least, goal.amount)

    return Job(deferred("Searching for a recipe"), work, evaluates=True)


def close_job(evaluator: Evaluator) -> Job:
    """End the process of an evaluator that is no longer used."""
    return Job(deferred("Ending the evaluator"), lambda _: evaluator.close(), evaluates=True)


def _choose_metric(
    evaluator: Evaluator, checkpoint: Checkpoint, base: Recipe, metric: Metric, monitor: Monitor
) -> Evaluation:
    """Evaluate the base recipe, and make the evaluator use a metric; return the result."""
    dense = evaluator.evaluate(checkpoint, base, split=SEARCH, cancel=monitor, show=monitor.report)
    evaluator.metric = metric.name_in(dense)
    return dense


def _outcome(
    evaluator: Evaluator, resolver: Resolver, recipe: Recipe, split: str, monitor: Monitor
) -> EvaluatedRecipe:
    """Evaluate a recipe; an error of the evaluator or of a step is stored in the outcome."""
    steps = Monitor(None, monitor)  # the progress counts evaluations, not bytes
    try:
        evaluation = evaluator.evaluate_lazily(
            resolver.checkpoint, recipe, lambda: resolver.resolve(recipe, steps),
            split, steps, monitor.report,
        )  # fmt: skip
    except (EvaluationError, RecipeError) as error:
        return EvaluatedRecipe(recipe, None, str(error))
    return EvaluatedRecipe(recipe, evaluation)
