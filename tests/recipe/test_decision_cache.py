"""The cache of decisions: what is kept, and its use by several threads."""

from __future__ import annotations

import sys
import threading

import pytest

from prune_gui.pruning.decisions.target import Decision
from prune_gui.recipe import decision_cache
from prune_gui.recipe.decision_cache import DecisionCache


def decision(pruned: int) -> list[Decision]:
    return [Decision(None, pruned)]


def test_decisions_are_computed_once_per_key_and_an_error_is_not_cached():
    cache = DecisionCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    first = cache.get("a", lambda: decision(1))
    assert cache.get("a", lambda: decision(2)) is first


def test_a_thread_gets_its_decisions_while_another_evicts_them(monkeypatch):
    monkeypatch.setattr(decision_cache, "MAX_CACHED_STEPS", 2)
    interval = sys.getswitchinterval()
    cache, wrong = DecisionCache(), []

    def use(offset: int) -> None:
        for i in range(5000):
            key = (i + offset) % 7
            try:
                [found] = cache.get(key, lambda key=key: decision(key))
                wrong.extend([found] if found.pruned != key else [])
            except Exception as error:  # noqa: BLE001 - whatever an unprotected cache raises
                wrong.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=use, args=(offset,)) for offset in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
