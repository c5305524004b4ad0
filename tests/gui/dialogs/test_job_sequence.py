import threading

import pytest

from prune_gui.engine import Job
from prune_gui.errors import RecipeError
from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog
from prune_gui.gui.widgets import layouts


class Dialog(JobSequenceDialog):
    def __init__(self, workbench):
        self.results, self.failures = [], []
        super().__init__(workbench, "Jobs", "Run", None)
        layouts.column(self.buttons, of=self)

    def _take_result(self, index, result):
        self.results.append((index, result))

    def _fail(self, title, error):
        self.failures.append((title, str(error)))

    def _refresh(self):
        self._enable_buttons(ready=True)


@pytest.fixture
def dialog(qtbot, workbench):
    made = Dialog(workbench)
    qtbot.addWidget(made)
    return made


def jobs(*works):
    return [Job(f"Job {index}", work) for index, work in enumerate(works)]


def test_results_come_with_their_indexes_in_order(dialog, qtbot):
    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(lambda _: "a", lambda _: "b"))
        assert dialog.running
    assert dialog.results == [(0, "a"), (1, "b")]
    assert not dialog.running


def test_an_urgent_job_runs_before_the_next_job_of_the_sequence(dialog, qtbot, workbench):
    order, go = [], threading.Event()
    first = [lambda _: go.wait(10), lambda _: order.append("series")]
    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(*first))
        workbench.bridge.run_job("any", lambda _: order.append("run"), lambda _: None)
        go.set()
    assert order == ["run", "series"]


def test_a_failed_job_ends_the_sequence(dialog, qtbot):
    ran = []

    def fail(_):
        raise RecipeError("It cannot be.")

    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(fail, ran.append))
    assert dialog.failures == [("Job 0", "It cannot be.")]
    assert not ran


def test_a_result_that_cannot_be_shown_ends_the_sequence_and_is_logged(
    dialog, qtbot, monkeypatch, caplog
):
    ran = []

    def fail(*_):
        raise ZeroDivisionError("zero")

    monkeypatch.setattr(dialog, "_take_result", fail)
    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(lambda _: "a", ran.append))
    assert dialog.failures == [("Job 0", "zero")]
    assert not dialog.running
    assert not ran
    assert "ZeroDivisionError: zero" in caplog.text


def test_cancelling_the_job_in_the_status_bar_ends_the_sequence(dialog, qtbot, workbench):
    began, ran = threading.Event(), []

    def endless(monitor):
        began.set()
        while True:
            monitor.advance()

    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(endless, ran.append))
        qtbot.waitUntil(began.is_set)
        workbench.bridge.cancel(dialog._ticket)
    assert not ran


def test_a_cancelled_job_delivers_no_result_to_the_next_sequence(dialog, qtbot):
    go = threading.Event()
    dialog._start(jobs(lambda _: go.wait(10) and "old", lambda _: "older"))
    dialog.stop()
    assert not dialog.running
    with qtbot.waitSignal(dialog.ended):
        dialog._start(jobs(lambda _: "new"))
        go.set()
    assert dialog.results == [(0, "new")]
