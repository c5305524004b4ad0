"""What cannot fit into memory is known before it is begun."""

from __future__ import annotations

from prune_gui.memory import shortage


def test_only_what_does_not_fit_is_short_of_memory(free_memory):
    free_memory(3_000_000_000)
    assert shortage(3_000_000_000) is None
    assert shortage(12_400_000_000) == "12.4 GB of memory at once, and 3 GB are free"
