"""Reports on tensors in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prune_gui.monitor import Monitor
from prune_gui.report.collecting import report_on_files
from prune_gui.report.records import Report


@pytest.fixture(scope="session")
def report_on(in_memory) -> Callable[..., Report]:
    """Return a function from state dicts, and one before pruning, to a report."""

    def report(*files, reference=None) -> Report:
        before = in_memory(reference) if reference is not None else None
        return report_on_files([in_memory(file) for file in files], before, Monitor())

    return report
