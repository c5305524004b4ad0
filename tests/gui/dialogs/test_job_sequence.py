import threading

import pytest

from prune_gui.engine import Job
from prune_gui.errors import RecipeError
from prune_gui.gui.dialogs.job_sequence import JobSequence


@pytest.fixture
def sequence(workbench):
    return JobSequence(workbench.bridge, workbench)


def jobs(*works):
    return [Job(f"Job {index}", work) for index, work in enumerate(works)]


def test_results_come_with_their_indexes_in_order(sequence, qtbot):
    results = []
    sequence.came.connect(lambda index, result: results.append((index, result)))
    with qtbot.waitSignal(sequence.ended):
        sequence.start(jobs(lambda _: "a", lambda _: "b"))
        assert sequence.running
    assert results == [(0, "a"), (1, "b")]
    assert not sequence.running


def test_an_urgent_job_runs_before_the_next_job_of_the_sequence(sequence, qtbot, workbench):
    order, go = [], threading.Event()
    first = [lambda _: go.wait(10), lambda _: order.append("series")]
    with qtbot.waitSignal(sequence.ended):
        sequence.start(jobs(*first))
        workbench.bridge.run_job("any", lambda _: order.append("run"), lambda _: None)
        go.set()
    assert order == ["run", "series"]


def test_a_failed_job_ends_the_sequence(sequence, qtbot):
    ran, failures = [], []
    sequence.failed.connect(lambda tried, error: failures.append((tried, str(error))))

    def fail(_):
        raise RecipeError("It cannot be.")

    with qtbot.waitSignal(sequence.ended):
        sequence.start(jobs(fail, ran.append))
    assert failures == [("Job 0", "It cannot be.")]
    assert not ran


def test_cancelling_the_job_in_the_status_bar_ends_the_sequence(sequence, qtbot, workbench):
    began, ran = threading.Event(), []

    def endless(monitor):
        began.set()
        while True:
            monitor.advance()

    with qtbot.waitSignal(sequence.ended):
        sequence.start(jobs(endless, ran.append))
        qtbot.waitUntil(began.is_set)
        workbench.bridge.cancel(sequence._ticket)
    assert not ran


def test_a_cancelled_job_delivers_no_result_to_the_next_sequence(sequence, qtbot):
    results, go = [], threading.Event()
    sequence.came.connect(lambda index, result: results.append((index, result)))
    sequence.start(jobs(lambda _: go.wait(10) and "old", lambda _: "older"))
    sequence.cancel()
    assert not sequence.running
    with qtbot.waitSignal(sequence.ended):
        sequence.start(jobs(lambda _: "new"))
        go.set()
    assert results == [(0, "new")]
