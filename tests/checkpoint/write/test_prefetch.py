"""Making pieces ahead of their use."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from prune_gui.checkpoint.write.prefetch import DEPTH, prefetch


def test_items_come_in_order_and_from_another_thread():
    makers = []

    def items():
        for i in range(20):
            makers.append(threading.current_thread())
            yield i

    assert list(prefetch(items())) == list(range(20))
    assert threading.current_thread() not in makers


def test_no_more_items_are_made_than_are_soon_needed():
    made = []
    with closing(prefetch(made.append(i) or i for i in range(100))) as prepared:
        for used in range(1, 10):
            next(prepared)
            assert len(made) <= used + DEPTH + 1


def test_a_failure_comes_after_what_was_made_before_it():
    def items():
        yield 1
        raise KeyError("lost")

    found = []
    with pytest.raises(KeyError, match="lost"):
        found.extend(prefetch(items()))
    with closing(prefetch(items())) as prepared:
        assert next(prepared) == 1


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with closing(prefetch(range(100))) as prepared:
        assert next(prepared) == 0
    assert threading.active_count() == before
