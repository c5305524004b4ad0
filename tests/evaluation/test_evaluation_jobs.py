"""Jobs that run an evaluator: what they report, in which order, and what is stored."""

from __future__ import annotations

import threading
from textwrap import dedent

import psutil
import pytest
import torch

from prune_gui.errors import Cancelled, EvaluationError
from prune_gui.evaluation import Evaluator, SearchResult, Trial
from prune_gui.evaluation.evaluation_jobs import (
    Begun,
    CurvePoint,
    Dense,
    EvaluatedRecipe,
    Goal,
    metric_sweep_job,
    of_step,
    scan_job,
    search_job,
    states_job,
    stored_job,
)
from prune_gui.evaluation.metrics import Metric
from prune_gui.evaluation.trials import groups_of, step_of
from prune_gui.isolated.watching import Status
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe
from prune_gui.session import Session

STEP = step_of({"method": "l1_unstructured", "targets": ["a"], "amount": 0.5})
ZEROS = """
    import array
    import json
    import struct
    import time

    def zeros(path):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            content = file.read()
        values = array.array("f", content[slice(*header["a"]["data_offsets"])])
        return values.count(0.0) / len(values)

    def evaluate(path):
        share = zeros(path)
        if share > 0.8:
            raise ValueError("too sparse")
        return {"zeros": share, "kept": 1 - share}

    def fails(path):
        raise ValueError("no data")

    def hangs(path):
        time.sleep(60 * bool(zeros(path)))
        return 1
"""
"""Functions that do not import torch, so that their process starts at once."""


@pytest.fixture(autouse=True)
def _no_process_is_left():
    """The process of `evaluator` serves all tests of this module; that fixture checks its end."""


@pytest.fixture
def session(on_disk):
    tensors = {"a": torch.arange(1.0, 11).reshape(2, 5), "b": torch.ones(2, 2)}
    return Session(on_disk(tensors))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("data") / "evaluations.sqlite3"


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "own.py"
    path.write_text(dedent(ZEROS))
    return path


@pytest.fixture(scope="module")
def evaluator(code, database):
    before = set(psutil.Process().children(recursive=True))
    with Evaluator(f"{code}:evaluate", database=database, timeout_s=60) as made:
        yield made
    assert set(psutil.Process().children(recursive=True)) <= before


def done(job):
    """Run a job; return what it reports, without the status, and its result."""
    found = []
    result = job.work(Monitor(report=found.append))
    return [one for one in found if not isinstance(one, Status)], result


def test_recipes_are_evaluated_in_order_and_an_error_does_not_end_the_job(evaluator, session):
    bad = step_of({"method": "l1_unstructured", "targets": ["a"], "amount": 1.0})
    recipes = [Recipe(), Recipe(steps=(bad,)), Recipe(steps=(STEP,))]
    found, _ = done(states_job(evaluator, session.resolver, recipes))
    assert [one.recipe for one in found] == [each for each in recipes for _ in range(2)]
    assert [type(one) for one in found] == [Begun, EvaluatedRecipe] * 3
    dense, failed, half = found[1::2]
    assert dense.evaluation.metrics == {"zeros": 0, "kept": 1}
    assert failed.evaluation is None
    assert "too sparse" in failed.error
    assert (half.evaluation.metrics["kept"], half.evaluation.pruned) == (0.5, 5)


def test_stored_results_are_found_without_running_the_evaluator(evaluator, session):
    done(states_job(evaluator, session.resolver, [Recipe()]))
    reader = Evaluator(evaluator.spec.text, database=evaluator.database.path)
    unknown = Recipe(steps=(STEP, STEP))
    _, outcomes = done(stored_job(reader, session.checkpoint, [unknown, Recipe()]))
    assert [(each.recipe, each.evaluation.cached) for each in outcomes] == [(Recipe(), True)]


def test_a_sweep_reports_the_dense_value_and_a_point_for_each_step_and_amount(evaluator, session):
    session.add(STEP)
    steps = [of_step("appended", STEP, None), of_step("replaced", STEP, 0)]
    found, _ = done(
        metric_sweep_job(evaluator, session.resolver, session.recipe, steps, [0.2, 2.5, 0.4])
    )
    assert isinstance(found[0], Dense)
    assert found[0].evaluation.pruned == 0
    points = found[1:]
    assert all(isinstance(point, CurvePoint) for point in points)
    assert [(each.swept.label, each.amount) for each in points] == [
        (label, amount) for amount in (0.2, 2.5, 0.4) for label in ("appended", "replaced")
    ]
    pruned = [each.evaluation.pruned if each.evaluation else None for each in points]
    assert pruned == [6, 2, None, None, 7, 4]
    assert all(each.error for each in points[2:4])


def test_a_sweep_of_a_file_that_cannot_be_evaluated_fails(session, database, code):
    steps = [of_step("x", STEP, None)]
    with Evaluator(f"{code}:fails", database=database) as bad:
        job = metric_sweep_job(bad, session.resolver, session.recipe, steps, [0.5])
        with pytest.raises(EvaluationError, match="no data"):
            done(job)


def test_a_scan_and_a_search_count_the_first_metric_unless_one_is_chosen(evaluator, session):
    checkpoint, recipe = session.checkpoint, session.recipe
    groups = groups_of(checkpoint, ["dims>1"], None)
    found, _ = done(scan_job(evaluator, checkpoint, recipe, groups, [0.5], Metric()))
    dense, start, *trials = found
    assert isinstance(dense, Dense)
    assert start == EvaluatedRecipe(recipe, dense.evaluation)
    assert [(trial.label, trial.value) for trial in trials] == [("a", 0.5), ("b", 0.0)]
    kept, held = Metric("kept"), Goal(at_least=0.7)
    found, result = done(search_job(evaluator, checkpoint, recipe, ["a"], held, kept))
    assert isinstance(result, SearchResult)
    assert result.best.value == pytest.approx(0.7)
    assert result.trials == tuple(one for one in found if isinstance(one, Trial))
    goal = Goal(amount=0.5)
    _, result = done(search_job(evaluator, checkpoint, recipe, ["a"], goal, kept))
    assert result.best.amount == 0.5


def test_cancelling_ends_the_process_and_keeps_what_was_found(session, database, code):
    cancel, found = threading.Event(), []

    def report(one):
        found.append(one)
        if isinstance(one, Status) and any(isinstance(each, EvaluatedRecipe) for each in found):
            cancel.set()  # the second evaluation runs for half a second

    before = psutil.Process().children(recursive=True)
    with Evaluator(f"{code}:hangs", database=database) as slow:
        job = states_job(slow, session.resolver, [Recipe(), Recipe(steps=(STEP,))])
        with pytest.raises(Cancelled):
            job.work(Monitor(None, cancel, report))
        assert psutil.Process().children(recursive=True) == before
    outcomes = [one for one in found if isinstance(one, EvaluatedRecipe)]
    assert [one.evaluation.metrics for one in outcomes] == [{"value": 1}]
