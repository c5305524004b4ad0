"""The command line: the window, and everything that it does without one."""

from prune_gui.cli.program import main

__all__ = ["main"]
