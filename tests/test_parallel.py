"""Work in threads, and values that are computed on first use."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event, get_ident

import pytest
import torch

from prune_gui.errors import Cancelled
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
