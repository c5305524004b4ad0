"""A crash leaves a trace for the next start; a normal exit does not."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime

import pytest
from python_process import ended_python

from prune_gui.session import CrashTrace
from prune_gui.session.log import MAX_TRACE_BYTES

PRELUDE = """
import os, signal, sys
from pathlib import Path
from prune_gui.session import CrashTrace
trail = CrashTrace(Path(sys.argv[1]))
trail.start()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes crash differently there")


@pytest.fixture
def trail(tmp_path):
    """Return the path of a trace in a folder that does not exist yet."""
    return tmp_path / "log" / "crash.txt"


def run(code, trail):
    return ended_python(PRELUDE + code, trail).returncode


def test_a_crash_trace_is_found_once_by_the_next_start(trail):
    die = "def deep_inside():\n    os.kill(os.getpid(), signal.SIGSEGV)\ndeep_inside()"
    assert run(die, trail) == -signal.SIGSEGV
    crash = CrashTrace(trail).last
    assert crash is not None
    assert "Segmentation fault" in crash.text
    assert "in deep_inside" in crash.text
    kept = trail.with_name("crash.txt.old")
    assert kept.read_text().strip() == crash.text
    assert CrashTrace(trail).last is None  # it is reported once
    assert kept.exists()


def test_a_normal_exit_leaves_no_trace(trail):
    assert run("trail.stop()", trail) == 0
    assert CrashTrace(trail).last is None


def test_a_crash_after_stop_is_not_recorded(trail):
    assert run("trail.stop(); os.kill(os.getpid(), signal.SIGSEGV)", trail) == -signal.SIGSEGV
    assert CrashTrace(trail).last is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "log").write_text("no folder")
    assert run("trail.stop()", tmp_path / "log" / "crash.txt") == 0


def test_a_fifo_at_the_path_of_the_trace_does_not_block_the_start(trail, caplog):
    trail.parent.mkdir()
    os.mkfifo(trail)
    assert run("trail.stop()", trail) == 0
    assert trail.with_name("crash.txt.damaged-1").is_fifo()
    os.mkfifo(trail.with_name("other.txt"))
    crash_trail = CrashTrace(trail)
    crash_trail._path = trail.with_name("other.txt")
    crash_trail.start()  # the FIFO was made after the constructor checked the path
    crash_trail.stop()


@pytest.mark.parametrize("when", [-(2**40), 2**40, 0])
def test_an_extreme_modification_time_of_the_trace_is_no_error(trail, when):
    trail.parent.mkdir()
    trail.write_text("Segmentation fault")
    os.utime(trail, (when, when))
    crash = CrashTrace(trail).last
    assert crash is not None
    assert crash.when <= datetime.now()


def test_only_the_beginning_of_a_huge_trace_is_read(trail):
    trail.parent.mkdir()
    with trail.open("wb") as file:
        file.write(b"Segmentation fault")
        file.truncate(5 << 30)
    crash = CrashTrace(trail).last
    assert crash is not None
    assert len(crash.text) <= MAX_TRACE_BYTES
    trail.with_name("crash.txt.old").unlink()
