"""What runs in the process of a plug-in: it loads the classes, and makes masks when asked to.

Whatever the code of the plug-in raises here is told to the program; whatever else it does ends
this process at worst.
"""

from __future__ import annotations

import inspect
import math
import mmap
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, Final, NoReturn, TypeGuard

import psutil
import torch
from torch import Tensor
from torch.nn.utils import prune as reference

from prune_gui.errors import one_line
from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.container import mask_on_top
from prune_gui.pruning.parallel import CHUNK_ELEMENTS
from prune_gui.pruning.plugins.faults import LONGEST, Fault, Raised
from prune_gui.pruning.plugins.fields import describe, validators
from prune_gui.pruning.plugins.messages import pack, unpack

SHAPES: Final = ((6, 5), (4, 3, 3, 3), (64, 64))
"""What a plug-in is tried on: a matrix, a convolution, and enough for one that counts in units."""
KINDS: Final = ("unstructured", "structured", "global")
MODULE: Final = "prune_gui_methods"
"""What a file of methods is called as a module."""
LONGEST_TRACEBACK: Final = 20_000
LONGEST_DOC: Final = 20_000
"""Characters."""


def serve(connection: socket.socket) -> NoReturn:
    """Do what the program asks for, until it closes the connection."""
    worker = _Worker()
    descriptors: list[int] = []

    def read(size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            more, came, _, _ = socket.recv_fds(connection, size - len(octets), 1)
            descriptors.extend(came)
            if not more:
                os._exit(0)
            octets += more
        return octets

    while True:
        request = unpack(read)
        try:
            _limit_memory()
            reply = worker.answer(request, descriptors)
        except Fault as fault:
            reply = _told(fault)
        except BaseException as error:  # noqa: BLE001 - from here, but by what the plug-in did
            reply = _told(_raised(error), error)
        while descriptors:
            os.close(descriptors.pop())
        connection.sendall(pack(reply))


class _Worker:
    """The classes of one plug-in."""

    def __init__(self) -> None:
        self._classes: dict[str, type[BasePruningMethod]] = {}

    def answer(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            Fault: of the plug-in.
        """
        if "threads" in request and request["threads"] != torch.get_num_threads():
            torch.set_num_threads(request["threads"])
        match request["do"]:
            case "load":
                found = _load(request)
                self._classes = {plugin.__name__: plugin for plugin in found}
                return {"classes": [_describe(plugin) for plugin in found]}
            case "try":
                _try_out(self._classes[request["class"]], request["given"], request["seed"])
            case "mask":
                _make(self._classes[request["class"]], request, descriptors.pop())
        return {}


@contextmanager
def _foreign(seed: int = 0) -> Iterator[None]:
    """Run code of the plug-in under a seed.

    Raises:
        Raised: it raised an exception, of whatever kind: nobody else raises one here.
    """
    torch.default_generator.manual_seed(seed)
    try:
        yield
    except Fault:
        raise
    except BaseException as error:
        raise _raised(error) from error


def _load(request: dict[str, Any]) -> list[type[BasePruningMethod]]:
    """Return the classes of a file, or of an entry point: one class, or all that a module defines.

    Those are the concrete ones that it defines itself and does not name with an underscore.
    """
    with suppress(OSError):
        os.chdir(request["folder"])
    sys.path[:] = request["search_path"]
    if "entry_point" in request:
        with _foreign():
            found = EntryPoint(*request["entry_point"]).load()
        if not isinstance(found, ModuleType):
            return [found] if _is_method(found) else []
    else:
        found = ModuleType(MODULE)
        found.__file__ = request["path"]
        sys.modules[MODULE] = found  # dataclasses, for one, look there
        # Not the way of an import, which writes a file beside this one and goes by its date.
        with _foreign():
            source = request["source"].encode("latin-1")
            exec(compile(source, request["path"], "exec", dont_inherit=True), vars(found))
    defined = [
        thing
        for name, thing in vars(found).items()
        if _is_method(thing) and thing.__module__ == found.__name__ and not name.startswith("_")
    ]
    return list(dict.fromkeys(defined))


def _is_method(thing: object) -> TypeGuard[type[BasePruningMethod]]:
    return (
        isinstance(thing, type)
        and issubclass(thing, reference.BasePruningMethod)
        and not inspect.isabstract(thing)
    )


def _describe(plugin: type[BasePruningMethod]) -> dict[str, Any]:
    """Return a class as the program is told of it: with its parameters, or what is wrong."""
    described: dict[str, Any] = {"name": plugin.__name__}
    try:
        with _foreign():
            described["kind"] = _kind_of(plugin)
            described["doc"] = str(plugin.__doc__)[:LONGEST_DOC] if plugin.__doc__ else None
            described["parameters"] = describe(plugin)
    except Fault as fault:
        described |= _told(fault)
    return described


def _kind_of(plugin: type[BasePruningMethod]) -> str:
    kind: object = getattr(plugin, "PRUNING_TYPE", None)
    if not (isinstance(kind, str) and kind in KINDS):
        raise Fault("pruning_type", kind=kind if isinstance(kind, str | None) else repr(kind))
    return kind


def _try_out(plugin: type[BasePruningMethod], given: dict[str, Any], seed: int) -> None:
    """Make masks of small tensors: are they masks, and do they come out the same again?

    Raises:
        Fault: they are not, or do not, or the plug-in makes none of any.
    """
    failed: Fault | None = None
    works = False
    for shape in SHAPES:
        drawn = torch.Generator().manual_seed(0)
        t = torch.randn(shape, generator=drawn)
        some = torch.rand(shape, generator=drawn) < 0.7
        for there in (None, some):
            try:
                mask, again = (
                    _ask(plugin, given, t.clone(), there, "weight", seed) for _ in range(2)
                )
            except Raised as error:
                failed = error
                continue
            if not torch.equal(mask, again):
                raise Fault("another_mask")
            works = True
    if failed and not works:
        raise failed


def _make(plugin: type[BasePruningMethod], request: dict[str, Any], descriptor: int) -> None:
    """Make a mask of the scores in a shared file, and write it there in their place.

    The file holds the scores, which the plug-in may change for itself, then, if some were pruned
    before, a byte for each that is 1 where it was not. The mask is a byte for each too.
    """
    dtype, shape = getattr(torch, request["dtype"]), request["shape"]
    count = math.prod(shape)
    area = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    t = torch.frombuffer(area, dtype=dtype, count=count).view(shape)
    there = None
    if request["pruned_before"]:
        there = torch.frombuffer(
            area, dtype=torch.bool, count=count, offset=count * dtype.itemsize
        ).view(shape)
    mask = _ask(plugin, request["given"], t, there, request["name"], request["seed"])
    left = mask.contiguous().view(-1).view(torch.uint8).numpy().data
    os.lseek(descriptor, 0, os.SEEK_SET)
    while left:
        left = left[os.write(descriptor, left) :]


def _ask(
    plugin: type[BasePruningMethod],
    given: dict[str, Any],
    t: Tensor,
    there: Tensor | None,
    name: str,
    seed: int,
) -> Tensor:
    """Have a plug-in make a mask, called as torch calls it.

    Args:
        plugin: its class.
        given: for its constructor.
        t: scores, +0 where pruned before; the plug-in may write to them.
        there: boolean, where entries are still there; None if nothing was pruned before. Then the
            plug-in is shown all of `t` as it is, else what its `PRUNING_TYPE` says.
        name: what torch calls the parameter: "weight".
        seed: of torch's generator.

    Returns:
        Boolean, of the shape of `t`, True where the plug-in keeps.

    Raises:
        Fault: it makes none.
    """
    with _foreign(seed):
        checked = {
            parameter: check.validate_python(given[parameter])
            for parameter, check in validators(plugin).items()
        }
        method = plugin(**{**given, **checked})
        method._tensor_name = name
        if method.PRUNING_TYPE == "structured" and not isinstance(_dim(method), int):
            raise Fault("no_dim")
        if there is None:
            mask = method.compute_mask(t, default_mask=torch.ones_like(t))
        else:
            mask = mask_on_top(method, t, there.to(t.dtype))
        if not isinstance(mask, Tensor):
            raise Fault("no_mask", kind=type(mask).__name__)
        if mask.shape != t.shape:
            raise Fault("shape", shown=str(tuple(t.shape)), made=str(tuple(mask.shape)))
        if not _is_binary(mask):
            raise Fault("values")
        return mask.detach().cpu() != 0


def _is_binary(mask: Tensor) -> bool:
    """Tell whether a mask holds nothing but 0 and 1, with no loop to compile in each process."""
    parts = torch.split(mask.reshape(-1), CHUNK_ELEMENTS)
    return all(bool(((part == 0) | (part == 1)).all()) for part in parts)


def _dim(method: BasePruningMethod) -> object:
    return getattr(method, "dim", None)


def _raised(error: BaseException) -> Raised:
    """Return what says in one line what happened."""
    if isinstance(error, SystemExit):
        return Raised("exit")
    if isinstance(error, SyntaxError):
        return Raised("syntax", line=error.lineno, reason=str(error.msg))
    try:
        told = one_line(" ".join(str(error).split()), LONGEST).rstrip(".")
    except BaseException:  # noqa: BLE001 - that is the plug-in's code too
        told = ""
    kind = type(error).__name__
    return Raised("raised", kind=kind, told=told) if told else Raised("raised_bare", kind=kind)


def _told(fault: Fault, cause: BaseException | None = None) -> dict[str, Any]:
    """Return a fault as the program is told of it, with a traceback for the log."""
    trace = None
    if (cause := cause or fault.__cause__) is not None:
        with suppress(BaseException):  # formatting it runs the plug-in's code too
            trace = "".join(traceback.format_exception(cause))[-LONGEST_TRACEBACK:]
    return {"fault": fault.code, "fields": fault.fields, "trace": trace}


def _limit_memory() -> None:
    """Let this process have the memory that is free now, and what it has already.

    What asks for more gets a MemoryError, where the system would look for a process to end.
    """
    if sys.platform == "linux":
        import resource

        has = psutil.Process().memory_info().data
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = has + psutil.virtual_memory().available
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
