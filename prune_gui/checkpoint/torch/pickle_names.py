"""Names in pickles that are known to be harmless or dangerous when the pickle is loaded."""

from __future__ import annotations

import re
import sys
from typing import Final

from torch.nn import Module, Parameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

HARMLESS: Final = frozenset(
    [
        *("_codecs.encode", "argparse.Namespace", "copyreg._reconstructor"),
        *(f"builtins.{kind}" for kind in ("bool", "bytearray", "bytes", "complex", "dict")),
        *(f"builtins.{kind}" for kind in ("float", "frozenset", "int", "list", "object")),
        *(f"builtins.{kind}" for kind in ("range", "set", "slice", "str", "tuple")),
        *(f"collections.{kind}" for kind in ("Counter", "OrderedDict", "defaultdict", "deque")),
        *(f"datetime.{kind}" for kind in ("date", "datetime", "time", "timedelta", "timezone")),
        *("decimal.Decimal", "fractions.Fraction", "types.SimpleNamespace", "uuid.UUID"),
        *(
            f"pathlib.{local}{pure}{kind}"
            for local in ("", "_local.")
            for pure in ("", "Pure")
            for kind in ("Path", "PosixPath", "WindowsPath")
        ),
        *("numpy.dtype", "numpy.ndarray"),
        *(
            f"numpy.{core}.{function}"
            for core in ("core", "_core")
            for function in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
        ),
    ]
)
"""Functions and classes that only create a value."""

RUNS_PROGRAMS: Final = frozenset(
    [
        *("_posixsubprocess", "asyncio", "commands", "concurrent", "distutils", "ensurepip"),
        *("idlelib", "multiprocessing", "nt", "os", "pexpect", "pip", "plumbum", "popen2"),
        *("posix", "psutil", "pty", "sh", "signal", "subprocess", "venv", "webbrowser"),
    ]
)
RUNS_CODE: Final = frozenset(
    [
        *("IPython", "_imp", "_operator", "_pickle", "_thread", "bdb", "cProfile", "cloudpickle"),
        *("code", "codeop", "ctypes", "dill", "doctest", "gc", "imp", "importlib", "inspect"),
        *("joblib", "lib2to3", "marshal", "nose", "operator", "pdb", "pickle", "pickletools"),
        *("pkg_resources", "pkgutil", "profile", "pydoc", "pytest", "runpy", "setuptools"),
        *("shelve", "site", "sys", "threading", "timeit", "trace", "unittest", "zipimport"),
    ]
)
USES_FILES: Final = frozenset(
    [
        *("_io", "bz2", "codecs", "dbm", "fileinput", "fsspec", "glob", "gzip", "io", "linecache"),
        *("logging", "lzma", "mmap", "ntpath", "pathlib", "posixpath", "shutil", "sqlite3"),
        *("tarfile", "tempfile", "zipfile"),
    ]
)
USES_NETWORK: Final = frozenset(
    [
        *("_socket", "aiohttp", "boto3", "docker", "fabric", "ftplib", "gdown", "git", "http"),
        *("httplib", "httpx", "huggingface_hub", "imaplib", "invoke", "paramiko", "poplib"),
        *("requests", "smtplib", "socket", "socketserver", "ssl", "telnetlib", "urllib"),
        *("urllib2", "urllib3", "wget", "xmlrpc"),
    ]
)
DANGEROUS_PACKAGES: Final = RUNS_PROGRAMS | RUNS_CODE | USES_FILES | USES_NETWORK
"""Packages whose functions have, or may have, one of these effects."""
DANGEROUS_WHEN_IMPORTED: Final = frozenset(
    [
        *("builtins", "ctypes", "importlib", "nt", "os", "pickle", "posix", "pty", "runpy"),
        *("shutil", "socket", "subprocess", "sys", "tempfile", "urllib", "webbrowser"),
    ]
)
"""Modules that are reachable through modules that import them: "logging.os.system"."""
DANGEROUS_IN_TORCH: Final = frozenset(
    [
        *("_C", "_dynamo", "_inductor", "classes", "compiler", "distributed", "fx", "hub", "jit"),
        *("multiprocessing", "ops", "package", "serialization", "utils"),
    ]
)
"""Parts of torch that run code, or read and write files."""
DANGEROUS_NAMES: Final = frozenset(
    [
        *("Popen", "Process", "SummaryWriter", "TarFile", "ZipFile"),
        *("_import_dotted_name", "breakpoint", "compile", "delattr", "eval"),
        *("exec", "execfile", "file", "fromfile", "genfromtxt", "getattr", "getoutput", "globals"),
        *("input", "load", "load_library", "loads", "loadtxt", "locals", "memmap", "open"),
        *("open_memmap", "popen", "read_pickle", "reload", "save", "savetxt", "savez", "setattr"),
        *("spawn", "system", "urlopen", "vars"),
    ]
)
"""Names that indicate danger in any module."""

DOTTED_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
CLASS_NAME: Final = re.compile(r"_*[A-Z]\w*", re.ASCII)
SPECIAL_NAME: Final = re.compile(r"__\w+__")


def is_dangerous(path: str) -> bool:
    """Return whether a function or class may run programs or code, or use files or the network.

    Args:
        path: the dotted path, with the names of Python 3.
    """
    if path in HARMLESS:
        return False
    root, *inner = parts = path.split(".")
    return (
        root in DANGEROUS_PACKAGES
        or not DANGEROUS_WHEN_IMPORTED.isdisjoint(inner)
        or parts[-1] in DANGEROUS_NAMES
        or (root == "torch" and inner[:1] != [] and inner[0] in DANGEROUS_IN_TORCH)
        or any(SPECIAL_NAME.fullmatch(part) for part in inner)
    )


def is_harmless(path: str) -> bool:
    """Return whether a name only creates a value, or looks like the class of a model.

    Args:
        path: the dotted path, with the names of Python 3.
    """
    if path in HARMLESS:
        return True
    if is_dangerous(path) or not DOTTED_NAME.fullmatch(path):
        return False
    root, *_, last = path.split(".")
    if root == "torch":
        return _is_model_class(path)
    return (
        root != "numpy" and root not in sys.stdlib_module_names and bool(CLASS_NAME.fullmatch(last))
    )


def _is_model_class(path: str) -> bool:
    """Return whether a name in torch is a module, parameter, optimizer or LR scheduler class."""
    module, _, name = path.rpartition(".")
    value = getattr(sys.modules.get(module), name, None)
    return (
        isinstance(value, type)
        and issubclass(value, Module | Parameter | Optimizer | LRScheduler)
        and f"{value.__module__}.{value.__qualname__}" == path
    )
