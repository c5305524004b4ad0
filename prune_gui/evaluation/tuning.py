"""The trials of a search around a ranking: other shares of the groups, powers and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.errors import EvaluationError
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.portfolio import NamedRanking
from prune_gui.evaluation.space import DECIMALS, Interval, TuningSpace
from prune_gui.evaluation.trials import Trial, Trials, step_of

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial


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
        self,
        ranking: NamedRanking,
        amount: float,
        limit: int,
        first: Mapping[str, float] | None = None,
    ) -> Generator[tuple[Trial, dict[str, float]], None, None]:
        """Yield trials at a sparsity in [0, 1], with their numbers (see `TuningSpace`).

        Those of earlier runs come first.
        """
        origin = self._run.try_steps(ranking.name, amount, ranking.step(self._targets, amount))
        tuned = ranking.for_tuning()
        step = step_of(tuned.step(self._targets, amount))
        space = TuningSpace(tuned, self._run.resolve((step,)), amount)
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


SEED: Final = 0
RANDOM_TRIALS: Final = 5
"""Trials at random before the sampler learns from them."""
ORIGIN: Final = "origin"
"""Attribute of the trial whose value was known before."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Numbers to try.

    Attributes:
        number: of the trial, from 1, without those that were interrupted.
    """

    number: int
    numbers: dict[str, float]
    tell: Callable[[float], None]


class Study:
    """Proposes numbers in intervals, by the values of those before.

    A proposal depends on the trials that have a value only, so a study that was interrupted
    continues as it would have without.
    """

    def __init__(self, study: OptunaStudy, intervals: Mapping[str, Interval]) -> None:
        from optuna.distributions import BaseDistribution, FloatDistribution
        from optuna.trial import TrialState

        self._study = study
        self._intervals = intervals
        self._distributions: dict[str, BaseDistribution] = {
            name: FloatDistribution(low, high, step=10**-DECIMALS)
            for name, (low, high) in intervals.items()
        }
        for trial in self._trials():
            if trial.state == TrialState.RUNNING:  # of a program that was ended
                study.tell(trial.number, state=TrialState.FAIL)

    def begin(
        self, origin: Mapping[str, float], value: float, first: Mapping[str, float] | None
    ) -> None:
        """Add numbers with a known value, and choose those to try first if no trial has ended."""
        from optuna import create_trial
        from optuna.trial import TrialState

        if not self._trials() and not math.isnan(value):
            self._study.add_trial(
                create_trial(
                    params=dict(origin), distributions=self._distributions, value=value,
                    user_attrs={ORIGIN: True},
                )
            )  # fmt: skip
        has_begun = any(trial.state == TrialState.WAITING for trial in self._trials())
        if first is not None and not has_begun and not self._ended():
            self._study.enqueue_trial(
                {
                    name: min(max(first[name], low), high)
                    for name, (low, high) in self._intervals.items()
                }
            )

    def proposals(self, limit: int) -> Iterator[Proposal]:
        """Yield the numbers of the trials that have ended, then new ones; `limit` in all."""
        from optuna.samplers import TPESampler

        ended = self._ended()[:limit]
        for number, trial in enumerate(ended, start=1):
            yield Proposal(number, _rounded(trial.params), lambda _: None)
        for number in range(len(ended) + 1, limit + 1):
            self._study.sampler = TPESampler(
                n_startup_trials=RANDOM_TRIALS, seed=SEED + number, constant_liar=False
            )
            asked = self._study.ask(self._distributions)
            yield Proposal(number, _rounded(asked.params), self._teller(asked.number))

    def _teller(self, number: int) -> Callable[[float], None]:
        from optuna.trial import TrialState

        def tell(value: float) -> None:
            if math.isnan(value):  # a pruned trial ranks below all others
                self._study.tell(number, state=TrialState.PRUNED, skip_if_finished=True)
            else:
                self._study.tell(number, value, skip_if_finished=True)

        return tell

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _ended(self) -> list[FrozenTrial]:
        """Return the trials that have a value, or failed, without that of the known value."""
        from optuna.trial import TrialState

        ends = (TrialState.COMPLETE, TrialState.PRUNED)
        return [t for t in self._trials() if t.state in ends and ORIGIN not in t.user_attrs]


@contextmanager
def stored_study(
    path: Path,
    name: str,
    intervals: Mapping[str, Interval],
    *,
    higher_is_better: bool,
    anew: bool,
) -> Iterator[Study]:
    """Open a study in a database, which is created if it does not exist."""
    import optuna
    from sqlalchemy import URL, NullPool
    from sqlalchemy.exc import SQLAlchemyError

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        url = URL.create("sqlite", database=str(path.absolute()))
        # Without a pool, each connection is closed after its transaction, also if the constructor
        # fails and leaves no storage to close.
        storage = optuna.storages.RDBStorage(url.render_as_string(), {"poolclass": NullPool})
        if anew and name in optuna.get_all_study_names(storage):
            optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(
            storage=storage, study_name=name, load_if_exists=True,
            direction="maximize" if higher_is_better else "minimize",
        )  # fmt: skip
        yield Study(study, intervals)
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError) as error:
        raise EvaluationError(
            "{path} cannot be used as the database of the trials: {reason}. Choose another "
            "file with --storage.",
            path=path,
            reason=_reason(error),
        ) from error
    finally:
        optuna.logging.set_verbosity(verbosity)


def require_optuna() -> None:
    """Check that Optuna is installed."""
    if find_spec("optuna") is None:
        raise EvaluationError("Trials need Optuna. Install it: pip install 'prune-gui[search]'.")


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, DECIMALS) for name, value in numbers.items()}


def _reason(error: Exception) -> str:
    """Return the message of the database, which SQLAlchemy and Optuna wrap."""
    inner = error.__cause__ or error
    return str(getattr(inner, "orig", None) or inner).strip().rstrip(".")
