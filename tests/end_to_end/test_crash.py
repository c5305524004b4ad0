"""A program that dies loses nothing: the next one brings back the steps, and says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("leave_window.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process dies otherwise there")


@pytest.fixture
def leave(tmp_path):
    """Return what runs the script, each time with the same settings."""
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE", "CACHE")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, SCRIPT, *arguments],
            env={**os.environ, **homes}, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_the_steps_of_a_killed_window_come_back(leave, demo_checkpoint):
    assert leave("kill", demo_checkpoint).returncode == -signal.SIGKILL
    back = leave("return")
    assert (back.returncode, back.stdout) == (0, "digits_cnn.safetensors *.weight True\n"), (
        back.stderr
    )


@pytest.mark.slow
def test_the_next_start_says_where_a_window_crashed(leave, demo_checkpoint):
    assert leave("crash", demo_checkpoint).returncode == -signal.SIGSEGV
    back = leave("return")
    came_back = "digits_cnn.safetensors *.weight True\n"
    assert (back.returncode, back.stdout) == (
        0, came_back + "Fatal Python error: Segmentation fault\n",
    ), back.stderr  # fmt: skip
