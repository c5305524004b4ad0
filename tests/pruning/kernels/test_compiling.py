"""Which compilations of loops are counted."""

from __future__ import annotations

from prune_gui.pruning.kernels.loop import compiled_within
from prune_gui.pruning.kernels.numba_control import COMPILATIONS


def test_a_compilation_is_counted_while_it_runs_and_a_call_is_not(monkeypatch):
    changes = []
    monkeypatch.setattr(COMPILATIONS, "add", changes.append)
    increased = compiled_within(lambda number: number + 1)
    assert increased(1) == 2
    assert changes == [1, -1]
    assert increased(2) == 3
    assert changes == [1, -1]
    assert increased(0.5) == 1.5
    assert changes == [1, -1, 1, -1]


def test_the_counter_is_true_until_the_last_compilation_ends():
    states = []
    for change in (1, 1, -1, -1):
        COMPILATIONS.add(change)
        states.append(bool(COMPILATIONS))
    assert states == [True, True, True, False]
