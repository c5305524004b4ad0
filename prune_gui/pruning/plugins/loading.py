"""The methods of a Python file that the user named, or of a package that is installed.

Their code runs in a process of its own, never in that of the program.
"""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final
from weakref import WeakSet

from prune_gui.errors import PluginError
from prune_gui.language import tr
from prune_gui.pruning.methods import Method, register
from prune_gui.pruning.plugins.faults import Fault
from prune_gui.pruning.plugins.process import PluginProcess
from prune_gui.regular_files import read_regular

LIMIT_BYTES: Final = 1 << 22
"""Of a file of methods."""

_files: WeakSet[PluginProcess] = WeakSet()
"""All in use. Those of files that were loaded again are too: undo brings steps with them back."""


def load_methods(path: str | os.PathLike[str]) -> list[type[Method]]:
    """Run a Python file and offer its methods to recipes, in place of those it offered before.

    It runs in a process of its own, but with all the rights of the user.

    Args:
        path: of a file that the user trusts.

    Returns:
        The methods; `prune_gui.pruning.methods.METHODS` has them by their names.

    Raises:
        PluginError: it cannot be run, or has no method, or one that is none; nothing is offered.
    """
    methods = load_file(path)
    register(methods)
    return methods


def load_file(path: str | os.PathLike[str]) -> list[type[Method]]:
    """Run a Python file and return its methods, checked, but offered to nobody yet.

    Those are the concrete classes that it defines itself and does not name with an underscore.

    Raises:
        PluginError: it cannot be run, or has no method, or one that is none.
        Cancelled: the work should stop.
    """
    location = Path(path).resolve()
    try:
        text = read_regular(location, LIMIT_BYTES)
    except OSError as error:
        raise PluginError(
            tr("{path} cannot be read: {reason}.", path=location, reason=error.strerror)
        ) from error
    rest(str(location))
    process = PluginProcess({"path": str(location), "source": text.decode("latin-1")})
    _files.add(process)
    try:
        return _methods(process, str(location))
    except Fault as fault:
        problem = fault.of(location)
    raise PluginError(tr("{problem}. Mend it, and load it again.", problem=problem))


def load_installed(point: EntryPoint) -> list[type[Method]]:
    """Return the methods of an entry point, checked: a class, or all that a module defines.

    Raises:
        PluginError: it cannot be loaded, or has no method, or one that is none.
        Cancelled: the work should stop.
    """
    package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    source = tr("{package}, entry point {name}", package=package, name=point.name)
    process = PluginProcess({"entry_point": [point.name, point.value, point.group]})
    _files.add(process)
    try:
        return _methods(process, source)
    except Fault as fault:
        problem = fault.of(source)
    raise PluginError(tr("{problem}. Update or remove the package.", problem=problem))


def rest(path: str | None = None) -> None:
    """End the processes of a file, or of all plug-ins, that are not at work; they start again."""
    for process in list(_files):
        if path is None or process.path == path:
            process.rest()


def _methods(process: PluginProcess, source: str) -> list[type[Method]]:
    process.prepare()
    from prune_gui.pruning.plugins.method import method_from  # loads torch, as that does meanwhile

    classes = process.load()
    if not isinstance(classes, list):
        raise Fault("bad_answer")
    if not classes:
        raise PluginError(
            tr(
                "{source} defines no pruning method. A method is a class on "
                "torch.nn.utils.prune.BasePruningMethod with a PRUNING_TYPE and a compute_mask.",
                source=source,
            )
        )
    return [method_from(process, described, source) for described in classes]
