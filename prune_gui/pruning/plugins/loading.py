"""Loading of methods from a Python file that the user chose, or from an installed package."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from prune_gui.errors import PluginError
from prune_gui.language import tr
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods import Method, register
from prune_gui.pruning.plugins.faults import Fault
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    from prune_gui.pruning.plugins.plugin_process import PluginProcess

MAX_FILE_BYTES: Final = 1 << 22
GROUP: Final = "prune_gui.methods"
"""The entry point group; each entry point names a class, or a module of classes."""

_processes: WeakSet[PluginProcess] = WeakSet()
"""All processes in use, including those of older versions of a file, which undo can bring back."""


def load_methods(path: str | os.PathLike[str]) -> list[type[Method]]:
    """Run a Python file and register its methods, in place of those it registered before.

    The methods are the concrete classes that the file itself defines under public names. The file
    runs in a separate process, but with all rights of the user.

    Args:
        path: path of a file that the user trusts.

    Returns:
        The methods, which are now also in `prune_gui.pruning.methods.METHODS`.

    Raises:
        PluginError: the file cannot be run, or has no method, or an invalid one; nothing is
            registered.
    """
    methods = load_file(path)
    register(methods)
    return methods


def load_file(path: str | os.PathLike[str]) -> list[type[Method]]:
    """Run a Python file and return its methods, checked, but not registered; see `load_methods`."""
    location = Path(path).resolve()
    with PluginError.on_os_error("{path} cannot be read: {reason}.", path=location):
        text = read_regular(location, MAX_FILE_BYTES)
    end_idle(str(location))
    origin = {"path": str(location), "source": text.decode("latin-1")}
    try:
        return _checked_methods(origin, str(location))
    except Fault as fault:
        problem = fault.of(location)
    raise PluginError("{problem}. Correct it, and load it again.", problem=problem)


def load_installed(point: EntryPoint) -> list[type[Method]]:
    """Return the methods of an entry point, checked: one class, or all that a module defines."""
    package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    source = tr("{package}, entry point {name}", package=package, name=point.name)
    try:
        return _checked_methods({"entry_point": [point.name, point.value, point.group]}, source)
    except Fault as fault:
        problem = fault.of(source)
    raise PluginError("{problem}. Update or remove the package.", problem=problem)


def end_idle(path: str | None = None) -> None:
    """End the idle processes of a file, or of all plug-ins; they restart on the next request."""
    for process in list(_processes):
        if path is None or process.path == path:
            process.end_idle()


def _checked_methods(origin: dict[str, Any], source: str) -> list[type[Method]]:
    from prune_gui.pruning.plugins.plugin_process import PluginProcess  # used by few

    process = PluginProcess(origin)
    _processes.add(process)
    process.prepare()
    # torch: slow to import; the supervisor imports it at the same time
    from prune_gui.pruning.plugins.method import method_from

    classes = process.load()
    if not isinstance(classes, list):
        raise Fault("bad_answer")
    if not classes:
        raise PluginError(
            "{source} defines no pruning method. A method is a subclass of "
            "torch.nn.utils.prune.BasePruningMethod with a PRUNING_TYPE and a compute_mask.",
            source=source,
        )
    return [method_from(process, described, source) for described in classes]


def use_installed() -> tuple[PluginError, ...]:
    """Register the methods of installed packages, once; return the errors of bad packages."""
    return _registration()


def _register_installed() -> tuple[PluginError, ...]:
    problems = []
    for point in entry_points(group=GROUP):
        try:
            register(load_installed(point))
        except PluginError as problem:
            problems.append(problem)
    return tuple(problems)


_registration = Lazy(_register_installed)
