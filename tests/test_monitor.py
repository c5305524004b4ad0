"""Progress that many threads and many parts of the work report together."""

from __future__ import annotations

import threading

import pytest

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor, check_cancelled


def test_work_is_added_up_over_threads():
    seen: list[tuple[int, int]] = []
    monitor = Monitor(lambda *amounts: seen.append(amounts))
    monitor.expect(4000)
    threads = [
        threading.Thread(target=lambda: [monitor.advance(1) for _ in range(1000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(done, 4000) for done in range(1, 4001)]


def test_a_plan_stands_for_what_its_parts_announce():
    seen: list[tuple[int, int]] = []
    monitor = Monitor(lambda *amounts: seen.append(amounts))
    with monitor.plan(30):
        for _ in range(3):
            monitor.expect(10)
            with monitor.plan(10):
                monitor.advance(10)
    monitor.expect(5)
    monitor.advance(5)
    assert seen == [(10, 30), (20, 30), (30, 30), (35, 35)]


def test_a_total_is_never_less_than_what_is_done():
    seen: list[tuple[int, int]] = []
    Monitor(lambda *amounts: seen.append(amounts)).advance(7)
    assert seen == [(7, 7)]


def test_advancing_after_cancel_raises_and_counts_nothing():
    stop, seen = threading.Event(), []
    monitor = Monitor(lambda *amounts: seen.append(amounts), stop)
    monitor.advance(1)
    stop.set()
    with pytest.raises(Cancelled):
        monitor.advance(1)
    assert len(seen) == 1


def test_the_monitor_in_charge_is_that_of_the_innermost_block_that_can_be_cancelled():
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
