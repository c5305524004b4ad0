"""Trials around the best ranking: better, exact, deterministic, and continued after an end."""

from __future__ import annotations

import math
import sqlite3
import sys
import threading

import optuna
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import Recipe, resolve, search
from prune_gui.errors import Cancelled, EvaluationError
from prune_gui.evaluation import PORTFOLIO, Evaluator, NamedRanking, Search
from prune_gui.evaluation.trials import step_of
from prune_gui.evaluation.tuning import MAX_GROUPS, Room, TuningSpace, allocated
from prune_gui.monitor import Monitor

WEIGHTS = {"a.0.weight": 1.0, "a.1.weight": 30.0, "b.weight": 3.0}
"""How much the squares of what is pruned of each parameter count."""


class InProcess(Evaluator):
    """An evaluator without a process: a weighted share of the squares that are kept.

    Its stored results are real. It counts the evaluations, and sets `stop` after `limit` of them.
    """

    def __init__(self, database, limit=None, fails=lambda resolution: False, **options):
        super().__init__("python {checkpoint}", database=database, **options)
        self.count, self.stop = 0, threading.Event()
        self._limit, self._fails = limit, fails

    def _run(self, resolution, split, monitor):
        monitor.advance()
        if self._fails(resolution):
            raise EvaluationError("it crashed")
        self.count += 1
        if self.count == self._limit:
            self.stop.set()
        lost = total = 0.0
        for name, weight in WEIGHTS.items():
            squares = resolution.checkpoint.read(name).double() ** 2
            total += weight * float(squares.sum())
            lost += weight * float(squares[~resolution.mask(name)].sum())
        return {"kept": 1 - lost / total}, 0


@pytest.fixture
def network(on_disk):
    """Return an open checkpoint with rows and columns of different sizes."""
    random = torch.Generator().manual_seed(0)
    tensors = {}
    for name, shape in zip(WEIGHTS, ((40, 30), (20, 20), (8, 16, 3)), strict=True):
        weights = torch.randn(shape, generator=random)
        scales = torch.rand(shape[0], generator=random) + 0.2
        tensors[name] = weights * scales.view(-1, *[1] * (len(shape) - 1))
    return on_disk({**tensors, "b.bias": torch.ones(8)})


@pytest.fixture
def database(tmp_path):
    return tmp_path / "results" / "evaluations.sqlite3"


def found(result):
    return [(trial.label, trial.amount, trial.value) for trial in result.trials]


@pytest.mark.slow
def test_trials_at_a_sparsity_improve_the_best_ranking_and_prune_as_many_elements(
    network, database
):
    alone = search(InProcess(database), network, amount=0.7)
    evaluator = InProcess(database)
    result = search(evaluator, network, amount=0.7, trials=8)
    assert found(result)[: len(PORTFOLIO)] == found(alone)
    assert evaluator.count == 8  # those of the portfolio are stored
    assert result.best.value > alone.best.value + 0.005
    assert result.best.label.startswith(f"{alone.best.label}, trial ")
    assert len({trial.evaluation.pruned for trial in result.trials[len(PORTFOLIO) :]}) == 1
    assert result.best.evaluation.pruned == alone.best.evaluation.pruned
    recipe = Recipe.from_yaml(result.recipe.to_yaml())
    assert recipe == result.recipe
    assert resolve(recipe, network).total[0] == result.best.evaluation.pruned
    again = InProcess(database)
    assert found(search(again, network, amount=0.7, trials=8)) == found(result)
    assert again.count == 0


@pytest.mark.slow
def test_trials_find_more_sparsity_that_holds(network, database):
    alone = search(InProcess(database), network, at_least=0.95)
    result = search(InProcess(database), network, at_least=0.95, trials=12)
    assert result.best.amount > alone.best.amount
    assert result.best.value >= result.limit
    assert result.best.evaluation.sparsity > alone.best.evaluation.sparsity
    again = InProcess(database)
    assert found(search(again, network, at_least=0.95, trials=12)) == found(result)
    assert again.count == 0


