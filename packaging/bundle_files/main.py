"""Entry point of the bundle: the program, or the Python interpreter that it starts for others.

The program starts `sys.executable` with options and code for its own processes: plug-ins,
evaluators, the reader of HDF5 files. In a bundle, `sys.executable` is the program itself. Its own
options have long names, so a first argument such as `-I` or `-c` asks for the interpreter.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import freeze_support
from pathlib import Path
from typing import Final

FLAGS: Final = frozenset("BEIPOqsSu")
"""Options of Python without a value, of which the bundle has no need: it is always isolated."""
OPTIONS_WITH_VALUE: Final = frozenset("XW")


def main() -> None:
    """Run the program, or what the arguments of an interpreter name."""
    _restore_library_path()
    freeze_support()
    arguments = sys.argv[1:]
    if arguments and _is_python_option(arguments[0]):
        _run_as_python(arguments)
    else:
        from prune_gui.cli import main as program

        program()


def _restore_library_path() -> None:
    """Give programs outside the bundle, such as the user's Python, the libraries of the system."""
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        original = os.environ.pop(f"{name}_ORIG", None)
        if original is not None:
            os.environ[name] = original
        else:
            os.environ.pop(name, None)


def _is_python_option(argument: str) -> bool:
    letters = argument[1:]
    return (
        argument[:1] == "-"
        and bool(letters)
        and (letters in ("c", "m") or letters in OPTIONS_WITH_VALUE or FLAGS.issuperset(letters))
    )


def _run_as_python(arguments: Sequence[str]) -> None:
    """Run `-c CODE`, `-m MODULE` or a script, with its arguments, after options of Python.

    Standard output is UTF-8, and is written at once.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(encoding="utf-8", write_through=True)  # type: ignore[union-attr]
    rest = list(arguments)
    keeps_folder = True
    while rest and _is_python_option(rest[0]) and rest[0] not in ("-c", "-m"):
        option = rest.pop(0)[1:]
        if option in OPTIONS_WITH_VALUE:
            del rest[:1]
        keeps_folder = keeps_folder and not {"I", "P"} & set(option)
    match rest:
        case ["-c", code, *_]:
            sys.argv = ["-c", *rest[2:]]
            exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))
        case ["-m", module, *_]:
            sys.argv = rest[1:]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *_]:
            sys.argv = rest
            if keeps_folder:
                sys.path.insert(0, os.fspath(Path(script).absolute().parent))
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit("prune-gui: nothing to run.")


if __name__ == "__main__":
    main()
