"""Programs in Python that run in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent


def run_python(program: str, *arguments: object, **options: object) -> str:
    """Run a program, which must succeed, and return what it prints."""
    done = ended_python(program, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended_python(
    program: str, *arguments: object, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return how it ended; see `python`."""
    return python("-c", dedent(program), *arguments, **options)


def python(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python, and return how it ended; the options are those of `subprocess.run`."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=110, **options
    )
