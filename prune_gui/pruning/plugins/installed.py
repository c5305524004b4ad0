"""The methods of installed packages. Where there are none, finding that out loads nothing."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from prune_gui.errors import PluginError
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods import register

GROUP: Final = "prune_gui.methods"
"""Of entry points; each names a class, or a module of classes."""


def use_installed() -> tuple[PluginError, ...]:
    """Offer the methods of installed packages to recipes; the first call does it.

    Returns:
        What is wrong with those that cannot be used: a broken package is in nobody's way.
    """
    return _used()


def _use() -> tuple[PluginError, ...]:
    problems = []
    for point in entry_points(group=GROUP):
        from prune_gui.pruning.plugins.loading import load_installed  # loads torch

        try:
            register(load_installed(point))
        except PluginError as problem:
            problems.append(problem)
    return tuple(problems)


_used = Lazy(_use)
