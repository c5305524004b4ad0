"""The code that runs in the process of a plug-in: it loads the classes and computes masks.

Any exception of the plug-in is reported. Anything else that it does ends, at worst, this process.
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
from prune_gui.isolated.messages import receive, send
from prune_gui.parallel import CHUNK_ELEMENTS
from prune_gui.pruning.modules.pruning_method import BasePruningMethod, mask_on_top
from prune_gui.pruning.plugins.constructor_fields import describe, validators
from prune_gui.pruning.plugins.faults import MAX_TEXT_LENGTH, Fault, Raised

SHAPES: Final = ((6, 5), (4, 3, 3, 3), (64, 64))
"""Shapes for the trial: a matrix, a convolution, and a tensor with enough units for any amount."""
PRUNING_TYPES: Final = ("unstructured", "structured", "global")
MODULE_NAME: Final = "prune_gui_methods"
"""Module name of a file of methods."""
MAX_TRACEBACK_LENGTH: Final = 20_000
MAX_DOC_LENGTH: Final = 20_000
"""In characters."""


def serve(connection: socket.socket) -> NoReturn:
    """Answer requests of the program until it closes the connection."""
    classes: dict[str, type[BasePruningMethod]] = {}
    while True:
        try:
            request, descriptors = receive(connection)
        except ConnectionError:
            os._exit(0)
        try:
            _limit_memory()
            reply = _answer(classes, request, descriptors)
        except Fault as fault:
            reply = _report(fault)
        except BaseException as error:  # noqa: BLE001 - caused by the plug-in
            reply = _report(_raised_fault(error), error)
        while descriptors:
            os.close(descriptors.pop())
        send(connection, reply)


def _answer(
    classes: dict[str, type[BasePruningMethod]], request: dict[str, Any], descriptors: list[int]
) -> dict[str, Any]:
    if "threads" in request and request["threads"] != torch.get_num_threads():
        torch.set_num_threads(request["threads"])
    match request["do"]:
        case "load":
            plugins = _load(request)
            classes.update({plugin.__name__: plugin for plugin in plugins})
            return {"classes": [_describe(plugin) for plugin in plugins]}
        case "try":
            _try_out(classes[request["class"]], request["given"], request["seed"])
        case "mask":
            _write_mask(classes[request["class"]], request, descriptors.pop())
    return {}


@contextmanager
def _plugin_code(seed: int = 0) -> Iterator[None]:
    torch.default_generator.manual_seed(seed)
    try:
        yield
    except Fault:
        raise
    except BaseException as error:
        raise _raised_fault(error) from error


def _load(request: dict[str, Any]) -> list[type[BasePruningMethod]]:
    """Return the concrete classes that a file or module itself defines under public names."""
    with suppress(OSError):
        os.chdir(request["folder"])
    sys.path[:] = request["search_path"]
    if "entry_point" in request:
        with _plugin_code():
            loaded = EntryPoint(*request["entry_point"]).load()
        if not isinstance(loaded, ModuleType):
            return [loaded] if _is_method(loaded) else []
    else:
        loaded = ModuleType(MODULE_NAME)
        loaded.__file__ = request["path"]
        sys.modules[MODULE_NAME] = loaded  # dataclasses, for example, looks modules up there
        # Not imported: an import writes a cache file beside the file, and trusts its date.
        with _plugin_code():
            source = request["source"].encode("latin-1")
            exec(compile(source, request["path"], "exec", dont_inherit=True), vars(loaded))
    defined = [
        member
        for name, member in vars(loaded).items()
        if _is_method(member) and member.__module__ == loaded.__name__ and not name.startswith("_")
    ]
    return list(dict.fromkeys(defined))


def _is_method(candidate: object) -> TypeGuard[type[BasePruningMethod]]:
    return (
        isinstance(candidate, type)
        and issubclass(candidate, reference.BasePruningMethod)
        and not inspect.isabstract(candidate)
    )


def _describe(plugin: type[BasePruningMethod]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": plugin.__name__}
    try:
        with _plugin_code():
            described["kind"] = _pruning_type(plugin)
            described["doc"] = str(plugin.__doc__)[:MAX_DOC_LENGTH] if plugin.__doc__ else None
            described["parameters"] = describe(plugin)
    except Fault as fault:
        described |= _report(fault)
    return described


def _pruning_type(plugin: type[BasePruningMethod]) -> str:
    kind: object = getattr(plugin, "PRUNING_TYPE", None)
    if not (isinstance(kind, str) and kind in PRUNING_TYPES):
        raise Fault("pruning_type", kind=kind if isinstance(kind, str | None) else repr(kind))
    return kind


def _try_out(plugin: type[BasePruningMethod], given: dict[str, Any], seed: int) -> None:
    """Check that a plug-in returns valid and reproducible masks for small tensors."""
    failure: Fault | None = None
    works = False
    for shape in SHAPES:
        generator = torch.Generator().manual_seed(0)
        t = torch.randn(shape, generator=generator)
        partly = torch.rand(shape, generator=generator) < 0.7
        for remaining in (None, partly):
            try:
                mask, again = (
                    _compute_mask(plugin, given, t.clone(), remaining, "weight", seed)
                    for _ in range(2)
                )
            except Raised as error:
                failure = error
                continue
            if not torch.equal(mask, again):
                raise Fault("another_mask")
            works = True
    if failure and not works:
        raise failure


def _write_mask(plugin: type[BasePruningMethod], request: dict[str, Any], descriptor: int) -> None:
    """Compute a mask for the scores in a shared file, and overwrite them with the mask.

    The scores are mapped copy-on-write, since the plug-in may change them. If elements were pruned
    before, a byte per element follows, 1 where not pruned. The mask is also a byte per element.
    """
    dtype, shape = getattr(torch, request["dtype"]), request["shape"]
    count = math.prod(shape)
    mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    t = torch.frombuffer(mapped, dtype=dtype, count=count).view(shape)
    remaining = None
    if request["pruned_before"]:
        remaining = torch.frombuffer(
            mapped, dtype=torch.bool, count=count, offset=count * dtype.itemsize
        ).view(shape)
    mask = _compute_mask(plugin, request["given"], t, remaining, request["name"], request["seed"])
    unwritten = mask.contiguous().view(-1).view(torch.uint8).numpy().data
    os.lseek(descriptor, 0, os.SEEK_SET)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def _compute_mask(
    plugin: type[BasePruningMethod],
    given: dict[str, Any],
    t: Tensor,
    remaining: Tensor | None,
    name: str,
    seed: int,
) -> Tensor:
    """Return the mask of a plug-in, called as torch calls it: bool, like `t`, True where kept."""
    with _plugin_code(seed):
        checked = {
            parameter: check.validate_python(given[parameter])
            for parameter, check in validators(plugin).items()
        }
        method = plugin(**{**given, **checked})
        method._tensor_name = name
        if method.PRUNING_TYPE == "structured" and not isinstance(
            getattr(method, "dim", None), int
        ):
            raise Fault("no_dim")
        if remaining is None:
            mask = method.compute_mask(t, default_mask=torch.ones_like(t))
        else:
            mask = mask_on_top(method, t, remaining.to(t.dtype))
        if not isinstance(mask, Tensor):
            raise Fault("no_mask", kind=type(mask).__name__)
        if mask.shape != t.shape:
            raise Fault("shape", shown=str(tuple(t.shape)), made=str(tuple(mask.shape)))
        chunks = torch.split(mask.reshape(-1), CHUNK_ELEMENTS)
        # a kernel that this process must compile would take longer
        if not all(bool(((chunk == 0) | (chunk == 1)).all()) for chunk in chunks):
            raise Fault("values")
        return mask.detach().cpu() != 0


def _raised_fault(error: BaseException) -> Raised:
    if isinstance(error, SystemExit):
        return Raised("exit")
    if isinstance(error, SyntaxError):
        return Raised("syntax", line=error.lineno, reason=str(error.msg))
    try:
        text = one_line(" ".join(str(error).split()), MAX_TEXT_LENGTH).rstrip(".")
    except BaseException:  # noqa: BLE001 - __str__ is code of the plug-in
        text = ""
    kind = type(error).__name__
    return Raised("raised", kind=kind, told=text) if text else Raised("raised_bare", kind=kind)


def _report(fault: Fault, cause: BaseException | None = None) -> dict[str, Any]:
    trace = None
    if (cause := cause or fault.__cause__) is not None:
        with suppress(BaseException):  # formatting runs code of the plug-in too
            trace = "".join(traceback.format_exception(cause))[-MAX_TRACEBACK_LENGTH:]
    return {"fault": fault.code, "fields": fault.fields, "trace": trace}


def _limit_memory() -> None:
    """Limit this process to what it has now plus what is free, so that no other is killed."""
    if sys.platform == "linux":
        import resource  # exists on Unix only

        used = psutil.Process().memory_info().data
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = used + psutil.virtual_memory().available
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
