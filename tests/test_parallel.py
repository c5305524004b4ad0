"""Work in threads: values computed once, progress of nested blocks, and lack of memory."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event, get_ident

import pytest
import torch
from foreign import is_foreign

from prune_gui.errors import Cancelled
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.parallel import run, use_threads
from prune_gui.pruning.lazy import Lazy

TIMEOUT_S = 30
"""Timeout for a thread that may never arrive."""


@pytest.fixture
def two_threads(set_torch_threads):
    set_torch_threads(2)


def test_results_come_in_the_order_of_the_tasks(two_threads):
    assert list(run(lambda task: -task, range(100))) == [-task for task in range(100)]


def test_an_exception_ends_the_run_and_later_runs_work(two_threads):
    with pytest.raises(ZeroDivisionError):
        list(run(lambda task: 1 // task, [1, 0, 1]))
    assert list(run(abs, [-1, -2])) == [1, 2]


def test_a_nested_run_that_all_threads_wait_for_has_threads_of_its_own(two_threads):
    barrier = Barrier(2)

    def meet(_: int) -> int:
        barrier.wait(TIMEOUT_S)
        return get_ident()

    thread_ids = Lazy(lambda: set(run(meet, range(2))))
    outcomes = list(run(lambda _: thread_ids(), range(4)))
    assert len(outcomes[0]) == 2


def test_torch_has_its_share_of_the_threads_within_a_task():
    use_threads(4)
    try:
        assert set(run(lambda _: torch.get_num_threads(), range(8))) == {1}
        assert list(run(lambda _: torch.get_num_threads(), range(2))) == [2, 2]
        assert list(run(lambda _: sum(run(abs, [1, 2])), range(3))) == [3, 3, 3]
        assert torch.get_num_threads() == 4
    finally:
        use_threads(None)


def test_threads_check_the_monitor_of_the_calling_thread(two_threads):
    barrier, cancel = Barrier(2), Event()
    cancel.set()

    def check(_: int) -> bool:
        barrier.wait(TIMEOUT_S)
        with pytest.raises(Cancelled):
            check_cancelled()
        return True

    with Monitor(cancel=cancel).in_charge():
        assert list(run(check, range(2))) == [True, True]


def test_a_value_is_computed_once_also_by_many_threads():
    numbers = count()
    lazy = Lazy(lambda: next(numbers))
    assert not lazy.is_computed
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: lazy(), range(100))) == {0}
    assert lazy.is_computed
    assert next(numbers) == 1


def test_a_failed_computation_is_repeated():
    outcomes = iter([1 / 3, None])

    def work():
        if next(outcomes) is not None:
            raise RuntimeError
        return "value"

    lazy = Lazy(work)
    with pytest.raises(RuntimeError):
        lazy()
    assert not lazy.is_computed
    assert lazy() == "value"


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


def test_a_shortage_is_reported_only_when_memory_is_short(free_memory):
    free_memory(3_000_000_000)
    assert shortage(3_000_000_000) is None
    assert shortage(12_400_000_000) == "12.4 GB of memory, and only 3 GB are free"


@pytest.mark.usefixtures("foreign_language")
def test_a_shortage_is_reported_in_the_current_language(free_memory):
    free_memory(3_000_000_000)
    assert is_foreign(shortage(12_400_000_000))
