"""A lack of memory is detected before work begins."""

from __future__ import annotations

import pytest
from foreign import is_foreign

from prune_gui.memory import shortage


def test_a_shortage_is_reported_only_when_memory_is_short(free_memory):
    free_memory(3_000_000_000)
    assert shortage(3_000_000_000) is None
    assert shortage(12_400_000_000) == "12.4 GB of memory, and only 3 GB are free"


@pytest.mark.usefixtures("foreign_language")
def test_a_shortage_is_reported_in_the_current_language(free_memory):
    free_memory(3_000_000_000)
    assert is_foreign(shortage(12_400_000_000))
