"""The search for a recipe: the most sparsity that holds a value, or the best at a sparsity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import EvaluationError
from prune_gui.evaluation.cache import Evaluation
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.metrics import number_text
from prune_gui.evaluation.portfolio import NamedRanking, corrections_of, portfolio_of
from prune_gui.evaluation.spec import FINAL
from prune_gui.evaluation.trials import TARGETS, ShowTrial, Trial, Trials
from prune_gui.evaluation.tuning import Tuning, require_optuna
from prune_gui.isolated.watching import ShowStatus
from prune_gui.language import tr
from prune_gui.monitor import CancelFlag
from prune_gui.recipe.recipe import Recipe

STEPS: Final = 100
"""Amounts are whole multiples of 1 / STEPS."""
FINALISTS: Final = 2
"""Rankings that are kept after the first amount at which none holds, or that are corrected."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    recipe: Recipe | None  # an ordinary recipe; None if none holds the limit
    best: Trial | None
    trials: tuple[Trial, ...]
    dense: Evaluation  # without the searched step, on the split "search"
    limit: float | None
    final: Evaluation | None  # on the split "final"; that of `best` without splits
    final_dense: Evaluation


class Search:
    """A search, whose state can be read at any time; see `search` for the arguments."""

    def __init__(
        self,
        evaluator: Evaluator,
        checkpoint: Checkpoint,
        *,
        targets: Sequence[str] = TARGETS,
        recipe: Recipe | None = None,
        portfolio: Sequence[NamedRanking] | None = None,
        trials: int = 0,
        storage: Path | None = None,
        cancel: CancelFlag | None = None,
        show: ShowStatus | None = None,
        show_trial: ShowTrial | None = None,
    ) -> None:
        if trials:
            require_optuna()
        self._evaluator = evaluator
        self._targets = tuple(targets)
        self._corrections: Sequence[Mapping[str, object]] = ()
        if portfolio is None:
            portfolio, self._corrections = portfolio_of(checkpoint), corrections_of(checkpoint)
        self._portfolio = tuple(portfolio)
        self._tried: dict[str, NamedRanking] = {}
        self._show_trial = show_trial
        self._run = Trials(evaluator, checkpoint, recipe or Recipe(), cancel, show)
        self._tuning = Tuning(self._run, evaluator, self._targets, storage)
        self._count = trials
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.limit: float | None = None

    def run(
        self, at_least: float | None, amount: float | None, *, absolute: bool = False
    ) -> SearchResult:
        """Search at an amount or for a value, and return the result; exactly one is given."""
        if (at_least is None) == (amount is None):
            raise ValueError("give either at_least or amount")
        if amount is not None:
            self.at_amount(amount)
        elif at_least is not None:
            self.at_least(at_least, absolute=absolute)
        return self.result()

    def at_amount(self, amount: float) -> None:
        """Find the ranking with the best value at a sparsity of the targets, in [0, 1].

        With recordings for corrections, the best rankings are also tried with them.
        """
        tried = [(ranking, self._try_for_best(ranking, amount)) for ranking in self._portfolio]
        if self._corrections:
            for ranking in self._finalists(tried):
                self._try_for_best(ranking.corrected(self._corrections), amount)
        if self.best is None:
            raise EvaluationError(self.trials[0].error or tr("The value is not a number."))
        if self._count:
            for trial, _ in self._tuning.trials(self._best_ranking(), amount, self._count):
                self._record(trial)
                if self._run.is_better(trial.value, self.best.value):
                    self.best = trial

    def at_least(self, share: float, *, absolute: bool = False) -> None:
        """Find the highest sparsity of the targets at which a ranking holds a value.

        The amount is bisected. At each amount the rankings are tried, the best one first, until one
        holds. After the first amount at which none does, only the best ones there are kept. At the
        end the others are tried once more, just above the amount that was found. With recordings
        for corrections, all rankings are corrected.

        Args:
            share: the share of the dense value that is to be held; if lower values are better, the
                value may be at most the dense one divided by it.
            absolute: whether `share` is the value itself, not a share.
        """
        self.limit = self._limit(share, absolute=absolute)
        portfolio = list(self._portfolio)
        if self._corrections:
            portfolio = [ranking.corrected(self._corrections) for ranking in portfolio]
        low, rankings = self._bisect(0, portfolio)
        others = [ranking for ranking in portfolio if ranking not in rankings]
        while others and low + 1 < STEPS:  # dropped rankings get a last chance just above
            ranking = others.pop(0)
            if self._holds(self._try(ranking, (low + 1) / STEPS)):
                low, _ = self._bisect(low + 1, [ranking])
        if self._count:
            self._climb(low + 1)

    def _climb(self, level: int) -> None:
        """Make trials at a sparsity until one holds, and go on from it at the next sparsity."""
        ranking, left, first = self._best_ranking(), self._count, None
        while left and level < STEPS:
            with closing(self._tuning.trials(ranking, level / STEPS, left, first)) as made:
                for trial, numbers in made:
                    left -= 1
                    if self._holds(self._record(trial)):
                        level, first = level + 1, numbers
                        break

    def _best_ranking(self) -> NamedRanking:
        label = "" if self.best is None else self.best.label
        return self._tried.get(label, self._portfolio[0])

    def _bisect(self, low: int, rankings: list[NamedRanking]) -> tuple[int, list[NamedRanking]]:
        """Return the highest amount that holds, times STEPS, and the rankings that were kept."""
        high = STEPS
        while high - low > 1:
            middle = (low + high) // 2
            tried: list[tuple[NamedRanking, Trial]] = []
            for ranking in rankings:
                trial = self._try(ranking, middle / STEPS)
                tried.append((ranking, trial))
                if self._holds(trial):
                    low = middle
                    rankings = [ranking, *(each for each in rankings if each is not ranking)]
                    break
            else:
                high = middle
                rankings = self._finalists(tried)
        return low, rankings

    @property
    def dense(self) -> Evaluation:
        """The result without the searched step, on the split "search"."""
        return self._run.dense

    @property
    def best_recipe(self) -> Recipe | None:
        """The recipe of the best trial so far; None if there is none."""
        return None if self.best is None else self._run.recipe_with(self.best.steps)

    def result(self) -> SearchResult:
        """Return the result so far, with its figures on the split "final"."""
        final = None if self.best is None else self.best.evaluation
        final_dense = self.dense
        if self._evaluator.spec.takes_split:
            final_dense = self._run.evaluate((), FINAL)
            if self.best is not None:
                final = self._run.evaluate(self.best.steps, FINAL)
        return SearchResult(
            self.best_recipe,
            self.best,
            tuple(self.trials),
            self.dense,
            self.limit,
            final,
            final_dense,
        )

    def _try(self, ranking: NamedRanking, amount: float) -> Trial:
        self._tried[ranking.name] = ranking
        steps = ranking.steps(self._targets, amount)
        return self._record(self._run.try_steps(ranking.name, amount, *steps))

    def _try_for_best(self, ranking: NamedRanking, amount: float) -> Trial:
        trial = self._try(ranking, amount)
        if self._run.is_better(trial.value, math.nan if self.best is None else self.best.value):
            self.best = trial
        return trial

    def _record(self, trial: Trial) -> Trial:
        self.trials.append(trial)
        if self._show_trial is not None:
            self._show_trial(trial)
        return trial

    def _finalists(self, tried: Sequence[tuple[NamedRanking, Trial]]) -> list[NamedRanking]:
        """Return the rankings with the best values, best first; of equal ones, the first."""
        sign = -1 if self._run.higher_is_better else 1

        def place(pair: tuple[NamedRanking, Trial]) -> float:
            value = pair[1].value
            return math.inf if math.isnan(value) else sign * value

        return [ranking for ranking, _ in sorted(tried, key=place)[:FINALISTS]]

    def _holds(self, trial: Trial) -> bool:
        """Return whether a trial holds the limit; if so, it is the best one so far."""
        assert self.limit is not None
        holds = trial.value == self.limit or self._run.is_better(trial.value, self.limit)
        if holds:
            self.best = trial
        return holds

    def _limit(self, share: float, *, absolute: bool) -> float:
        dense = self._run.value
        if absolute:
            limit = share
        elif dense > 0 and math.isfinite(dense) and share > 0:
            limit = dense * share if self._run.higher_is_better else dense / share
        else:
            raise EvaluationError(
                "The dense checkpoint has the value {value}, of which a share has no meaning. "
                "Give the value to hold itself (--absolute).",
                value=number_text(dense),
            )
        if dense != limit and not self._run.is_better(dense, limit):
            raise EvaluationError(
                "The value is {value} before the search prunes anything, which does not hold "
                "{limit}. Ask for less, or start with less pruned.",
                value=number_text(dense),
                limit=number_text(limit),
            )
        return limit


