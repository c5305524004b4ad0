"""Calls of plain types in a pickle, performed on checked arguments.

Functions that take the machine, which counts copied bytes, also take the arguments of the call.
They raise FalseClaimError if torch.save does not write such a call.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final, cast

import torch

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.torch.claims import are_sizes, torch_attribute
from prune_gui.checkpoint.torch.pickle_machine import DAMAGED, ForeignObject, Global, Machine

MAX_PATH_CHARS: Final = 1000
GETATTR: Final = Global("builtins.getattr")
"""Pickles of bound methods and nested classes call it; see `attribute_path`."""
OBJECT_MAKERS: Final = frozenset(
    ["copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"]
)
"""Functions that create an object of the class in their first argument."""


def ordered_dict(machine: Machine, arguments: tuple[object, ...]) -> OrderedDict[object, object]:
    """Return an OrderedDict from a dictionary or a list of pairs."""
    result: OrderedDict[object, object] = OrderedDict()
    match arguments:
        case ():
            pass
        case (dict() as items,):
            machine.count_copied(items)
            result.update(items)
        case (list() as pairs,):  # as Python 2 wrote them
            machine.count_copied(pairs)
            for pair in pairs:
                match pair:
                    case [key, value]:
                        machine.check_key(key)
                        result[key] = value
                    case _:
                        raise FalseClaimError(DAMAGED)
        case _:
            raise FalseClaimError(DAMAGED)
    return result


def counter(machine: Machine, arguments: tuple[object, ...]) -> Counter[object]:
    """Return a Counter from a dictionary."""
    match arguments:
        case ():
            return Counter()
        case (dict() as counts,):
            machine.count_copied(counts)
            result: Counter[object] = Counter()
            dict.update(result, counts)
            return result
    raise FalseClaimError(DAMAGED)


def set_of(machine: Machine, arguments: tuple[object, ...]) -> set[object]:
    """Return a set from a list or tuple."""
    match arguments:
        case ():
            return set()
        case (tuple() | list() as members,):
            machine.count_copied(members)
            for member in members:
                machine.check_key(member)
            return set(members)
    raise FalseClaimError(DAMAGED)


def size(machine: Machine, arguments: tuple[object, ...]) -> torch.Size:
    """Return a torch.Size from a tuple."""
    match arguments:
        case ():
            return torch.Size()
        case (tuple() as sizes,) if are_sizes(sizes):
            machine.count_copied(sizes)
            return torch.Size(cast("tuple[int, ...]", sizes))
    raise FalseClaimError("it declares a tensor of an impossible shape")


def octets(machine: Machine, arguments: tuple[object, ...]) -> bytes:
    """Return bytes from Latin-1 text, as protocol 2 writes them; other codecs could expand it."""
    match arguments:
        case (str() as text, "latin1" | "latin-1"):
            machine.count_copied(text)
            return text.encode("latin-1")
    raise FalseClaimError("it allocates memory without filling it")


def byte_array(machine: Machine, arguments: tuple[object, ...]) -> bytearray:
    """Return a bytearray from bytes or from Latin-1 text."""
    match arguments:
        case ():
            return bytearray()
        case (bytes() as raw,):
            machine.count_copied(raw)
            return bytearray(raw)
    return bytearray(octets(machine, arguments))


def complex_number(machine: Machine, arguments: tuple[object, ...]) -> complex:
    """Return a complex number from its real and imaginary part."""
    match arguments:
        case (int() | float() as real, int() | float() as imaginary):
            return complex(real, imaginary)
    raise FalseClaimError(DAMAGED)


def device(machine: Machine, arguments: tuple[object, ...]) -> torch.device:
    """Return a device, which is never used."""
    match arguments:
        case (str() as kind,) | (str() as kind, int()):
            return torch.device(kind, *cast("tuple[int, ...]", arguments[1:]))
    raise FalseClaimError(DAMAGED)


def layout(machine: Machine, arguments: tuple[object, ...]) -> torch.layout:
    """Return the layout of a sparse tensor by its name."""
    match arguments:
        case (str() as name,) if isinstance(found := torch_attribute(name), torch.layout):
            return found
    raise FalseClaimError(DAMAGED)


def attribute_path(owner: object = None, name: object = None, *_: object) -> str | None:
    """Return the dotted path of an attribute that a pickle gets with getattr; None if unknown."""
    if not isinstance(name, str):
        return None
    if isinstance(owner, Global | ForeignObject):
        path = f"{owner.path[:MAX_PATH_CHARS]}.{name[:MAX_PATH_CHARS]}"
        return path if len(path) < MAX_PATH_CHARS else None
    return f"{type(owner).__module__}.{type(owner).__qualname__}.{name[:MAX_PATH_CHARS]}"
