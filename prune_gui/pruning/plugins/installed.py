"""The methods of installed packages. torch is imported only if there are any."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from prune_gui.errors import PluginError
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods import register

GROUP: Final = "prune_gui.methods"
"""The entry point group; each entry point names a class, or a module of classes."""


def use_installed() -> tuple[PluginError, ...]:
    """Register the methods of installed packages; only the first call does so.

    Returns:
        The errors of packages that cannot be used; they do not affect other packages.
    """
    return _registration()


def _register_installed() -> tuple[PluginError, ...]:
    problems = []
    for point in entry_points(group=GROUP):
        from prune_gui.pruning.plugins.loading import load_installed  # torch: slow to import

        try:
            register(load_installed(point))
        except PluginError as problem:
            problems.append(problem)
    return tuple(problems)


_registration = Lazy(_register_installed)
