"""Runs the function of an evaluator, for many evaluations, in the interpreter that the user named.

That interpreter may lack this program and all of its libraries, so this file imports only the
standard library (of Python 3.9 or later), and torch when a function takes a state dict. Requests
and replies are JSON after their length in bytes, over a socket; see module `function`.
The standard streams belong to the code of the user.
"""

from __future__ import annotations

import gc
import inspect
import json
import mmap
import os
import socket
import struct
import sys
import traceback
from types import ModuleType
from typing import Any, Callable  # noqa: UP035 - for Python 3.9

LENGTH = struct.Struct("!I")
PATH_NAMES = ("checkpoint", "path", "file", "filename")
PATH_TYPES = ("str", "Path", "pathlib.Path", "PathLike", "os.PathLike", "PathLike[str]")
MAX_TEXT_LENGTH = 300
MAX_DEPTH = 8


class FunctionFault(Exception):  # noqa: N818 - reported to the program
    """An error that is reported by a code, with fields for the message."""


def serve(connection: socket.socket) -> None:
    """Answer requests until the program closes the connection."""
    own_pid = os.getpid()
    function = None
    while True:
        request, descriptors = receive(connection)
        try:
            if request["do"] == "load":
                own_file = request["path"]
                function = load(request)
                reply = describe(function)
            else:
                assert function is not None
                reply = {"value": call(function, request, descriptors)}
        except FunctionFault as fault:
            reply = {"fault": fault.args}
        except BaseException as error:  # noqa: BLE001 - raised by the code of the user
            traceback.print_exc()
            told = described(error)
            if error.__cause__ is not None:  # such as the import that failed in an import
                told = f"{told} ({described(error.__cause__)})"
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == own_file]
            reply = {"fault": ["raised", {"told": told, "line": (lines or [None])[-1]}]}
        if os.getpid() != own_pid:  # a forked child returned from the function
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        gc.collect()
        octets = json.dumps(reply).encode()
        connection.sendall(LENGTH.pack(len(octets)) + octets)


def described(error: BaseException) -> str:
    """Return the type of an error and what it says, if it does, in one line."""
    told = " ".join(str(error).split())
    if len(told) > MAX_TEXT_LENGTH:
        told = f"{told[:MAX_TEXT_LENGTH]} …"
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next request and the descriptors that were passed with it."""
    descriptors: list[int] = []

    def read(size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            received, passed, _, _ = socket.recv_fds(connection, size - len(octets), 1)
            descriptors.extend(passed)
            if not received:
                os._exit(0)
            octets += received
        return octets

    return json.loads(read(LENGTH.unpack(read(LENGTH.size))[0])), descriptors


def load(request: dict[str, Any]) -> Callable[..., object]:
    """Run the file of an evaluator and return the function.

    The file is not imported: an import writes a cache file beside the file, and trusts its date.
    """
    path, name = request["path"], request["function"]
    module = ModuleType(os.path.splitext(os.path.basename(path))[0])  # noqa: PTH119, PTH122
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pickle look modules up there
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120
    sys.argv = [path]
    source = request["source"].encode("latin-1")
    exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    function = vars(module).get(name)
    if not callable(function):
        names = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        raise FunctionFault("no_function", {"name": name, "names": ", ".join(names) or "-"})
    return function  # type: ignore[no-any-return]


def describe(function: Callable[..., object]) -> dict[str, Any]:
    """Return what the first parameter takes, "path" or "state_dict", and whether `split` exists."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some compiled functions have no signature
        return {"takes": "state_dict", "split": False}
    first = next(iter(parameters.values()), None)
    if first is None:
        raise FunctionFault("no_parameter", {})
    note = first.annotation
    annotation = note if isinstance(note, str) else getattr(note, "__name__", "")
    is_path = first.name in PATH_NAMES or first.name.endswith(("_path", "_file"))
    is_path = is_path or annotation in PATH_TYPES
    return {"takes": "path" if is_path else "state_dict", "split": "split" in parameters}


def call(function: Callable[..., object], request: dict[str, Any], descriptors: list[int]) -> Any:  # noqa: ANN401
    """Call the function and return its result with plain numbers."""
    options = {} if request["split"] is None else {"split": request["split"]}
    if request["path"] is not None:
        return plain(function(request["path"], **options))
    return plain(function(state_dict(descriptors[0], request["dtypes"]), **options))


def state_dict(descriptor: int, dtypes: dict[str, str]) -> dict[str, Any]:
    """Return the tensors of a safetensors file by name. It is mapped: changes stay here."""
    import torch

    size = os.fstat(descriptor).st_size
    octets = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
    [header_length] = struct.unpack("<Q", octets[:8])
    start = 8 + header_length
    tensors = {}
    for name, entry in json.loads(octets[8:start]).items():
        if name == "__metadata__":
            continue
        dtype = getattr(torch, dtypes.get(entry["dtype"], ""), None)
        if dtype is None:
            raise FunctionFault("no_dtype", {"name": name, "dtype": entry["dtype"]})
        first, last = entry["data_offsets"]
        if first == last:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
            continue
        flat = torch.frombuffer(octets, dtype=torch.uint8, count=last - first, offset=start + first)
        if flat.data_ptr() % torch.empty(0, dtype=dtype).element_size():
            flat = flat.clone()  # torch requires aligned elements
        tensors[name] = flat.view(dtype).reshape(entry["shape"])
    return tensors


def plain(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any result of the user
    """Return a result as a float, or as a dictionary of such."""
    number = as_number(value)
    if number is not None:
        return number
    if not isinstance(value, dict) or depth > MAX_DEPTH:
        raise FunctionFault("not_a_number", {"kind": type(value).__name__})
    numbers = {}
    for key, each in value.items():
        try:
            numbers[str(key)] = plain(each, depth + 1)
        except FunctionFault:  # texts and lists beside the numbers are left out
            continue
    if not numbers:
        raise FunctionFault("not_a_number", {"kind": "dict without numbers"})
    return numbers


def as_number(value: Any) -> float | None:  # noqa: ANN401 - any result of the user
    """Return a number, or the number of a tensor or array of one element, as a float."""
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value.item())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[-1])))
