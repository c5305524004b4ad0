"""A program that dies leaves word of where it was; one that ends does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime

import pytest

from prune_gui.session import CrashTrail
from prune_gui.session.crash import MAX_TRAIL_BYTES

BEGINNING = """
import os, signal, sys
from pathlib import Path
from prune_gui.session import CrashTrail
trail = CrashTrail(Path(sys.argv[1]))
trail.start()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process dies otherwise there")


@pytest.fixture
def trail(tmp_path):
    """Return the file of a trail in a folder that is not there yet."""
    return tmp_path / "log" / "crash.txt"


def run(code, trail):
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + code, str(trail)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode


def test_the_next_start_is_told_where_a_program_died(trail):
    die = "def deep_inside():\n    os.kill(os.getpid(), signal.SIGSEGV)\ndeep_inside()"
    assert run(die, trail) == -signal.SIGSEGV
    crash = CrashTrail(trail).last
    assert crash is not None
    assert "Segmentation fault" in crash.text
    assert "in deep_inside" in crash.text
    kept = trail.with_name("crash.txt.old")
    assert kept.read_text().strip() == crash.text
    assert CrashTrail(trail).last is None  # it was told once
    assert kept.exists()


def test_a_program_that_ends_leaves_no_word(trail):
    assert run("trail.stop()", trail) == 0
    assert CrashTrail(trail).last is None


def test_a_death_after_the_end_is_not_put_down(trail):
    assert run("trail.stop(); os.kill(os.getpid(), signal.SIGSEGV)", trail) == -signal.SIGSEGV
    assert CrashTrail(trail).last is None


def test_without_a_place_to_write_to_the_program_works_all_the_same(tmp_path):
    (tmp_path / "log").write_text("no folder")
    assert run("trail.stop()", tmp_path / "log" / "crash.txt") == 0


def test_a_fifo_in_place_of_the_trail_does_not_block_the_start(trail, caplog):
    trail.parent.mkdir()
    os.mkfifo(trail)
    assert run("trail.stop()", trail) == 0
    assert trail.with_name("crash.txt.damaged-1").is_fifo()
    os.mkfifo(trail.with_name("other.txt"))
    opened = CrashTrail(trail)
    opened._path = trail.with_name("other.txt")
    opened.start()  # it came after the first look
    opened.stop()


@pytest.mark.parametrize("when", [-(2**40), 2**40, 0])
def test_a_trail_of_a_strange_time_does_not_block_the_start(trail, when):
    trail.parent.mkdir()
    trail.write_text("Segmentation fault")
    os.utime(trail, (when, when))
    crash = CrashTrail(trail).last
    assert crash is not None
    assert crash.when <= datetime.now()


def test_of_a_huge_trail_only_the_beginning_is_read(trail):
    trail.parent.mkdir()
    with trail.open("wb") as file:
        file.write(b"Segmentation fault")
        file.truncate(5 << 30)
    crash = CrashTrail(trail).last
    assert crash is not None
    assert len(crash.text) <= MAX_TRAIL_BYTES
    trail.with_name("crash.txt.old").unlink()
