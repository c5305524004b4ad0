"""What is logged reaches the GUI thread, whole, in order, and never more than there is room for."""

from __future__ import annotations

import logging
import threading

import pytest
from PySide6.QtCore import QThread

from prune_gui.errors import CheckpointError
from prune_gui.gui.runtime.log_feed import MOST, LogFeed, details_of

log = logging.getLogger("prune_gui.test")


@pytest.fixture
def feed(qtbot, caplog):
    caplog.set_level(logging.DEBUG)
    made = LogFeed()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def heard(feed):
    entries = []
    feed.logged.connect(entries.extend)
    return entries


def test_records_of_another_thread_arrive_on_that_of_the_window_in_order(feed, heard, qtbot):
    threads = []
    feed.logged.connect(lambda _: threads.append(QThread.currentThread().isMainThread()))

    def work():
        for number in range(100):
            log.info("number %d", number)

    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert heard == []  # whoever logs does not wait for the window
    qtbot.waitUntil(lambda: len(heard) == 100)
    assert [entry.text for entry in heard] == [f"number {i}" for i in range(100)]
    assert all(threads)


def test_while_the_window_is_busy_only_the_last_records_wait(heard, qtbot):
    for number in range(3 * MOST):
        log.info("%d", number)
    qtbot.waitUntil(lambda: bool(heard))
    assert [entry.text for entry in heard] == [str(i) for i in range(2 * MOST, 3 * MOST)]


def test_records_below_info_are_left_out(heard, qtbot):
    log.debug("a detail")
    log.warning("a warning")
    qtbot.waitUntil(lambda: bool(heard))
    assert [(entry.level_name, entry.text) for entry in heard] == [("Warning", "a warning")]


def test_a_fault_has_its_trace_and_all_of_it_can_be_copied(heard, qtbot):
    try:
        1 // 0  # noqa: B018
    except ZeroDivisionError:
        log.exception("Resolving failed")
    qtbot.waitUntil(lambda: bool(heard))
    entry = heard[0]
    assert entry.details.startswith("Traceback")
    assert entry.details.endswith("ZeroDivisionError: integer division or modulo by zero")
    assert entry.whole == f"{entry.when} Error: Resolving failed\n{entry.details}"


def test_nothing_is_heard_once_it_has_stopped(feed, heard, qtbot):
    before = list(logging.getLogger().handlers)
    feed.stop()
    assert len(logging.getLogger().handlers) == len(before) - 1
    log.info("too late")
    feed._deliver()
    assert heard == []


def test_a_record_that_cannot_be_written_out_does_not_break_who_logs(heard, qtbot, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.info("%d", "no number")
    log.info("the next")
    qtbot.waitUntil(lambda: bool(heard))
    assert [entry.text for entry in heard] == ["the next"]


def test_an_error_of_the_input_has_no_trace_but_what_the_system_said():
    assert details_of(CheckpointError("It is gone.")) == ""
    error = CheckpointError("It is gone.")
    error.__cause__ = FileNotFoundError(2, "No such file")
    assert details_of(error) == "FileNotFoundError: [Errno 2] No such file"
