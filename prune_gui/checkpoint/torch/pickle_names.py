"""Names in pickles that are dangerous when another program loads the pickle.

This program never runs the code of a file. But whoever loads the file elsewhere does, so files that
name code which runs programs or uses files or the network are refused.
"""

from __future__ import annotations

import re
from typing import Final

from prune_gui.checkpoint.torch.harmless_names import is_listed, is_listed_package
from prune_gui.checkpoint.torch.pickle_machine import ForeignObject, Global

GETATTR: Final = "builtins.getattr"
"""Pickles of bound methods and nested classes call it; see `attribute_path`."""
MAX_PATH_CHARS: Final = 1000
NESTED_PICKLE: Final = "torch.storage._load_from_bytes"
"""A function that loads another pickle, with any code in it."""
OBJECT_MAKERS: Final = frozenset(
    ["copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"]
)
"""Functions that create an object of the class in their first argument."""
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
        *("Cython", "cffi", "execnet", "jsonpickle", "nox", "numexpr", "tox"),
        *("_interpreters", "_pyrepl", "_testcapi", "_xxsubinterpreters"),
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
        *("gcsfs", "pycurl", "s3fs", "urllib2", "urllib3", "websocket", "websockets", "wget"),
        "xmlrpc",
    ]
)
MAKES_CODE: Final = frozenset(
    [
        *("builtins.code", "builtins.function", "hydra.utils.call", NESTED_PICKLE),
    ]
)
"""Functions that make functions from bytes, or load another pickle."""
DANGEROUS_PACKAGES: Final = RUNS_PROGRAMS | RUNS_CODE | USES_FILES | USES_NETWORK
"""Packages whose functions have, or may have, one of these effects."""
DANGEROUS_WHEN_IMPORTED: Final = frozenset(
    [
        *("asyncio", "builtins", "cloudpickle", "codecs", "ctypes", "dill", "gc", "importlib"),
        *("inspect", "marshal", "multiprocessing", "nt", "os", "pathlib", "pickle", "posix", "pty"),
        *("runpy", "shutil", "socket", "subprocess", "sys", "tarfile", "tempfile", "threading"),
        *("dynamic_module_utils", "urllib", "webbrowser", "zipfile"),
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
        *("CodeType", "FileIO", "FunctionType", "LambdaType", "Popen", "Process"),
        *("SummaryWriter", "TarFile", "ZipFile"),
        *("_import_dotted_name", "breakpoint", "compile", "delattr", "eval"),
        *("exec", "execfile", "file", "fromfile", "genfromtxt", "getattr", "getoutput", "globals"),
        *("input", "load", "load_library", "loads", "loadtxt", "locals", "memmap", "open"),
        *("open_memmap", "popen", "read_pickle", "reload", "save", "savetxt", "savez", "setattr"),
        *("FileStore", "TCPStore", "check_call", "check_output", "exec_command", "get_handle"),
        *("init_process_group", "myeval", "param_eval", "read_csv", "read_hdf", "read_json"),
        *("read_parquet", "read_sql", "run_module", "run_path", "runcode", "runctx", "runstring"),
        *("spawn", "system", "to_csv", "to_pickle", "to_folder", "tofile", "urlopen", "vars"),
        *("unlink", "write_bytes", "write_text", "attrgetter", "methodcaller", "instantiate"),
        *("import_string", "from_pretrained", "load_dataset", "load_url", "load_file", "download"),
        *("sympify", "parse_expr", "unsafe_load", "full_load", "load_state_dict_from_url"),
        *("cached_file", "download_url", "get_file", "imread", "load_learner", "load_model"),
        *("load_pickle", "loadmat", "read_file", "read_gpickle", "safe_download", "savefig"),
        *("assert_python_ok", "inline", "load_library_permanently", "parse_model"),
        *("eval_expr", "unpickle", "unsafe_eval"),
        *("check_requirements", "load_from_checkpoint", "get_method", "get_object", "from_file"),
    ]
)
"""Names that indicate danger in any module."""

SPECIAL_NAME: Final = re.compile(r"__\w+__")


def is_dangerous(path: str) -> bool:
    """Return whether a function or class may run programs or code, or use files or the network.

    Args:
        path: the dotted path, with the names of Python 3.
    """
    root, *inner = parts = path.split(".")
    listed = is_listed(path)
    if listed and root != "torch":
        return False
    return (
        root in DANGEROUS_PACKAGES
        or path in MAKES_CODE
        or any(part.lstrip("_") in DANGEROUS_WHEN_IMPORTED for part in inner)
        or parts[-1] in DANGEROUS_NAMES
        or any(SPECIAL_NAME.fullmatch(part) for part in inner)
        or (
            root == "torch"
            and not DANGEROUS_IN_TORCH.isdisjoint(inner[:1])
            and (not listed or len(inner) == 1)
        )
    )


def is_refused(path: str) -> bool:
    """Return whether a file with this name is refused.

    The name is dangerous, or its effect is unknown: of Python's library, numpy and torch, all names
    that checkpoints need are listed.

    Args:
        path: the dotted path, with the names of Python 3.
    """
    return is_dangerous(path) or (is_listed_package(path) and not is_listed(path))


def attribute_path(owner: object = None, name: object = None, *_: object) -> str:
    """Return the dotted path of an attribute that a pickle gets with getattr.

    Args:
        owner: a class or function, an object, or a plain value.
        name: the name of the attribute.
    """
    if not isinstance(name, str):
        return GETATTR
    if isinstance(owner, Global | ForeignObject):
        path = f"{owner.path[:MAX_PATH_CHARS]}.{name[:MAX_PATH_CHARS]}"
        return path if len(path) < MAX_PATH_CHARS else GETATTR
    return f"{type(owner).__module__}.{type(owner).__qualname__}.{name[:MAX_PATH_CHARS]}"
