"""The engine: order of jobs, cancellation, lanes, and survival of any error."""

from __future__ import annotations

import queue
import threading

import pytest

from prune_gui.errors import PruneGuiError
from prune_gui.memory import OutOfMemoryError
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.worker import (
    Dropped,
    Engine,
    Event,
    Failed,
    Finished,
    Job,
    Progressed,
    Started,
    engine,
)


class EventLog:
    """Records the events of an engine, and waits for them."""

    def __init__(self) -> None:
        self.events: queue.Queue[Event] = queue.Queue()

    def until(self, kind: type[Event], ticket: int) -> Event:
        while True:
            event = self.events.get(timeout=10)
            if isinstance(event, kind) and event.ticket == ticket:
                return event


@pytest.fixture
def event_log():
    return EventLog()


@pytest.fixture
def running(event_log):
    worker = Engine(event_log.events.put)
    yield worker
    worker.close()


class Gate:
    """A job that waits until it is opened, and checks for cancellation meanwhile."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, monitor: Monitor) -> str:
        while not self.open.wait(0.002):
            monitor.advance(1)
        return "through"


def test_jobs_run_in_sequence_and_send_events(running, event_log):
    def work(monitor: Monitor) -> int:
        monitor.expect(10)
        monitor.advance(4)
        return 42

    ticket = running.submit(Job("answer", work))
    kinds = [event_log.events.get(timeout=10) for _ in range(3)]
    assert [type(event) for event in kinds] == [Started, Progressed, Finished]
    assert (kinds[1].done, kinds[1].total) == (4, 10)
    assert kinds[2].result == 42
    assert kinds[2].ticket == ticket


def test_a_running_job_stops_when_cancelled_and_the_next_one_runs(running, event_log):
    first = running.submit(Job("long", Gate()))
    event_log.until(Started, first)
    running.cancel(first)
    event_log.until(Dropped, first)
    second = running.submit(Job("next", lambda monitor: "ran"))
    assert event_log.until(Finished, second).result == "ran"


def test_a_cancelled_waiting_job_never_runs(running, event_log):
    gate = Gate()
    first = running.submit(Job("long", gate))
    ran = []
    second = running.submit(Job("second", lambda monitor: ran.append(1)))
    running.cancel(second)
    event_log.until(Dropped, second)
    gate.open.set()
    last = running.submit(Job("last", lambda monitor: None))
    event_log.until(Finished, last)
    assert first
    assert not ran


def test_the_latest_waiting_job_of_a_lane_wins_and_a_running_one_may_finish(running, event_log):
    gate = Gate()
    first = running.submit(Job("one", gate, lane="view"))
    event_log.until(Started, first)
    second = running.submit(Job("two", lambda monitor: "two", lane="view"))
    third = running.submit(Job("three", lambda monitor: "three", lane="view"))
    event_log.until(Dropped, second)
    gate.open.set()
    assert event_log.until(Finished, first).result == "through"
    assert event_log.until(Finished, third).result == "three"


def test_a_superseded_job_stops_after_the_timeout(running, event_log, monkeypatch):
    monkeypatch.setattr(engine, "SUPERSEDED_TIMEOUT_S", 0.01)
    first = running.submit(Job("endless", Gate(), lane="view"))
    event_log.until(Started, first)
    second = running.submit(Job("newer", lambda monitor: None, lane="view"))
    event_log.until(Dropped, first)
    event_log.until(Finished, second)


def test_an_urgent_job_runs_before_waiting_jobs(running, event_log):
    gate = Gate()
    running.submit(Job("long", gate))
    order = []
    last = running.submit(Job("saving", lambda monitor: order.append("saving")))
    running.submit(Job("drawing", lambda monitor: order.append("drawing"), urgent=True))
    gate.open.set()
    event_log.until(Finished, last)
    assert order == ["drawing", "saving"]


def test_an_input_error_is_sent_unchanged(running, event_log):
    def work(monitor: Monitor) -> None:
        raise PruneGuiError("no such file")

    event = event_log.until(Failed, running.submit(Job("open", work)))
    assert str(event.error) == "no such file"


def test_results_are_logged_except_of_lane_and_idle_jobs(running, event_log, caplog):
    caplog.set_level("INFO")

    def fail(monitor: Monitor) -> None:
        raise PruneGuiError("no such file")

    running.submit(Job("save", lambda monitor: None))
    running.submit(Job("draw", lambda monitor: None, lane="view"))
    running.submit(Job("compile", lambda monitor: None, idle=True))
    event_log.until(Failed, running.submit(Job("open", fail)))
    event_log.until(Finished, running.submit(Job("last", lambda monitor: None, idle=True)))
    levels = [
        (record.levelname, record.getMessage().partition(" took ")[0]) for record in caplog.records
    ]
    assert levels == [("INFO", "save"), ("WARNING", "open: no such file")]


def test_an_unexpected_error_is_sent_and_logged_and_the_engine_continues(
    running, event_log, caplog
):
    ticket = running.submit(Job("faulty", lambda monitor: 1 / 0))
    assert isinstance(event_log.until(Failed, ticket).error, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text
    event_log.until(Finished, running.submit(Job("next", lambda monitor: None)))


class Own(BaseException):
    """An exception that `except Exception` does not catch."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, SystemExit, Own])
