"""Log records reach the GUI thread completely, in order, and in limited number."""

from __future__ import annotations

import logging
import threading

import pytest
from PySide6.QtCore import QThread

from prune_gui.errors import CheckpointError
from prune_gui.gui.runtime.log_feed import MAX_ENTRIES, LogFeed, details_of

log = logging.getLogger("prune_gui.test")


@pytest.fixture
def feed(qtbot, caplog):
    caplog.set_level(logging.DEBUG)
    made = LogFeed()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def received(feed):
    entries = []
    feed.logged.connect(entries.extend)
    return entries


def test_records_of_another_thread_arrive_on_the_gui_thread_in_order(feed, received, qtbot):
    threads = []
    feed.logged.connect(lambda _: threads.append(QThread.currentThread().isMainThread()))

    def work():
        for number in range(100):
            log.info("number %d", number)

    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert received == []  # logging does not wait for the GUI thread
    qtbot.waitUntil(lambda: len(received) == 100)
    assert [entry.text for entry in received] == [f"number {i}" for i in range(100)]
    assert all(threads)


def test_only_the_last_records_wait_while_the_gui_thread_is_busy(received, qtbot):
    for number in range(3 * MAX_ENTRIES):
        log.info("%d", number)
    qtbot.waitUntil(lambda: bool(received))
    assert [entry.text for entry in received] == [
        str(i) for i in range(2 * MAX_ENTRIES, 3 * MAX_ENTRIES)
    ]


def test_records_below_info_are_left_out(received, qtbot):
    log.debug("a detail")
    log.warning("a warning")
    qtbot.waitUntil(lambda: bool(received))
    assert [(entry.level_name, entry.text) for entry in received] == [("Warning", "a warning")]


def test_the_entry_of_a_fault_contains_its_traceback(received, qtbot):
    try:
        int("on purpose")
    except ValueError:
        log.exception("Resolving failed")
    qtbot.waitUntil(lambda: bool(received))
    entry = received[0]
    assert entry.details.startswith("Traceback")
    assert entry.details.endswith("'on purpose'")
    assert entry.whole == f"{entry.when} Error: Resolving failed\n{entry.details}"


def test_no_records_arrive_after_stop(feed, received, qtbot):
    before = list(logging.getLogger().handlers)
    feed.stop()
    assert len(logging.getLogger().handlers) == len(before) - 1
    log.info("too late")
    feed._deliver()
    assert received == []


def test_a_record_that_cannot_be_formatted_raises_nothing_in_the_caller(
    received, qtbot, monkeypatch
):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.info("%d", "no number")
    log.info("the next")
    qtbot.waitUntil(lambda: bool(received))
    assert [entry.text for entry in received] == ["the next"]


def test_an_input_error_has_its_cause_but_no_traceback():
    assert details_of(CheckpointError("It is gone.")) == ""
    error = CheckpointError("It is gone.")
    error.__cause__ = FileNotFoundError(2, "No such file")
    assert details_of(error) == "FileNotFoundError: [Errno 2] No such file"
