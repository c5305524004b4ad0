"""The methods of a Python file that the user named, or of a package that is installed."""

from __future__ import annotations

import inspect
import os
import sys
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from torch.nn.utils import prune as reference

from prune_gui.errors import PluginError
from prune_gui.language import tr
from prune_gui.pruning.base import BasePruningMethod
from prune_gui.pruning.methods import Method, register
from prune_gui.pruning.plugins.calling import Fault, foreign
from prune_gui.pruning.plugins.method import method_from

_numbers = count(1)


def load_methods(path: str | os.PathLike[str]) -> list[type[Method]]:
    """Run a Python file and offer its methods to recipes, in place of those it offered before.

    Args:
        path: of a file that the user trusts: it runs with all the rights of the user.

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
    """
    location = Path(path).resolve()
    try:
        text = location.read_bytes()
    except OSError as error:
        raise PluginError(
            tr("{path} cannot be read: {reason}.", path=location, reason=error.strerror)
        ) from error
    module = ModuleType(f"prune_gui_methods_{next(_numbers)}")
    module.__file__ = str(location)
    sys.modules[module.__name__] = module  # dataclasses, for one, look there
    try:
        # Not the way of an import, which writes a file beside this one and goes by its date.
        with foreign():
            exec(compile(text, location, "exec", dont_inherit=True), vars(module))
    except Fault as fault:
        problem = fault.of(location)
        raise PluginError(tr("{problem}. Mend it, and load it again.", problem=problem)) from fault
    return _methods(_defined(module), str(location))


def load_installed(point: EntryPoint) -> list[type[Method]]:
    """Return the methods of an entry point, checked: a class, or all that a module defines.

    Raises:
        PluginError: it cannot be loaded, or has no method, or one that is none.
    """
    package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    source = tr("{package}, entry point {name}", package=package, name=point.name)
    try:
        with foreign():
            found = point.load()
    except Fault as fault:
        problem = fault.of(source)
        raise PluginError(
            tr("{problem}. Update or remove the package.", problem=problem)
        ) from fault
    return _methods(_defined(found) if isinstance(found, ModuleType) else [found], source)


def _defined(module: ModuleType) -> list[object]:
    return [
        thing
        for name, thing in vars(module).items()
        if _is_method(thing) and thing.__module__ == module.__name__ and not name.startswith("_")
    ]


def _is_method(thing: object) -> TypeGuard[type[BasePruningMethod]]:
    return (
        isinstance(thing, type)
        and issubclass(thing, reference.BasePruningMethod)
        and not inspect.isabstract(thing)
    )


def _methods(classes: list[object], source: str) -> list[type[Method]]:
    plugins = [thing for thing in dict.fromkeys(classes) if _is_method(thing)]
    if not plugins:
        raise PluginError(
            tr(
                "{source} defines no pruning method. A method is a class on "
                "torch.nn.utils.prune.BasePruningMethod with a PRUNING_TYPE and a compute_mask.",
                source=source,
            )
        )
    return [method_from(plugin, source) for plugin in plugins]