def search(
    evaluator: Evaluator,
    checkpoint: Checkpoint,
    *,
    at_least: float | None = None,
    absolute: bool = False,
    amount: float | None = None,
    targets: Sequence[str] = TARGETS,
    recipe: Recipe | None = None,
    portfolio: Sequence[NamedRanking] | None = None,
    trials: int = 0,
    storage: Path | None = None,
    cancel: CancelFlag | None = None,
    show: ShowStatus | None = None,
    show_trial: ShowTrial | None = None,
) -> SearchResult:
    """Search for a recipe: give either `at_least` or `amount`.

    Args:
        evaluator: the evaluator.
        checkpoint: the open checkpoint.
        at_least: find the most sparsity that holds this share of the dense value; see
            `Search.at_least`.
        absolute: whether `at_least` is the value itself.
        amount: find the best ranking at this sparsity of the targets; see `Search.at_amount`.
        targets: patterns of the parameters to prune, see `select`.
        recipe: steps to apply before.
        portfolio: the rankings to compare; None: those of `portfolio_of`, with the corrections for
            which there are recordings beside the checkpoint.
        trials: how many trials to make around the best ranking, with those of earlier runs; see
            `Tuning`.
        storage: the SQLite file of these trials; None: beside the stored results.
        cancel: for example a `threading.Event`.
        show: called about twice a second with time and memory.
        show_trial: called after each trial.

    Raises:
        EvaluationError: the checkpoint cannot be evaluated, no single number counts, no ranking
            works, or the value cannot be held.
    """
    return Search(
        evaluator, checkpoint, targets=targets, recipe=recipe, portfolio=portfolio,
        trials=trials, storage=storage, cancel=cancel, show=show, show_trial=show_trial,
    ).run(at_least, amount, absolute=absolute)  # fmt: skip
