"""The trials of a search around a ranking: other shares of the groups, powers and limits."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.portfolio import Ranking
from prune_gui.evaluation.space import Space
from prune_gui.evaluation.study import stored_study
from prune_gui.evaluation.trials import Trial, Trials, step_of

STORAGE_NAME: Final = "trials.sqlite3"
NAME_DIGITS: Final = 16
"""Hexadecimal digits of the key in the name of a study."""


class Tuning:
    """Makes trials around rankings, each ranking and sparsity in a study of its own."""

    def __init__(
        self, run: Trials, evaluator: Evaluator, targets: Sequence[str], storage: Path | None
    ) -> None:
        self._run = run
        self._evaluator = evaluator
        self._targets = targets
        self._storage = storage

    def trials(
        self, ranking: Ranking, amount: float, limit: int, first: Mapping[str, float] | None = None
    ) -> Generator[tuple[Trial, dict[str, float]], None, None]:
        """Yield trials with their numbers (see `Space`): those of earlier runs, then new ones.

        Args:
            amount: the sparsity of the targets, in [0, 1].
        """
        origin = self._run.try_steps(ranking.name, amount, ranking.step(self._targets, amount))
        tuned = ranking.for_tuning()
        step = step_of(tuned.step(self._targets, amount))
        space = Space(tuned, self._run.resolve((step,)), amount)
        storage = self._storage or self._evaluator.database.path.with_name(STORAGE_NAME)
        title = self._evaluator.title(self._run.dense)
        key = self._run.key(origin.steps)[:NAME_DIGITS]
        order = "higher" if self._run.higher_is_better else "lower"
        with stored_study(
            storage, f"{title} ({order}) at {amount:.4g}, {ranking.name}, {key}",
            space.intervals, higher_is_better=self._run.higher_is_better,
            anew=self._evaluator.cache != "use",
        ) as study:  # fmt: skip
            study.begin(space.origin, origin.value, first)
            for proposal in study.proposals(limit):
                label = f"{ranking.name}, trial {proposal.number}"
                trial = self._run.try_steps(label, amount, *space.steps(proposal.numbers))
                proposal.tell(trial.value)
                yield trial, proposal.numbers
