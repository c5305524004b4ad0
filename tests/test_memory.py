"""Freed memory goes back to the system, where the C library is glibc."""

import platform
import subprocess
import sys

import psutil
import pytest

from prune_gui.memory import return_freed_memory

PIECES, PIECE_BYTES = 2000, 100_000
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not of glibc")


def in_use():
    """Return the bytes of memory that this process has."""
    return psutil.Process().memory_info().rss


def test_memory_below_what_is_still_used_is_returned():
    before = in_use()
    pieces = [bytearray(PIECE_BYTES) for _ in range(PIECES)]
    del pieces[:-1]
    return_freed_memory()
    assert in_use() - before < PIECES * PIECE_BYTES / 4
    assert len(pieces) == 1


MAPPED = """
import psutil
from prune_gui.memory import map_large_allocations
bytearray(31 << 20)  # from now on, glibc maps only what is larger
map_large_allocations()
before = psutil.Process().memory_info().rss
pieces = [bytearray(b"1") * (1 << 23) for _ in range(20)]
del pieces[:-1]
print(psutil.Process().memory_info().rss - before)
"""


def test_large_pieces_are_mapped_one_by_one():
    """In a process of its own, whose heap has no room for them."""
    found = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, check=True)
    assert int(found.stdout) < 50 << 20