@pytest.mark.slow
@pytest.mark.parametrize("goal", [{"amount": 0.7}, {"at_least": 0.95}])
def test_an_interrupted_search_continues_as_it_would_have_without(network, tmp_path, goal):
    whole = InProcess(tmp_path / "whole.sqlite3")
    whole_storage = tmp_path / "whole-trials.sqlite3"
    expected = search(whole, network, **goal, trials=8, storage=whole_storage)
    counts, storage = [], tmp_path / "trials.sqlite3"
    for limit in (len(PORTFOLIO) + 4, 3, None):
        evaluator = InProcess(tmp_path / "results.sqlite3", limit)
        run = Search(evaluator, network, trials=8, storage=storage, cancel=evaluator.stop)
        try:
            run.at_amount(0.7) if "amount" in goal else run.at_least(0.95)
        except Cancelled:
            assert run.best_recipe is not None
        counts.append(evaluator.count)
    assert found(run.result()) == found(expected)
    assert sum(counts) == whole.count


@pytest.mark.slow
def test_the_best_ranking_stays_if_all_trials_fail(network, database):
    def fails(resolution):
        return len(resolution.recipe.steps) > 1

    result = search(InProcess(database, fails=fails), network, amount=0.7, trials=3)
    assert result.best.label in {ranking.name for ranking in PORTFOLIO}
    assert [trial.error for trial in result.trials[len(PORTFOLIO) :]] == ["it crashed"] * 3
    alone = search(InProcess(database), network, at_least=0.9)
    result = search(InProcess(database, fails=fails), network, at_least=0.9, trials=3)
    assert (result.best.label, result.best.amount) == (alone.best.label, alone.best.amount)


SEPARABLE = [ranking for ranking in PORTFOLIO if ranking.name != "ERK"]
"""ERK's share of a parameter depends on the shapes of all targets."""


@pytest.mark.parametrize("ranking", SEPARABLE, ids=lambda ranking: ranking.name)
def test_the_origin_of_the_trials_prunes_what_the_ranking_prunes(network, ranking):
    step, tuned = ranking.step(["dims>1"], 0.7), ranking.for_tuning()
    expected = resolve(Recipe(steps=(step_of(step),)), network)
    resolution = resolve(Recipe(steps=(step_of(tuned.step(["dims>1"], 0.7)),)), network)
    space = TuningSpace(tuned, resolution, 0.7)
    assert set(space.intervals) == set(space.origin)
    steps = tuple(map(step_of, space.steps(space.origin)))
    made = resolve(Recipe(steps=steps), network)
    for name in WEIGHTS:
        assert torch.equal(made.mask(name), expected.mask(name))


def test_a_ranking_with_limits_of_its_own_is_an_origin(network, database):
    own = NamedRanking("own", {"method": "balanced", "row_power": 1 / 3, "max_sparsity": 0.755})
    result = search(InProcess(database), network, amount=0.7, portfolio=[own], trials=1)
    assert len(result.trials) == 2
    assert not result.trials[1].error


def test_earlier_steps_limit_the_shares(network):
    first = {"method": "l1_unstructured", "targets": ["b.*"], "amount": 0.9}
    base = Recipe(steps=(step_of(first),))
    [ranking] = [each for each in PORTFOLIO if each.name == "LAMP"]
    resolution = resolve(base, network).with_step(step_of(ranking.step(["dims>1"], 0.6)), Monitor())
    space = TuningSpace(ranking, resolution, 0.6)
    shifts = {name: -1.0 if name == "shift b.weight" else 1.0 for name in space.origin}
    steps = tuple(map(step_of, space.steps({**shifts, "max_sparsity": 0.8})))
    made = resolve(base.with_steps((*base.steps, *steps)), network)
    assert made.total == resolution.total
    assert all(pruned <= 0.8 * size for name, (pruned, size) in made.counts.items() if "a." in name)


@pytest.mark.parametrize(
    ("layers", "labels"),
    [
        (3, [f"encoder.{n}.{part}.weight" for n in range(3) for part in ("query", "key")]),
        (MAX_GROUPS, [f"encoder.{n}" for n in range(MAX_GROUPS)]),
        (2 * MAX_GROUPS, [f"encoder.{2 * n} to encoder.{2 * n + 1}" for n in range(MAX_GROUPS)]),
    ],
)
def test_many_parameters_share_a_shift_by_module(on_disk, layers, labels):
    names = [f"encoder.{n}.{part}.weight" for n in range(layers) for part in ("query", "key")]
    opened = on_disk({name: torch.randn(4, 4) for name in names})
    [ranking] = [each for each in PORTFOLIO if each.name == "LAMP"]
    resolution = resolve(Recipe(steps=(step_of(ranking.step(["*"], 0.5)),)), opened)
    space = TuningSpace(ranking, resolution, 0.5)
    assert {f"shift {label}" for label in labels} == set(space.origin) - {"max_sparsity"}
    made = resolve(Recipe(steps=tuple(map(step_of, space.steps(space.origin)))), opened)
    assert made.total == resolution.total == (len(names) * 8, len(names) * 16)


