from __future__ import annotations

import ctypes
import gc
import mmap
import subprocess
import sys

import pytest

from prune_gui.checkpoint import bus_errors

pytestmark = pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")

PAGES = 3
WATCHED = """
import ctypes, mmap, sys
from prune_gui.checkpoint.bus_errors import watch

lost = ctypes.c_uint64()
file = open(sys.argv[1], "r+b")
watched = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
watch(watched, lost)
"""
TRUNCATE = "file.truncate(mmap.PAGESIZE)\n"


@pytest.fixture
def cut_off(tmp_path):
    """Return a function that runs lines of Python with a mapped file: (exit code, output)."""
    path = tmp_path / "file"
    path.write_bytes(b"\x07" * PAGES * mmap.PAGESIZE)

    def run(lines: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", WATCHED + lines, str(path)], capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_truncated_pages_read_as_zeros_and_the_process_continues(cut_off):
    lines = TRUNCATE + "print(watched[0], watched[mmap.PAGESIZE - 1], sum(watched[mmap.PAGESIZE:]))"
    assert cut_off(lines) == (0, "7 7 0\n")


def test_the_handler_is_installed_again_after_another_one(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable()\n"
        "again = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY); watch(again, lost)\n"
        f"{TRUNCATE}print(watched[-1], again[-1])"
    )
    assert cut_off(lines) == (0, "0 0\n")


def test_a_bus_error_in_another_mapping_ends_the_process_with_a_trace(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable(); watch(watched, lost)\n"
        "other = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        f"{TRUNCATE}print(other[-1])"
    )
    status, output = cut_off(lines)
    assert status < 0
    assert "Bus error" in output


def test_a_deleted_mapping_is_no_longer_watched(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(mmap.PAGESIZE))
    handler = bus_errors._handler()
    gc.collect()
    watched = sum(map(bool, handler.spans))
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    bus_errors.watch(pages, ctypes.c_uint64())
    assert sum(map(bool, handler.spans)) == watched + bus_errors.FIELDS_PER_MAPPING
    del pages
    assert sum(map(bool, handler.spans)) == watched
