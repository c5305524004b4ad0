"""What cannot fit into memory is known before it is begun."""

from __future__ import annotations

import pytest
from foreign import is_foreign

from prune_gui.memory import shortage


def test_only_what_does_not_fit_is_short_of_memory(free_memory):
    free_memory(3_000_000_000)
    assert shortage(3_000_000_000) is None
    assert shortage(12_400_000_000) == "12.4 GB of memory at once, and 3 GB are free"


@pytest.mark.usefixtures("foreign_language")
def test_what_is_short_of_memory_says_so_in_any_language(free_memory):
    free_memory(3_000_000_000)
    assert is_foreign(shortage(12_400_000_000))
