"""The trials of a search around a ranking: other shares of the groups, powers and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prune_gui.architecture.blocks import natural_key
from prune_gui.errors import EvaluationError
from prune_gui.evaluation.evaluator import Evaluator
from prune_gui.evaluation.portfolio import NamedRanking
from prune_gui.evaluation.trials import Trial, Trials, names_by_group, step_of
from prune_gui.language import deferred
from prune_gui.pruning.decisions.target import max_prunable
from prune_gui.recipe.patterns import patterns_for

if TYPE_CHECKING:
    from optuna import Study

    from prune_gui.recipe.resolution import Resolution


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


@dataclass(frozen=True, slots=True)
class Tuning:
    """Makes trials around rankings, each ranking and sparsity in a study of its own."""

    run: Trials
    evaluator: Evaluator
    targets: Sequence[str]
    storage: Path | None

    def trials(
        self,
        ranking: NamedRanking,
        amount: float,
        limit: int,
        first: Mapping[str, float] | None = None,
    ) -> Generator[tuple[Trial, dict[str, float]], None, None]:
        """Yield trials at a sparsity in [0, 1], first those of earlier runs, with their numbers."""
        origin = self.run.try_steps(ranking.name, amount, *ranking.steps(self.targets, amount))
        tuned = ranking.for_tuning()
        step = step_of(tuned.step(self.targets, amount))
        space = TuningSpace(tuned, self.run.resolve((step,)), amount)
        title = self.evaluator.title(self.run.dense)
        key = self.run.key(origin.steps)[:NAME_DIGITS]
        order = "higher" if self.run.higher_is_better else "lower"
        name = f"{title} ({order}) at {amount:.4g}, {ranking.name}, {key}"
        with self._study(name) as study:
            for proposal in _proposals(study, space, origin.value, first, limit):
                label = deferred(
                    "{ranking}, trial {number}", ranking=ranking.name, number=proposal.number
                )
                steps = *space.steps(proposal.numbers), *ranking.corrections
                trial = self.run.try_steps(label, amount, *steps)
                proposal.tell(trial.value)
                yield trial, proposal.numbers

    @contextmanager
    def _study(self, name: str) -> Iterator[Study]:
        import optuna
        from sqlalchemy import URL, NullPool
        from sqlalchemy.exc import SQLAlchemyError

        path = self.storage or self.evaluator.database.path.with_name(STORAGE_NAME)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            url = URL.create("sqlite", database=str(path.absolute()))
            # Without a pool, each connection is closed after its transaction, also if the
            # constructor fails and leaves no storage to close.
            storage = optuna.storages.RDBStorage(url.render_as_string(), {"poolclass": NullPool})
            if self.evaluator.cache != "use" and name in optuna.get_all_study_names(storage):
                optuna.delete_study(study_name=name, storage=storage)
            yield optuna.create_study(
                storage=storage, study_name=name, load_if_exists=True,
                direction="maximize" if self.run.higher_is_better else "minimize",
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


Interval = tuple[float, float]

DECIMALS: Final = 2
"""All numbers are multiples of 0.01."""
MAX_GROUPS: Final = 12
MAX_SHIFT: Final = 1.0
"""Limit on the change of the log-odds of a group's share."""
POWERS: Final = ("row_power", "column_power")
LIMIT: Final = "max_sparsity"


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """The elements of a parameter: pruned by earlier steps, with the step of the ranking, all."""

    earlier: int
    usual: int
    size: int

    def most(self, limit: float) -> int:
        """Return how many may be pruned if the sparsity is limited."""
        remaining = self.size - self.earlier
        return self.earlier + max_prunable(limit, remaining=remaining, total=self.size)


