from threading import Barrier, Event, get_ident

import pytest
import torch

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import run

PATIENCE = 30
"""Seconds to wait for a thread that may never come."""


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_tasks(two_threads):
    assert list(run(lambda task: -task, range(100))) == [-task for task in range(100)]


def test_an_exception_ends_it_and_later_work_goes_on_as_ever(two_threads):
    with pytest.raises(ZeroDivisionError):
        list(run(lambda task: 1 // task, [1, 0, 1]))
    assert list(run(abs, [-1, -2])) == [1, 2]


def test_work_that_all_threads_wait_for_is_shared_by_as_many(two_threads):
    together = Barrier(2)

    def meet(_: int) -> int:
        together.wait(PATIENCE)
        return get_ident()

    found = Lazy(lambda: set(run(meet, range(2))))
    outcomes = list(run(lambda _: found(), range(4)))
    assert len(outcomes[0]) == 2


def test_threads_ask_the_monitor_in_charge_of_whoever_gives_them_work(two_threads):
    together, cancel = Barrier(2), Event()
    cancel.set()

    def ask(_: int) -> bool:
        together.wait(PATIENCE)
        with pytest.raises(Cancelled):
            check_cancelled()
        return True

    with Monitor(cancel=cancel).in_charge():
        assert list(run(ask, range(2))) == [True, True]
