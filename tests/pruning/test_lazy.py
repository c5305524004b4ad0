"""Values that are computed on first use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from prune_gui.pruning.lazy import Lazy


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


def test_a_given_value_is_computed():
    assert Lazy.of_value(None).is_computed
    assert Lazy.of_value(3)() == 3
