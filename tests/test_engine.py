"""The engine: order of jobs, cancellation, lanes, and survival of any error."""

from __future__ import annotations

import os
import queue
import sys
import threading

import pytest

from prune_gui import engine
from prune_gui.engine import (
    Dropped,
    Engine,
    Event,
    Failed,
    Finished,
    Job,
    Progressed,
    Reported,
    Started,
)
from prune_gui.errors import PruneGuiError
from prune_gui.memory import OutOfMemoryError
from prune_gui.monitor import Monitor, check_cancelled


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


def test_a_job_sends_events(running, event_log):
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


def test_what_an_earlier_run_has_done_is_told_at_once(running, event_log):
    def work(monitor: Monitor) -> None:
        monitor.expect(10)
        monitor.advance(1)
        monitor.stopped_by(threading.Event()).skip(2)
        monitor.skip(3)

    running.submit(Job("resumed", work))
    events = [event_log.events.get(timeout=10) for _ in range(5)]
    assert [(one.done, one.skipped) for one in events[1:4]] == [(1, 0), (3, 2), (6, 5)]


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


class Own(BaseException):
    """An exception that `except Exception` does not catch."""


@pytest.mark.parametrize(
    ("raised", "kind", "level"),
    [
        (PruneGuiError("no such file"), PruneGuiError, "WARNING"),
        (MemoryError(), OutOfMemoryError, "ERROR"),
        *((kind("now"), kind, "ERROR") for kind in (ZeroDivisionError, KeyboardInterrupt)),
        *((kind("now"), kind, "ERROR") for kind in (GeneratorExit, SystemExit, Own)),
    ],
    ids=repr,
)
def test_any_error_is_sent_and_logged_and_the_engine_continues(
    running, event_log, caplog, raised, kind, level
):
    def work(_: Monitor) -> None:
        raise raised

    ticket = running.submit(Job("faulty", work))
    assert type(event_log.until(Failed, ticket).error) is kind
    [record] = [one for one in caplog.records if one.levelname != "INFO"]
    assert (record.levelname, "faulty" in record.getMessage()) == (level, True)
    event_log.until(Finished, running.submit(Job("next", lambda monitor: None)))


@pytest.mark.parametrize(
    ("kind", "others"),
    [
        ({"long": True}, [{"lane": "view", "urgent": True}, {"lane": "resolve"}]),
        ({"idle": True}, [{"long": True}, {"urgent": True}]),
        ({"evaluates": True}, [{}, {"long": True}, {"idle": True}]),
    ],
)
def test_jobs_run_beside_one_of_another_kind(running, event_log, kind, others):
    gate = Gate()
    first = running.submit(Job("first", gate, **kind))
    event_log.until(Started, first)
    for other in others:
        event_log.until(Finished, running.submit(Job("other", lambda _: None, **other)))
    gate.open.set()
    assert event_log.until(Finished, first).result == "through"


@pytest.mark.parametrize("kind", ["long", "evaluates"])
def test_long_jobs_and_evaluations_run_one_after_the_other(running, event_log, kind):
    gate, done = Gate(), []
    first = running.submit(Job("first", lambda m: done.append(gate(m)), **{kind: True}))
    second = running.submit(Job("second", lambda _: done.append("second"), **{kind: True}))
    event_log.until(Started, first)
    event_log.until(Finished, running.submit(Job("drawing", lambda _: None, urgent=True)))
    assert done == []
    gate.open.set()
    event_log.until(Finished, second)
    assert done == ["through", "second"]


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
    assert not [t for t in threading.enumerate() if t.name.startswith("prune-gui-engine")]
    left = [event_log.events.get_nowait() for _ in range(event_log.events.qsize())]
    assert not [event for event in left if isinstance(event, Finished | Dropped | Failed)]


def test_a_result_that_nobody_gets_because_the_engine_closes_is_discarded(event_log):
    unwanted, gate = [], threading.Event()
    worker = Engine(event_log.events.put)
    job = Job("opening", lambda _: gate.wait() and "an open file", discard=unwanted.append)
    event_log.until(Started, worker.submit(job))
    worker.stop()
    gate.set()
    assert worker.close()
    assert unwanted == ["an open file"]


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
    job = Job("long", lambda _: let_through.wait(), long=True, writes=writes)
    event_log.until(Started, worker.submit(job))
    [busy] = [thread for thread in threading.enumerate() if thread.name == "prune-gui-engine-long"]
    waits = []
    with monkeypatch.context() as patch:
        patch.setattr(busy, "join", waits.append)
        assert not worker.close(hurry=hurry)
    assert waits == [timeout_s]
    let_through.set()
    assert worker.close()