class TuningSpace:
    """The numbers that can be varied around a ranking at a sparsity, and the recipes they give.

    A recipe has one step for each group of parameters, and prunes as many elements as the ranking.

    Attributes:
        intervals: the lowest and highest value of each number by name: a shift of the log-odds of
            the share of each group (see `allocated`); the powers of row and column, if the ranking
            has them; the limit on the sparsity of a parameter, if it has one.
        origin: the numbers that give what the ranking itself prunes, rounded.
    """

    def __init__(self, ranking: NamedRanking, resolution: Resolution, amount: float) -> None:
        self._ranking = ranking
        method = resolution.recipe.steps[-1].method
        self._ranks_elements = method.unit == "entry" and method.ranking_scope == "global"
        pruned, counts = resolution.outcomes[-1].pruned, resolution.counts
        groups = _groups(list(pruned))
        tensors = resolution.checkpoint.tensors.values()
        self._patterns = [patterns_for(names, tensors) for names in groups.values()]
        self._members = [
            [ParameterCounts(counts[name][0] - pruned[name], *counts[name]) for name in names]
            for names in groups.values()
        ]
        self._total = sum(member.usual for group in self._members for member in group)
        self._shifts = [f"shift {label}" for label in groups] if len(groups) > 1 else []
        around: Interval = (-MAX_SHIFT, MAX_SHIFT)
        self.intervals = dict.fromkeys(self._shifts, around)
        self.origin = dict.fromkeys(self._shifts, 0.0)
        fields = type(method).model_fields
        self._own: list[str] = [name for name in (*POWERS, LIMIT) if name in fields]
        for name in self._own:
            self.origin[name] = round(getattr(method, name), DECIMALS)
            half_kept = math.ceil((1 + amount) / 2 * 10**DECIMALS) / 10**DECIMALS
            lowest = round(half_kept, DECIMALS) if name == LIMIT else 0.0
            self.intervals[name] = (min(lowest, self.origin[name]), 1.0)

    def steps(self, numbers: Mapping[str, float]) -> Iterator[dict[str, object]]:
        """Yield the steps for some numbers in the intervals, as in a recipe file."""
        own = {name: numbers[name] for name in self._own}
        limit = own.get(LIMIT, 1.0)
        rooms = [_room(group, limit) for group in self._members]
        shifts = [numbers.get(name, 0.0) for name in self._shifts] or [0.0]
        counts = allocated(rooms, shifts, self._total)
        for patterns, room, count in zip(self._patterns, rooms, counts, strict=True):
            amount = count if self._ranks_elements else count / room.size
            step = self._ranking.step(patterns, amount)
            yield {**step, **own, "amount": amount, "amount_of": "reach"}


def _room(group: Sequence[ParameterCounts], limit: float) -> Room:
    return Room(
        sum(member.earlier for member in group),
        sum(member.usual for member in group),
        sum(member.most(limit) for member in group),
        sum(member.size for member in group),
    )


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Return at most `MAX_GROUPS` groups of parameters by label.

    Those with the same first parts of their names, as many parts as fit. If these are less than
    half of `MAX_GROUPS`, one part more, and neighbours are merged.
    """
    depth = 1 + max(name.count(".") for name in names)
    finer = groups = names_by_group(names, depth)
    while len(groups) > MAX_GROUPS:
        depth -= 1
        finer, groups = groups, names_by_group(names, depth)
    if len(groups) < MAX_GROUPS / 2 < len(finer):
        return dict(_merged(finer))
    return groups


def _merged(groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    labels = sorted(groups, key=natural_key)
    for start, stop in pairwise(i * len(labels) // MAX_GROUPS for i in range(MAX_GROUPS + 1)):
        run = labels[start:stop]
        label = run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
        yield label, [name for each in run for name in groups[each]]


HALVINGS: Final = 100
"""Steps of the bisection, after which float64 has no number left between its ends."""
LARGEST_OFFSET: Final = 100.0
"""Limit on the log-odds that are added to all groups."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many elements of a group are pruned by earlier steps and by the ranking, and may be."""

    least: int
    usual: int
    most: int
    size: int

    def share(self, shift: float) -> float:
        """Return the elements to prune, if `shift` is added to the log-odds of the usual share."""
        usual = min(max(self.usual, 0.5), self.size - 0.5)
        odds = math.log(usual / (self.size - usual)) + shift
        return min(max(self.size / (1 + math.exp(-odds)), self.least), self.most)


def allocated(rooms: Sequence[Room], shifts: Sequence[float], total: int) -> tuple[int, ...]:
    """Return how many elements of each group to prune, `total` in all.

    Each group's log-odds log(p / (1 - p)) of its usual share p change by its shift and by an offset
    that is the same for all groups, so that the sum is exact; then counts are rounded down, and the
    groups with the largest remainders get one more, the first of equal ones.
    """
    low, high = -LARGEST_OFFSET, LARGEST_OFFSET
    for _ in range(HALVINGS):
        offset = (low + high) / 2
        if sum(map(Room.share, rooms, (shift + offset for shift in shifts))) < total:
            low = offset
        else:
            high = offset
    exact = [room.share(shift + high) for room, shift in zip(rooms, shifts, strict=True)]
    counts = [math.floor(share) for share in exact]
    while (missing := total - sum(counts)) > 0:
        open_ = [i for i, room in enumerate(rooms) if counts[i] < room.most]
        if not open_:
            break
        open_.sort(key=lambda i: counts[i] - exact[i])
        for i in open_[:missing]:
            counts[i] += 1
    return tuple(counts)
