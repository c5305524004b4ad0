import threading

import pytest

from prune_gui.errors import RecipeError
from prune_gui.gui.dialogs.job_sequence import JobSequence
from prune_gui.worker import Job


@pytest.fixture
def series(workbench):
    return JobSequence(workbench.bridge, workbench)


def jobs(*works):
    return [Job(f"Job {place}", work) for place, work in enumerate(works)]


def test_results_come_with_their_places_in_order(series, qtbot):
    found = []
    series.came.connect(lambda place, result: found.append((place, result)))
    with qtbot.waitSignal(series.ended):
        series.start(jobs(lambda _: "a", lambda _: "b"))
        assert series.running
    assert found == [(0, "a"), (1, "b")]
    assert not series.running


def test_an_urgent_job_goes_before_the_next_of_the_series(series, qtbot, workbench):
    order, go = [], threading.Event()
    first = [lambda _: go.wait(10), lambda _: order.append("series")]
    with qtbot.waitSignal(series.ended):
        series.start(jobs(*first))
        workbench.look("any", lambda _: order.append("look"), lambda _: None)
        go.set()
    assert order == ["look", "series"]


def test_a_job_that_fails_ends_the_series(series, qtbot):
    ran, failures = [], []
    series.failed.connect(lambda tried, error: failures.append((tried, str(error))))

    def fail(_):
        raise RecipeError("It cannot be.")

    with qtbot.waitSignal(series.ended):
        series.start(jobs(fail, ran.append))
    assert failures == [("Job 0", "It cannot be.")]
    assert not ran


def test_cancelling_in_the_status_line_ends_the_series(series, qtbot, workbench):
    began, ran = threading.Event(), []

    def endless(monitor):
        began.set()
        while True:
            monitor.advance()

    with qtbot.waitSignal(series.ended):
        series.start(jobs(endless, ran.append))
        qtbot.waitUntil(began.is_set)
        workbench.bridge.cancel(series._ticket)
    assert not ran


def test_what_was_cancelled_brings_nothing_to_the_series_that_follows(series, qtbot):
    found, go = [], threading.Event()
    series.came.connect(lambda place, result: found.append((place, result)))
    series.start(jobs(lambda _: go.wait(10) and "old", lambda _: "older"))
    series.cancel()
    assert not series.running
    with qtbot.waitSignal(series.ended):
        series.start(jobs(lambda _: "new"))
        go.set()
    assert found == [(0, "new")]
