"""The process that compiles the loops."""

from __future__ import annotations

import subprocess

import pytest

from prune_gui.monitor import Monitor
from prune_gui.worker.compilation_process import command
from prune_gui.worker.jobs import compile_jobs


@pytest.mark.very_slow
@pytest.mark.slow
def test_after_it_no_loop_is_missing(tmp_path):
    done = subprocess.run(
        command(), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=110
    )
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    total = counts[0][1]
    assert counts == [(part, total) for part in range(total + 1)]
    assert done.stderr == ""
    assert not any(job.work(Monitor()) for job in compile_jobs())
