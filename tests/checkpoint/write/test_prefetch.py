"""Computing items before they are used."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from prune_gui.checkpoint.write.plain_files import MAX_PREFETCHED, prefetch


def test_items_come_in_order_and_from_another_thread():
    makers = []

    def items():
        for i in range(20):
            makers.append(threading.current_thread())
            yield i

    assert list(prefetch(items())) == list(range(20))
    assert threading.current_thread() not in makers


def test_only_a_few_items_are_computed_in_advance():
    computed = []
    with closing(prefetch(computed.append(i) or i for i in range(100))) as prepared:
        for used in range(1, 10):
            next(prepared)
            assert len(computed) <= used + MAX_PREFETCHED + 1


def test_an_exception_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise KeyError("lost")

    items_so_far = []
    with pytest.raises(KeyError, match="lost"):
        items_so_far.extend(prefetch(items()))
    with closing(prefetch(items())) as prepared:
        assert next(prepared) == 1


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with closing(prefetch(range(100))) as prepared:
        assert next(prepared) == 0
    assert threading.active_count() == before
