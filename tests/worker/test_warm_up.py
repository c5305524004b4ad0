"""Which modules are imported before the first picture, and when."""

from __future__ import annotations

import subprocess
import threading

import pytest
from python_process import run_python

from prune_gui.engine import Engine
from prune_gui.isolated.processes import isolated_command
from prune_gui.monitor import Monitor
from prune_gui.worker.jobs import compile_jobs, warm_up_job

PROGRAM = """
import sys
from pathlib import Path
from prune_gui.monitor import Monitor
from prune_gui.worker.jobs import open_job
open_job(Path(sys.argv[1])).work(Monitor())
print("torch" in sys.modules)
from prune_gui.worker.warm_up import import_for_first_picture, import_rest
import_for_first_picture()
print("torch" in sys.modules, "numba" in sys.modules)
import_rest()
print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_opening_needs_no_torch_and_the_first_picture_no_numba(demo_checkpoint):
    assert run_python(PROGRAM, demo_checkpoint) == "False\nTrue False\nTrue\n"


def test_imports_wait_until_the_window_has_painted(monkeypatch):
    painted, imported = threading.Event(), threading.Event()
    monkeypatch.setattr("prune_gui.worker.jobs.MAX_PAINT_S", 60)
    monkeypatch.setattr("prune_gui.worker.jobs.import_for_first_picture", imported.set)
    engine = Engine(lambda _: None)
    engine.submit(warm_up_job(painted))
    assert not imported.wait(0.1)
    painted.set()
    assert imported.wait(60)
    assert engine.close()


@pytest.mark.very_slow
@pytest.mark.slow
def test_after_it_no_loop_is_missing(tmp_path):
    done = subprocess.run(
        isolated_command("prune_gui.worker.warm_up"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=110,
    )
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    total = counts[0][1]
    assert counts == [(part, total) for part in range(total + 1)]
    assert done.stderr == ""
    assert not any(job.work(Monitor()) for job in compile_jobs())
