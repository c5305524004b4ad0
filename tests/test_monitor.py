"""Progress that several threads and nested blocks report to one monitor."""

from __future__ import annotations

import threading

import pytest

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor, check_cancelled


def test_the_work_of_all_threads_is_summed():
    reports: list[tuple[int, int]] = []
    monitor = Monitor(lambda *amounts: reports.append(amounts))
    monitor.expect(4000)
    threads = [
        threading.Thread(target=lambda: [monitor.advance(1) for _ in range(1000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports == [(done, 4000) for done in range(1, 4001)]


def test_a_plan_includes_the_work_that_its_parts_announce():
    reports: list[tuple[int, int]] = []
    monitor = Monitor(lambda *amounts: reports.append(amounts))
    with monitor.plan(30):
        for _ in range(3):
            monitor.expect(10)
            with monitor.plan(10):
                monitor.advance(10)
    monitor.expect(5)
    monitor.advance(5)
    assert reports == [(10, 30), (20, 30), (30, 30), (35, 35)]


def test_a_total_is_never_less_than_what_is_done():
    reports: list[tuple[int, int]] = []
    Monitor(lambda *amounts: reports.append(amounts)).advance(7)
    assert reports == [(7, 7)]


def test_advancing_after_cancel_raises_and_counts_nothing():
    stop, reports = threading.Event(), []
    monitor = Monitor(lambda *amounts: reports.append(amounts), stop)
    monitor.advance(1)
    stop.set()
    with pytest.raises(Cancelled):
        monitor.advance(1)
    assert len(reports) == 1


def test_check_cancelled_uses_the_innermost_monitor_with_a_cancel_flag():
    outer, inner = threading.Event(), threading.Event()
    check_cancelled()
    with Monitor(cancel=outer).in_charge():
        with Monitor(cancel=inner).in_charge(), Monitor().in_charge():
            outer.set()
            check_cancelled()
            inner.set()
            with pytest.raises(Cancelled):
                check_cancelled()
        outer.clear()
        check_cancelled()
    inner.clear()
    outer.set()
    check_cancelled()


def test_a_monitor_is_a_cancel_flag_of_further_work():
    flag = threading.Event()
    outer = Monitor(cancel=flag)
    inner = Monitor(cancel=outer)
    inner.advance()
    flag.set()
    assert outer.is_set()
    with pytest.raises(Cancelled):
        inner.advance()