def test_the_engine_survives_any_exception(running, event_log, caplog, kind):
    def work(_: Monitor) -> None:
        raise kind("now")

    ticket = running.submit(Job("faulty", work))
    assert isinstance(event_log.until(Failed, ticket).error, kind)
    assert f"{kind.__name__}: now" in caplog.text
    event_log.until(Finished, running.submit(Job("next", lambda monitor: None)))


def test_a_memory_error_is_sent_as_out_of_memory(running, event_log, caplog):
    def work(_: Monitor) -> None:
        raise MemoryError

    ticket = running.submit(Job("large", work))
    assert isinstance(event_log.until(Failed, ticket).error, OutOfMemoryError)
    assert "large failed" in caplog.text


def test_code_without_a_monitor_can_check_for_cancellation(running, event_log):
    def work(_: Monitor) -> None:
        while True:
            check_cancelled()

    ticket = running.submit(Job("long", work))
    event_log.until(Started, ticket)
    running.cancel(ticket)
    event_log.until(Dropped, ticket)


def test_closing_ends_the_thread_during_a_job_without_further_events(event_log):
    worker = Engine(event_log.events.put)
    ticket = worker.submit(Job("endless", Gate()))
    worker.submit(Job("never", lambda monitor: None))
    event_log.until(Started, ticket)
    worker.close()
    assert not [t for t in threading.enumerate() if t.name == "prune-gui-engine"]
    left = [event_log.events.get_nowait() for _ in range(event_log.events.qsize())]
    assert not [event for event in left if isinstance(event, Finished | Dropped | Failed)]


def test_closing_gives_up_on_a_job_that_never_checks_for_cancellation(
    event_log, caplog, monkeypatch
):
    monkeypatch.setattr(engine, "CLOSE_TIMEOUT_S", 0.01)
    worker, let_through = Engine(event_log.events.put), threading.Event()
    event_log.until(Started, worker.submit(Job("Asking a plug-in", lambda _: let_through.wait())))
    assert not worker.close()
    assert "Asking a plug-in did not stop" in caplog.text
    let_through.set()
    assert worker.close()


@pytest.mark.parametrize(
    ("hurry", "writes", "timeout_s"),
    [
        (False, False, engine.CLOSE_TIMEOUT_S),
        (True, True, engine.CLOSE_TIMEOUT_S),
        (True, False, engine.HURRIED_CLOSE_TIMEOUT_S),
    ],
)
def test_a_hurried_close_waits_only_for_a_writing_job(
    event_log, monkeypatch, hurry, writes, timeout_s
):
    worker, let_through = Engine(event_log.events.put), threading.Event()
    event_log.until(
        Started, worker.submit(Job("long", lambda _: let_through.wait(), writes=writes))
    )
    waits = []
    with monkeypatch.context() as patch:
        patch.setattr(worker._thread, "join", waits.append)
        assert not worker.close(hurry=hurry)
    assert waits == [timeout_s]
    let_through.set()
    assert worker.close()


def test_idle_jobs_run_after_all_other_jobs(running, event_log):
    gate, done = Gate(), []
    first = running.submit(Job("first", gate))
    event_log.until(Started, first)
    for name, kind in (("idle", {"idle": True}), ("plain", {}), ("urgent", {"urgent": True})):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), **kind))
    gate.open.set()
    event_log.until(Finished, last - 2)
    assert done == ["urgent", "plain", "idle"]


def test_an_idle_job_is_delayed_unless_another_job_is_submitted(running, event_log, monkeypatch):
    timeouts, wait_for = [], running._changed.wait_for

    def wait(predicate, timeout=None):
        if timeout is not None:  # the idle delay, during which another job is submitted
            timeouts.append(timeout)
            if len(timeouts) == 2:
                running.submit(Job("asked", lambda _: done.append("asked")))
        return wait_for(predicate, 0 if timeout is not None else None)

    gate, done = Gate(), []
    event_log.until(Started, running.submit(Job("first", gate)))
    for name in ("idle", "as idle"):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), idle=True))
    monkeypatch.setattr(running._changed, "wait_for", wait)
    gate.open.set()
    event_log.until(Finished, last)
    assert timeouts == [engine.IDLE_DELAY_S]
    assert done == ["idle", "as idle"]
    event_log.until(Finished, running.submit(Job("next", lambda _: done.append("next"))))
    event_log.until(Finished, running.submit(Job("late", lambda _: done.append("late"), idle=True)))
    assert done == ["idle", "as idle", "next", "asked", "late"]
