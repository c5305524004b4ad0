"""The trials of a search around a ranking: other shares of the groups, powers and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prune_gui.errors import EvaluationError
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.portfolio import NamedRanking
from prune_gui.evaluation.space import DECIMALS, TuningSpace
from prune_gui.evaluation.trials import Trial, Trials, step_of

if TYPE_CHECKING:
    from optuna import Study


STORAGE_NAME: Final = "trials.sqlite3"
NAME_DIGITS: Final = 16
"""Hexadecimal digits of the key in the name of a study."""
SEED: Final = 0
RANDOM_TRIALS: Final = 5
"""Trials at random before the sampler learns from them."""
ORIGIN: Final = "origin"
"""Attribute of the trial whose value was known before."""


class Proposal(NamedTuple):
    """Numbers to try; `number` counts the trials from 1, without those that were interrupted."""

    number: int
    numbers: dict[str, float]
    tell: Callable[[float], None]


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
        title = self._evaluator.title(self._run.dense)
        key = self._run.key(origin.steps)[:NAME_DIGITS]
        order = "higher" if self._run.higher_is_better else "lower"
        name = f"{title} ({order}) at {amount:.4g}, {ranking.name}, {key}"
        with self._study(name) as study:
            for proposal in _proposals(study, space, origin.value, first, limit):
                label = f"{ranking.name}, trial {proposal.number}"
                trial = self._run.try_steps(label, amount, *space.steps(proposal.numbers))
                proposal.tell(trial.value)
                yield trial, proposal.numbers

    @contextmanager
    def _study(self, name: str) -> Iterator[Study]:
        """Open a study in the database, which is created if it does not exist."""
        import optuna
        from sqlalchemy import URL, NullPool
        from sqlalchemy.exc import SQLAlchemyError

        path = self._storage or self._evaluator.database.path.with_name(STORAGE_NAME)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            url = URL.create("sqlite", database=str(path.absolute()))
            # Without a pool, each connection is closed after its transaction, also if the
            # constructor fails and leaves no storage to close.
            storage = optuna.storages.RDBStorage(url.render_as_string(), {"poolclass": NullPool})
            if self._evaluator.cache != "use" and name in optuna.get_all_study_names(storage):
                optuna.delete_study(study_name=name, storage=storage)
            yield optuna.create_study(
                storage=storage, study_name=name, load_if_exists=True,
                direction="maximize" if self._run.higher_is_better else "minimize",
            )  # fmt: skip
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError) as error:
            raise EvaluationError(
                "{path} cannot be used as the database of the trials: {reason}. Choose another "
                "file with --storage.",
                path=path,
                reason=_reason(error),
            ) from error
        finally:
            optuna.logging.set_verbosity(verbosity)


def _proposals(
    study: Study,
    space: TuningSpace,
    value: float,
    first: Mapping[str, float] | None,
    limit: int,
) -> Iterator[Proposal]:
    """Yield the numbers of the trials that have ended, then new ones; `limit` in all.

    A proposal depends on the trials that have a value only, so a study that was interrupted
    continues as it would have without. The numbers of the ranking itself have a known value, and
    those of `first` are tried first if no trial has ended.
    """
    from optuna import create_trial
    from optuna.distributions import BaseDistribution, FloatDistribution
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    def tell(number: int, value: float) -> None:
        if math.isnan(value):  # a pruned trial ranks below all others
            study.tell(number, state=TrialState.PRUNED, skip_if_finished=True)
        else:
            study.tell(number, value, skip_if_finished=True)

    distributions: dict[str, BaseDistribution] = {
        name: FloatDistribution(low, high, step=10**-DECIMALS)
        for name, (low, high) in space.intervals.items()
    }
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if trial.state == TrialState.RUNNING:  # of a program that was ended
            study.tell(trial.number, state=TrialState.FAIL)
    if not trials and not math.isnan(value):
        known = create_trial(
            params=dict(space.origin), distributions=distributions, value=value,
            user_attrs={ORIGIN: True},
        )  # fmt: skip
        study.add_trial(known)
    ends = (TrialState.COMPLETE, TrialState.PRUNED)
    ended = [one for one in trials if one.state in ends and ORIGIN not in one.user_attrs]
    has_begun = any(trial.state == TrialState.WAITING for trial in trials)
    if first is not None and not has_begun and not ended:
        intervals = space.intervals.items()
        study.enqueue_trial(
            {name: min(max(first[name], low), high) for name, (low, high) in intervals}
        )
    for number, trial in enumerate(ended[:limit], start=1):
        yield Proposal(number, _rounded(trial.params), lambda _: None)
    for number in range(len(ended) + 1, limit + 1):
        study.sampler = TPESampler(
            n_startup_trials=RANDOM_TRIALS, seed=SEED + number, constant_liar=False
        )
        asked = study.ask(distributions)
        yield Proposal(number, _rounded(asked.params), partial(tell, asked.number))


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
