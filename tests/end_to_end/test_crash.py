"""After a crash, the next start restores the steps and reports the crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("leave_window.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def leave(tmp_path):
    """Return a function that runs the script, each time with the same settings folder."""
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE", "CACHE")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, SCRIPT, *arguments],
            env={**os.environ, **homes}, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_the_steps_of_a_killed_window_are_restored(leave, demo_checkpoint):
    assert leave("kill", demo_checkpoint).returncode == -signal.SIGKILL
    result = leave("return")
    assert (result.returncode, result.stdout) == (0, "digits_cnn.safetensors *.weight True\n"), (
        result.stderr
    )


@pytest.mark.slow
def test_the_next_start_reports_where_a_window_crashed(leave, demo_checkpoint):
    assert leave("crash", demo_checkpoint).returncode == -signal.SIGSEGV
    result = leave("return")
    restored = "digits_cnn.safetensors *.weight True\n"
    assert (result.returncode, result.stdout) == (
        0, restored + "Fatal Python error: Segmentation fault\n",
    ), result.stderr  # fmt: skip
