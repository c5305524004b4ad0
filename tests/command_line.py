"""The command line, run in this process; `test_cli_process.py` runs it as one of its own."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess
from unittest.mock import patch

from prune_gui.cli import program
from prune_gui.pruning import methods


def prune_gui(*arguments: object) -> CompletedProcess[str]:
    """Run the program; return its exit code, standard output and standard error."""
    output, errors = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    words = ["prune-gui", *map(str, arguments)]
    with (
        redirect_stdout(output),
        redirect_stderr(errors),
        patch.object(sys, "argv", words),
        patch.dict(methods._methods),  # which files of methods add to
    ):
        code, message = program._run_command(None)
    shown, told = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return CompletedProcess(words, code, shown, told + f"prune-gui: {message}\n" * bool(message))