@pytest.mark.slow
def test_without_stored_results_the_trials_begin_anew(network, database):
    for _ in range(2):
        evaluator = InProcess(database, cache="off")
        search(evaluator, network, amount=0.7, trials=3)
        # the dense value, the rankings, the best of them again, and three trials
        assert evaluator.count == 1 + len(PORTFOLIO) + 1 + 3


def test_the_studies_lie_beside_the_results_for_other_programs_to_show(network, database):
    search(InProcess(database), network, amount=0.7, trials=2)
    storage = optuna.storages.RDBStorage(f"sqlite:///{database.with_name('trials.sqlite3')}")
    [name] = optuna.get_all_study_names(storage)
    assert name.startswith("kept (higher) at 0.7, ")
    study = optuna.load_study(study_name=name, storage=storage)
    assert len(study.trials) == 3  # with the ranking itself
    assert study.best_value >= study.trials[0].value
    storage.engine.dispose()


def test_a_damaged_database_is_one_message(network, database, tmp_path):
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"nothing" * 1000)
    with pytest.raises(EvaluationError, match=r"broken\.sqlite3 cannot be used.*not a database"):
        search(InProcess(database), network, amount=0.7, trials=1, storage=broken)
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE studies (other INTEGER)")
    connection.close()
    with pytest.raises(EvaluationError, match=r"other\.sqlite3 cannot be used"):
        search(InProcess(database), network, amount=0.7, trials=1, storage=other)


def test_without_optuna_the_message_says_how_to_install_it(network, database, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(EvaluationError, match=r"pip install 'prune-gui\[search\]'"):
        search(InProcess(database), network, amount=0.7, trials=1)
    assert search(InProcess(database), network, amount=0.7).best


SHIFTS = st.floats(-3, 3)


@st.composite
def rooms(draw):
    size = draw(st.integers(1, 10_000))
    least, usual, most = sorted(draw(st.tuples(*[st.integers(0, size)] * 3)))
    return Room(least, usual, most, size)


@given(st.lists(st.tuples(rooms(), SHIFTS), min_size=1, max_size=12), st.floats(-0.1, 1.1))
def test_the_sum_is_exact_and_each_count_lies_in_its_limits(groups, share):
    chosen, shifts = zip(*groups, strict=True)
    least, most = sum(room.least for room in chosen), sum(room.most for room in chosen)
    total = round(share * sum(room.size for room in chosen))
    counts = allocated(chosen, shifts, total)
    assert sum(counts) == min(max(total, least), most)
    assert all(room.least <= count <= room.most for room, count in zip(chosen, counts, strict=True))


USUAL = st.integers(2, 10**9).flatmap(lambda n: st.tuples(st.integers(1, n - 1), st.just(n)))


@given(st.lists(USUAL, min_size=1, max_size=12), SHIFTS)
def test_equal_shifts_give_the_usual_counts(groups, shift):
    chosen = [Room(0, usual, size, size) for usual, size in groups]
    usual = tuple(usual for usual, _ in groups)
    assert allocated(chosen, [shift] * len(groups), sum(usual)) == usual


def test_a_higher_shift_prunes_more_at_the_cost_of_the_others():
    chosen = [Room(0, 500, 1000, 1000)] * 3
    more, *others = allocated(chosen, (1.0, 0.0, 0.0), 1500)
    assert others == [419, 419]
    log_odds = [math.log(count / (1000 - count)) for count in (more, 419)]
    assert log_odds[0] - log_odds[1] == pytest.approx(1, abs=0.01)
    # groups that the ranking kept or pruned as a whole can change
    full, empty = Room(0, 1000, 1000, 1000), Room(0, 0, 1000, 1000)
    fewer, more = allocated((full, empty), (-8.0, 8.0), 1000)
    assert fewer < 500 < more
