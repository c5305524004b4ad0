"""The command line, run as a process."""

from __future__ import annotations

import subprocess
import sys


def prune_gui(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run the program; return its exit code, standard output and standard error."""
    return subprocess.run(
        [sys.executable, "-m", "prune_gui", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100, **options,
    )  # fmt: skip
