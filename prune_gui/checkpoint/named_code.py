"""The code that a torch file names, in words for the user.

The program runs none of this code, so no name decides whether a file opens. The words and the
defaults of an export depend on what the code does in a program that runs it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from prune_gui.errors import one_line
from prune_gui.language import listed, tr

RUNS_PROGRAMS: Final = frozenset(
    [
        *("CodeType", "FunctionType", "Popen", "__class__", "__globals__", "__subclasses__"),
        *("attrgetter", "cffi", "cloudpickle", "codeop", "ctypes", "dill", "distutils"),
        *("importlib", "jinja2", "jsonpickle", "load_from_bytes", "marshal", "methodcaller"),
        *("multiprocessing", "numexpr", "os", "parse_expr", "pexpect", "posix"),
        *("posixsubprocess", "psutil", "pty", "pydoc", "runpy", "setuptools", "subprocess"),
        *("sympify", "sys", "timeit", "unsafe_load", "unsafe_load_all", "webbrowser"),
        *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "bdb.Bdb"),
        *("builtins.breakpoint", "builtins.compile", "builtins.delattr", "builtins.eval"),
        *("builtins.exec", "builtins.execfile", "builtins.getattr", "builtins.globals"),
        *("builtins.import", "builtins.input", "builtins.locals", "builtins.setattr"),
        *("builtins.vars", "cProfile.run", "cProfile.runctx", "code.InteractiveConsole"),
        *("code.InteractiveInterpreter", "code.interact", "imp.load_dynamic", "imp.load_source"),
        *("nt.execv", "nt.popen", "nt.spawnv", "nt.startfile", "nt.system", "numpy.load"),
        *("pandas.eval", "pandas.read_pickle", "pdb.Pdb", "pdb.run", "pickle.Unpickler"),
        *("pickle.load", "pickle.loads", "pip.internal", "pip.main", "profile.run"),
        *("profile.runctx", "serialization.load", "sympy.lambdify", "sympy.simplify"),
        *("torch.hub", "torch.load", "trace.Trace", "yaml.full_load", "yaml.load"),
        "yaml.load_all",
    ]
)
"""Modules and functions that can run any program: a part of a path, or two consecutive ones without
underscores around them."""
RUNS_OWN_SOURCE: Final = frozenset(
    f"torch.fx.graph_module.reduce_{kind}graph_module" for kind in ("", "package_", "deploy_")
)
"""Functions that run the source text in their arguments, as every GraphModule needs."""
MAX_LISTED: Final = 5
MAX_NAME_CHARS: Final = 60


def runs_programs(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of `Checkpoint.foreign` that run programs when loaded elsewhere."""
    return tuple(name for name in names if not RUNS_PROGRAMS.isdisjoint(_parts(name)))


def code_statement(names: Sequence[str]) -> str:
    """Return what the user should know of a file that names code; see `Checkpoint.foreign`."""
    if not names:
        return ""
    if found := runs_programs(names):
        return tr(
            "Attention: the file names {code}, which can run any program. Prune GUI runs none of "
            "it; other programs will when they load it with weights_only=False, so load it only "
            "if you trust its author.",
            code=listed(found, _shown, MAX_LISTED),
        )
    packages = listed(list(dict.fromkeys(map(_package, names))), _shown, MAX_LISTED)
    if not RUNS_OWN_SOURCE.isdisjoint(names):
        return tr(
            "The file names code of {packages} and contains source code. Prune GUI runs none of "
            "it; other programs will when they load it with weights_only=False, so load it only "
            "if you trust its author.",
            packages=packages,
        )
    return tr(
        "The file names code of {packages}. Prune GUI runs none of it; other programs will when "
        "they load it with weights_only=False.",
        packages=packages,
    )


def with_code_statement(message: str, names: Sequence[str]) -> str:
    """Return a message, followed by `code_statement`."""
    return f"{message} {code_statement(names)}".rstrip()


def _parts(name: str) -> Iterable[str]:
    """Return the parts of a path and their pairs, with the letters that Python reads."""
    parts = unicodedata.normalize("NFKC", name).split(".")
    bare = [part.strip("_") for part in parts]
    return [*parts, *bare, *map(".".join, pairwise(bare))]


def _package(name: str) -> str:
    return name.partition(".")[0]


def _shown(name: str) -> str:
    return one_line(name, MAX_NAME_CHARS)
