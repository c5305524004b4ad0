"""The state dict of a whole module in a pickle, from records of modules that are never built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Final, TypeGuard

import torch

from prune_gui.checkpoint.named_code import RUNS_OWN_SOURCE
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.torch.pickle_machine import ForeignObject

MAX_MODULES: Final = 1 << 18
MAX_NAME_CHARS: Final = 1 << 27
"""The limits for the modules and parameters of a file, and for the total length of their names.
Those that are shared count once per name."""
MAX_ARGUMENTS: Final = 3
"""The number of arguments of a call among which the attributes of a module may be."""
MAX_MODULE_DEPTH: Final = 256
COMPILED_MODULE: Final = "torch._dynamo.eval_frame.OptimizedModule"
"""What torch.compile returns. It is pickled as a call with the original module as an argument."""


class ModuleState(dict[str, object]):
    """The tensors of a module, named and ordered as its `state_dict` does.

    A tensor that needs code is a record.

    Attributes:
        module_classes: the dotted names of the classes of the module and of all modules in it, by
            their paths.
    """

    def __init__(self) -> None:
        super().__init__()
        self.module_classes: dict[str, str] = {}


@dataclass(slots=True)
class ModuleLimits:
    """The number of modules and the total length of names that may still be visited."""

    modules: int = MAX_MODULES
    name_chars: int = MAX_NAME_CHARS

    def count_members(self, members: Sized) -> None:
        """Count the items of a dictionary of a module, whatever they are."""
        self.modules -= len(members)
        self.count(0, 0)

    def count(self, name_chars: int, depth: int) -> None:
        """Count the length of the name of a module or parameter at a depth."""
        self.name_chars -= name_chars
        if self.modules < 0 or self.name_chars < 0 or depth > MAX_MODULE_DEPTH:
            raise FalseClaimError("its modules are nested too deeply, or contain each other")


def attributes_of(record: ForeignObject) -> dict[object, object]:
    """Return the attributes of an object; {} if they are not known.

    Pickles hold them as a dictionary, as a pair of a dictionary and slots, or, of a GraphModule, as
    an argument of the call that builds it.
    """
    state = record.state[0] if isinstance(record.state, tuple) and record.state else record.state
    if isinstance(state, dict):
        return state
    if record.path == COMPILED_MODULE and record.arguments:
        return {"_parameters": {}, "_modules": {"_orig_mod": record.arguments[0]}}
    for argument in record.arguments[:MAX_ARGUMENTS]:
        if isinstance(argument, dict) and _has_modules(argument):
            return argument
    return {}


def _has_modules(attributes: object) -> bool:
    return (
        isinstance(attributes, dict)
        and isinstance(attributes.get("_parameters"), dict)
        and isinstance(attributes.get("_modules"), dict)
    )


def is_module(value: object) -> TypeGuard[ForeignObject]:
    """Return whether a value is the record of a torch.nn.Module."""
    return isinstance(value, ForeignObject) and _has_modules(attributes_of(value))


def module_state(module: ForeignObject, limits: ModuleLimits) -> ModuleState:
    """Return the parameters and persistent buffers of a module and of all modules in it."""
    state = ModuleState()
    stack = [(module, "", 0)]
    while stack:
        record, prefix, depth = stack.pop()
        attributes = attributes_of(record)
        for kind in ("_parameters", "_buffers", "_modules"):
            if isinstance(members := attributes.get(kind), dict):
                limits.count_members(members)
        state.module_classes[prefix.removesuffix(".")] = _class_name(record, attributes)
        for name, tensor in _own_tensors(attributes):
            limits.count(len(prefix) + len(name), depth)
            state[f"{prefix}{name}"] = tensor
        children = []
        for name, child in _named(attributes, "_modules"):
            if is_module(child):
                limits.count(len(prefix) + len(name), depth)
                children.append((child, f"{prefix}{name}.", depth + 1))
        stack.extend(reversed(children))
    return state


def _class_name(record: ForeignObject, attributes: Mapping[object, object]) -> str:
    if record.path in RUNS_OWN_SOURCE:
        name = attributes.get("_graphmodule_cls_name")
        return f"torch.fx.{name if isinstance(name, str) else 'GraphModule'}"
    return record.path


def _own_tensors(attributes: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """Yield the parameters and persistent buffers of one module, without those inside of it."""
    transient = attributes.get("_non_persistent_buffers_set", ())
    if not isinstance(transient, set):
        transient = ()
    for kind in ("_parameters", "_buffers"):
        for name, tensor in _named(attributes, kind):
            is_tensor = isinstance(tensor, torch.Tensor | ForeignObject)
            if is_tensor and not (kind == "_buffers" and name in transient):
                yield name, tensor


def _named(attributes: Mapping[object, object], kind: str) -> Iterator[tuple[str, object]]:
    """Yield the items of a dictionary of a module under text keys."""
    members = attributes.get(kind)
    if isinstance(members, dict):
        for name, member in members.items():
            if isinstance(name, str):
                yield name, member