def test_a_long_job_runs_after_the_quick_jobs_submitted_before_it(running, event_log):
    gate, done = Gate(), []
    running.submit(Job("resolving", lambda monitor: done.append(gate(monitor))))
    waiting = running.submit(Job("drawing", lambda _: done.append("drawn"), lane="view"))
    saving = running.submit(Job("saving", lambda _: done.append("saved"), long=True))
    running.submit(Job("drawing", lambda _: done.append("drawn again"), lane="view"))
    event_log.until(Dropped, waiting)  # the newer one does not delay the save
    gate.open.set()
    event_log.until(Finished, saving)
    assert [one for one in done if one != "drawn again"] == ["through", "saved"]


def test_a_quick_job_starts_after_an_idle_one_that_is_short(running, event_log, monkeypatch):
    monkeypatch.setattr(engine, "IDLE_HEAD_START_S", 10)
    gate, done = Gate(), []
    loading = running.submit(Job("loading", lambda monitor: done.append(gate(monitor)), idle=True))
    event_log.until(Started, loading)
    drawing = running.submit(Job("drawing", lambda _: done.append("drawn"), urgent=True))
    gate.open.set()
    event_log.until(Finished, drawing)
    assert done == ["through", "drawn"]


def test_a_job_that_rests_pauses_while_others_run_and_can_be_cancelled_then(running, event_log):
    gate, drawn, done = Gate(), Gate(), []
    searching = Job("searching", lambda monitor: done.append(gate(monitor)), idle=True, rests=True)
    first = running.submit(searching)
    event_log.until(Started, first)
    drawing = running.submit(Job("drawing", drawn, long=True))
    event_log.until(Started, drawing)
    running.cancel(first)
    event_log.until(Dropped, first)
    drawn.open.set()
    event_log.until(Finished, drawing)
    second = running.submit(searching)
    event_log.until(Started, second)
    running.submit(Job("drawing", lambda monitor: done.append(gate.open.set()), long=True))
    event_log.until(Finished, second)
    assert done == [None, "through"]


@pytest.mark.skipif(sys.platform != "linux", reason="priorities per thread are those of Linux")
def test_an_evaluation_and_its_processes_have_a_lower_priority_than_previews(running, event_log):
    def niceness(_: Monitor) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    evaluating = running.submit(Job("evaluating", niceness, evaluates=True))
    drawing = running.submit(Job("drawing", niceness))
    found = {}
    while len(found) < 2:
        event = event_log.events.get(timeout=10)
        if isinstance(event, Finished):
            found[event.ticket] = event.result
    assert found[evaluating] > found[drawing] > 0


def test_what_a_job_reports_is_sent_in_order_before_its_end(running, event_log):
    def work(monitor: Monitor) -> None:
        for found in ("one", "two"):
            monitor.report(found)

    ticket = running.submit(Job("finding", work))
    event_log.until(Started, ticket)
    events = [event_log.events.get(timeout=10) for _ in range(3)]
    assert [event.found for event in events if isinstance(event, Reported)] == ["one", "two"]
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize("long", [False, True])
def test_idle_jobs_run_after_all_other_jobs(running, event_log, long):
    gate, done = Gate(), []
    first = running.submit(Job("first", gate, long=long))
    event_log.until(Started, first)
    for name, kind in (("idle", {"idle": True}), ("plain", {}), ("urgent", {"urgent": True})):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), long=long, **kind))
    gate.open.set()
    event_log.until(Finished, last - 2)
    assert done == ["urgent", "plain", "idle"]


def test_the_engine_ends_once_when_its_last_thread_does(event_log):
    let_through, ended = threading.Event(), []
    worker = Engine(event_log.events.put, lambda: ended.append(True))
    ticket = worker.submit(Job("saving", lambda _: let_through.wait(), long=True))
    event_log.until(Started, ticket)
    worker.stop()
    assert ended == []
    let_through.set()
    assert worker.close()
    assert ended == [True]


def test_an_idle_job_is_delayed_after_every_other_job(running, event_log, monkeypatch):
    now, delays, wait = [100.0], [], running._changed.wait
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])

    def pass_time(timeout=None):
        if timeout is None:
            return wait()
        delays.append(timeout)
        if len(delays) == 1:  # during the delay, another job is submitted
            running.submit(Job("asked", lambda _: done.append("asked")))
        else:
            now[0] += timeout
        return wait(0.001)

    monkeypatch.setattr(running._changed, "wait", pass_time)
    done = []
    for name, kind in (("first", {}), ("idle", {"idle": True}), ("as idle", {"idle": True})):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), **kind))
    event_log.until(Finished, last)
    assert done == ["first", "asked", "idle", "as idle"]
    assert delays[-1] == pytest.approx(engine.IDLE_DELAY_S)
