"""The engine's promises: order, cancel, latest wins, and that it outlives any job."""

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


class Told:
    """The events of an engine, in order, each waited for."""

    def __init__(self) -> None:
        self.events: queue.Queue[Event] = queue.Queue()

    def until(self, kind: type[Event], ticket: int) -> Event:
        while True:
            event = self.events.get(timeout=10)
            if isinstance(event, kind) and event.ticket == ticket:
                return event


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def running(told):
    worker = Engine(told.events.put)
    yield worker
    worker.close()


class Gate:
    """A job that waits until it is let through, asking its monitor all the while."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, monitor: Monitor) -> str:
        while not self.open.wait(0.002):
            monitor.advance(1)
        return "through"


def test_jobs_run_one_after_another_and_report(running, told):
    def work(monitor: Monitor) -> int:
        monitor.expect(10)
        monitor.advance(4)
        return 42

    ticket = running.submit(Job("answer", work))
    kinds = [told.events.get(timeout=10) for _ in range(3)]
    assert [type(event) for event in kinds] == [Started, Progressed, Finished]
    assert (kinds[1].done, kinds[1].total) == (4, 10)
    assert kinds[2].result == 42
    assert kinds[2].ticket == ticket


def test_a_running_job_stops_when_cancelled_and_the_next_one_runs(running, told):
    first = running.submit(Job("long", Gate()))
    told.until(Started, first)
    running.cancel(first)
    told.until(Dropped, first)
    second = running.submit(Job("next", lambda monitor: "ran"))
    assert told.until(Finished, second).result == "ran"


def test_a_waiting_job_that_is_cancelled_never_runs(running, told):
    gate = Gate()
    first = running.submit(Job("long", gate))
    ran = []
    second = running.submit(Job("second", lambda monitor: ran.append(1)))
    running.cancel(second)
    told.until(Dropped, second)
    gate.open.set()
    last = running.submit(Job("last", lambda monitor: None))
    told.until(Finished, last)
    assert first
    assert not ran


def test_of_a_lane_the_latest_wins_and_a_short_job_is_let_finish(running, told):
    gate = Gate()
    first = running.submit(Job("one", gate, lane="view"))
    told.until(Started, first)
    second = running.submit(Job("two", lambda monitor: "two", lane="view"))
    third = running.submit(Job("three", lambda monitor: "three", lane="view"))
    told.until(Dropped, second)
    gate.open.set()
    assert told.until(Finished, first).result == "through"
    assert told.until(Finished, third).result == "three"


def test_a_job_whose_time_has_passed_makes_way_for_the_newer_of_its_lane(
    running, told, monkeypatch
):
    monkeypatch.setattr(engine, "PATIENCE", 0.01)
    first = running.submit(Job("endless", Gate(), lane="view"))
    told.until(Started, first)
    second = running.submit(Job("newer", lambda monitor: None, lane="view"))
    told.until(Dropped, first)
    told.until(Finished, second)


def test_an_urgent_job_goes_ahead_of_those_that_wait(running, told):
    gate = Gate()
    running.submit(Job("long", gate))
    order = []
    last = running.submit(Job("saving", lambda monitor: order.append("saving")))
    running.submit(Job("drawing", lambda monitor: order.append("drawing"), urgent=True))
    gate.open.set()
    told.until(Finished, last)
    assert order == ["drawing", "saving"]


def test_an_error_that_input_caused_is_told_as_it_is(running, told):
    def work(monitor: Monitor) -> None:
        raise PruneGuiError("no such file")

    event = told.until(Failed, running.submit(Job("open", work)))
    assert str(event.error) == "no such file"


def test_the_log_tells_what_a_job_came_to_but_not_of_those_that_come_by_the_dozen(
    running, told, caplog
):
    caplog.set_level("INFO")

    def fail(monitor: Monitor) -> None:
        raise PruneGuiError("no such file")

    running.submit(Job("save", lambda monitor: None))
    running.submit(Job("draw", lambda monitor: None, lane="view"))
    running.submit(Job("compile", lambda monitor: None, idle=True))
    told.until(Failed, running.submit(Job("open", fail)))
    told.until(Finished, running.submit(Job("last", lambda monitor: None, idle=True)))
    levels = [
        (record.levelname, record.getMessage().partition(" took ")[0]) for record in caplog.records
    ]
    assert levels == [("INFO", "save"), ("WARNING", "open: no such file")]


def test_a_fault_is_told_and_logged_with_its_trace_and_the_engine_goes_on(running, told, caplog):
    ticket = running.submit(Job("faulty", lambda monitor: 1 / 0))
    assert isinstance(told.until(Failed, ticket).error, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text
    told.until(Finished, running.submit(Job("next", lambda monitor: None)))


class Own(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, SystemExit, Own])
def test_the_engine_outlives_whatever_is_raised_on_its_thread(running, told, caplog, kind):
    def work(_: Monitor) -> None:
        raise kind("now")

    ticket = running.submit(Job("faulty", work))
    assert isinstance(told.until(Failed, ticket).error, kind)
    assert f"{kind.__name__}: now" in caplog.text
    told.until(Finished, running.submit(Job("next", lambda monitor: None)))


def test_memory_that_runs_out_is_said_and_not_taken_for_a_fault(running, told, caplog):
    def work(_: Monitor) -> None:
        raise MemoryError

    ticket = running.submit(Job("large", work))
    assert isinstance(told.until(Failed, ticket).error, OutOfMemoryError)
    assert "large failed" in caplog.text


def test_code_that_has_no_monitor_at_hand_learns_of_cancel(running, told):
    def work(_: Monitor) -> None:
        while True:
            check_cancelled()

    ticket = running.submit(Job("long", work))
    told.until(Started, ticket)
    running.cancel(ticket)
    told.until(Dropped, ticket)


def test_closing_ends_the_thread_during_a_job_and_tells_nothing_more(told):
    worker = Engine(told.events.put)
    ticket = worker.submit(Job("endless", Gate()))
    worker.submit(Job("never", lambda monitor: None))
    told.until(Started, ticket)
    worker.close()
    assert not [t for t in threading.enumerate() if t.name == "prune-gui-engine"]
    left = [told.events.get_nowait() for _ in range(told.events.qsize())]
    assert not [event for event in left if isinstance(event, Finished | Dropped | Failed)]


def test_closing_gives_up_on_a_job_that_never_looks_whether_it_should_stop(
    told, caplog, monkeypatch
):
    monkeypatch.setattr(engine, "FAREWELL", 0.01)
    worker, let_through = Engine(told.events.put), threading.Event()
    told.until(Started, worker.submit(Job("Asking a plug-in", lambda _: let_through.wait())))
    assert not worker.close()
    assert "Asking a plug-in did not stop" in caplog.text
    let_through.set()
    assert worker.close()


@pytest.mark.parametrize(
    ("hurry", "writes", "patience"),
    [(False, False, engine.FAREWELL), (True, True, engine.FAREWELL), (True, False, engine.MOMENT)],
)
def test_in_a_hurry_only_a_job_that_writes_is_waited_for(
    told, monkeypatch, hurry, writes, patience
):
    worker, let_through = Engine(told.events.put), threading.Event()
    told.until(Started, worker.submit(Job("long", lambda _: let_through.wait(), writes=writes)))
    waits = []
    with monkeypatch.context() as patch:
        patch.setattr(worker._thread, "join", waits.append)
        assert not worker.close(hurry=hurry)
    assert waits == [patience]
    let_through.set()
    assert worker.close()


def test_what_is_idle_stays_behind_whatever_comes_later(running, told):
    gate, done = Gate(), []
    first = running.submit(Job("first", gate))
    told.until(Started, first)
    for name, kind in (("idle", {"idle": True}), ("plain", {}), ("urgent", {"urgent": True})):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), **kind))
    gate.open.set()
    told.until(Finished, last - 2)
    assert done == ["urgent", "plain", "idle"]


def test_what_is_idle_begins_after_a_rest_which_ends_for_anything_else(running, told, monkeypatch):
    rests, wait_for = [], running._changed.wait_for

    def wait(predicate, timeout=None):
        if timeout is not None:  # the rest: as if somebody had asked for more in the midst of it
            rests.append(timeout)
            if len(rests) == 2:
                running.submit(Job("asked", lambda _: done.append("asked")))
        return wait_for(predicate, 0 if timeout is not None else None)

    gate, done = Gate(), []
    told.until(Started, running.submit(Job("first", gate)))
    for name in ("idle", "as idle"):
        last = running.submit(Job(name, lambda _, name=name: done.append(name), idle=True))
    monkeypatch.setattr(running._changed, "wait_for", wait)
    gate.open.set()
    told.until(Finished, last)
    assert rests == [engine.REST]
    assert done == ["idle", "as idle"]
    told.until(Finished, running.submit(Job("next", lambda _: done.append("next"))))
    told.until(Finished, running.submit(Job("late", lambda _: done.append("late"), idle=True)))
    assert done == ["idle", "as idle", "next", "asked", "late"]
