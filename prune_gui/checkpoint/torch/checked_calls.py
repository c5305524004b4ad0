"""What the calls in a torch pickle build: plain values, tensors and arrays, from checked arguments.

torch trusts what a pickle claims about a tensor; here it is compared with the storage that the
tensor views. A builder takes the machine, which counts copied bytes, and the arguments of the call.
It returns None if torch.save does not write such arguments.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import Any, Final, cast

import numpy as np
import torch
import torch._utils
from torch.storage import TypedStorage

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, MAX_DIMS, MAX_ELEMENTS
from prune_gui.checkpoint.torch.pickle_machine import DAMAGED, ForeignObject, Global, Machine
from prune_gui.checkpoint.torch.storages import extent
from prune_gui.language import deferred

PACKED: Final = (torch.quint4x2, torch.quint2x4)
"""Dtypes with several elements in a byte."""
_KINDS: Final = "Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool"
TORCH_TYPES: Final = re.compile(
    rf"torch\.(Tensor|(cuda\.)?((sparse\.)?({_KINDS})Tensor|({_KINDS}|Complex\w+)Storage)|Q\w+Storage"
    rf"|storage\.\w+typedStorage|storage\.TypedStorage|per_(tensor|channel)_\w+"
    rf"|{'|'.join(ELEMENT_BITS)}|u?int[1-7]|bits\w+|quint[24]x[24])"
)
"""Classes, dtypes and schemes that torch.load reads by default and never calls."""
MAX_PATH_CHARS: Final = 1000
GETATTR: Final = Global("builtins.getattr")
"""Pickles of bound methods and nested classes call it; see `attribute_path`."""
OBJECT_MAKERS: Final = frozenset(
    ["copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"]
)
"""Functions that create an object of the class in their first argument."""
COMPRESSED_LAYOUTS: Final = (
    *(torch.sparse_csr, torch.sparse_bsr, torch.sparse_csc, torch.sparse_bsc),
)
LOCAL_TENSOR: Final = "_local_tensor"
"""The attribute of a DTensor with the elements that are on this device."""
RECONSTRUCT: Final = re.compile(r"numpy\._?core\.multiarray\._reconstruct")
FROM_BUFFER: Final = re.compile(r"numpy\._?core\.numeric\._frombuffer")
NUMPY_CODE: Final = re.compile(r"[fciub]\d{1,2}")
IMPOSSIBLE_SHAPE: Final = deferred("it declares a tensor of an impossible shape")
UNFILLED: Final = deferred("it allocates memory without filling it")
Arguments = tuple[object, ...]


def typed_storage(values: torch.UntypedStorage, dtype: torch.dtype) -> TypedStorage:
    """Return a view of a storage of bytes as elements of a dtype, which torch.load makes too."""
    make: Any = TypedStorage
    return cast("TypedStorage", make(wrap_storage=values, dtype=dtype, _internal=True))


def nbytes_of(storage: TypedStorage) -> int:
    """Return the size of a storage in bytes. Its own `nbytes` warns that it is deprecated."""
    return storage._untyped_storage.nbytes()


def torch_attribute(path: str) -> object:
    """Return a class, dtype, layout or scheme of torch; None if this version does not have it."""
    value: object = torch
    for name in path.split(".")[1:]:
        value = getattr(value, name, None)
    constants = type, torch.dtype, torch.layout, torch.qscheme
    return value if isinstance(value, constants) else None


def checked_view(
    storage: TypedStorage,
    offset: int,
    shape: tuple[object, ...],
    strides: tuple[object, ...],
    dtype: torch.dtype | None = None,
) -> int:
    """Return the number of elements of a strided view of a storage."""
    if len(shape) != len(strides):
        raise FalseClaimError(IMPOSSIBLE_SHAPE)
    numel = checked_numel((offset, *strides), shape)
    span = extent(cast("tuple[int, ...]", shape), cast("tuple[int, ...]", strides))
    if (offset + span) * (dtype or storage.dtype).itemsize > nbytes_of(storage):
        raise FalseClaimError(
            "it declares a tensor of shape {shape}, which does not fit its {nbytes:,} bytes",
            shape=shape,
            nbytes=nbytes_of(storage),
        )
    return numel


def checked_numel(others: tuple[object, ...], shape: tuple[object, ...]) -> int:
    """Return the number of elements of a tensor."""
    if len(shape) <= MAX_DIMS and are_sizes((*others, *shape)):
        sizes = cast("tuple[int, ...]", shape)
        if math.prod(filter(None, sizes)) <= MAX_ELEMENTS:
            return math.prod(sizes)
    raise FalseClaimError(IMPOSSIBLE_SHAPE)


def are_sizes(values: tuple[object, ...]) -> bool:
    """Return whether all values are whole numbers in the range of sizes and offsets."""
    return all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def check_hooks(hooks: object) -> None:
    """Check that a tensor has no backward hooks; torch writes an empty dictionary."""
    if hooks:
        raise FalseClaimError("it attaches other data to a tensor")


def set_conj_and_neg(tensor: torch.Tensor, bits: object, numel: int, storage: TypedStorage) -> None:
    """Set the conjugate and negative bits of a tensor, given as {"conj": True, "neg": True}."""
    if not bits:
        return
    if not isinstance(bits, dict) or not all(
        name in ("conj", "neg") and value is True for name, value in bits.items()
    ):  # a value is never hashed, as the hash of nested tuples can take endless time
        raise FalseClaimError("it describes a tensor in a way torch does not write")
    if numel * tensor.itemsize > nbytes_of(storage):  # reading the values would copy them
        raise FalseClaimError("it repeats the elements of a conjugate or negative tensor")
    set_metadata: Any = torch._utils.set_tensor_metadata
    set_metadata(tensor, bits)


PLAIN_CALLS: Final = {
    **dict.fromkeys(("collections.OrderedDict", "collections.Counter", "builtins.set"), DAMAGED),
    "torch.Size": IMPOSSIBLE_SHAPE,
    **dict.fromkeys(("_codecs.encode", "builtins.bytearray"), UNFILLED),
    **dict.fromkeys(("builtins.complex", "torch.device"), DAMAGED),
    "torch.serialization._get_layout": DAMAGED,
}
"""The calls that `plain_value` knows, and the refusals of other arguments."""


def plain_value(path: str, machine: Machine, arguments: Arguments) -> object:
    """Return what a call builds that is no tensor; None for arguments that torch does not write."""
    match path, arguments:
        case "collections.OrderedDict", ():
            return OrderedDict()
        case "collections.OrderedDict", (dict() as items,):
            machine.count_copied(items)
            return OrderedDict(items)
        case "collections.OrderedDict", (list() as pairs,) if all(map(_is_pair, pairs)):
            machine.count_copied(pairs)  # as Python 2 wrote them
            for key, _ in pairs:
                machine.check_key(key)
            return OrderedDict(pairs)
        case "collections.Counter", ():
            return Counter()
        case "collections.Counter", (dict() as counts,):
            machine.count_copied(counts)
            return Counter(counts)
        case "builtins.set", ():
            return set()
        case "builtins.set", (tuple() | list() as members,):
            machine.count_copied(members)
            for member in members:
                machine.check_key(member)
            return set(members)
        case "torch.Size", ():
            return torch.Size()
        case "torch.Size", (tuple() as sizes,) if are_sizes(sizes):
            machine.count_copied(sizes)
            return torch.Size(sizes)
        case "builtins.bytearray", ():
            return bytearray()
        case "builtins.bytearray", (bytes() as octets,):
            machine.count_copied(octets)
            return bytearray(octets)
        case "_codecs.encode" | "builtins.bytearray", (str() as text, "latin1" | "latin-1"):
            machine.count_copied(text)  # as protocol 2 writes bytes; other codecs could expand it
            octets = text.encode("latin-1")
            return octets if path == "_codecs.encode" else bytearray(octets)
        case "builtins.complex", (int() | float() as real, int() | float() as imaginary):
            return complex(real, imaginary)
        case "torch.device", (str(),) | (str(), int()):
            return torch.device(*cast("tuple[str, int]", arguments))  # it is never used
        case "torch.serialization._get_layout", (str() as name,):
            found = torch_attribute(name)
            return found if isinstance(found, torch.layout) else None
    return None


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def attribute_path(owner: object = None, name: object = None, *_: object) -> str | None:
    """Return the dotted path of an attribute that a pickle gets with getattr; None if unknown."""
    if not isinstance(name, str):
        return None
    if isinstance(owner, Global | ForeignObject):
        path = f"{owner.path[:MAX_PATH_CHARS]}.{name[:MAX_PATH_CHARS]}"
        return path if len(path) < MAX_PATH_CHARS else None
    return f"{type(owner).__module__}.{type(owner).__qualname__}.{name[:MAX_PATH_CHARS]}"


class ForeignTensor(torch.Tensor):
    """A tensor of a subclass that needs code: dtype and shape, without values."""


def sparse_tensor(machine: Machine, arguments: Arguments) -> torch.Tensor | None:
    """Build a sparse tensor from (layout, parts); as in torch.load, the indices are not checked."""
    make: Any
    match arguments:
        case torch.sparse_coo, (
            torch.Tensor() as indices,
            torch.Tensor() as values,
            tuple() as shape,
            *coalesced,
        ) if len(coalesced) < 2:
            options: dict[str, object] = {"is_coalesced": True} if coalesced == [True] else {}
            make, parts = torch.sparse_coo_tensor, [indices, values]
        case torch.layout() as layout, (
            torch.Tensor() as pointers,
            torch.Tensor() as indices,
            torch.Tensor() as values,
            tuple() as shape,
        ) if layout in COMPRESSED_LAYOUTS:
            options = {"layout": layout}
            make, parts = torch.sparse_compressed_tensor, [pointers, indices, values]
        case _:
            return None
    checked_numel((), shape)
    with suppress(RuntimeError, ValueError, TypeError):
        return cast("torch.Tensor", make(*parts, shape, check_invariants=False, **options))
    return None


def meta_tensor(machine: Machine, arguments: Arguments) -> torch.Tensor:
    """Build a tensor without values from (dtype, shape, strides, requires_grad)."""
    match arguments:
        case (
            torch.dtype() as dtype,
            tuple() as shape,
            tuple() as strides,
            bool() as gradient,
        ) if len(shape) == len(strides):
            checked_numel(strides, shape)
            return torch.empty_strided(
                cast("tuple[int, ...]", shape),
                cast("tuple[int, ...]", strides),
                dtype=dtype,
                device="meta",
                requires_grad=gradient,
            )
    raise FalseClaimError(IMPOSSIBLE_SHAPE)


def wrapper_subclass(machine: Machine, arguments: Arguments) -> torch.Tensor | None:
    """Build from (class, dtype, shape, strides, ...); the values are in attributes of the class."""
    match arguments:
        case (Global(), torch.dtype() as dtype, tuple() as shape, tuple() as strides, *_):
            empty = meta_tensor(machine, (dtype, shape, strides, False))
            return empty.as_subclass(ForeignTensor)
    return None


def local_tensor(tensor: torch.Tensor, attributes: object) -> torch.Tensor:
    """Return the values of a DTensor if all are in the file; else, and for others, the tensor."""
    slots = attributes[-1] if isinstance(attributes, tuple) and attributes else attributes
    local = slots.get(LOCAL_TENSOR) if isinstance(slots, dict) else None
    is_whole = isinstance(local, torch.Tensor) and local.shape == tensor.shape
    return local if isinstance(local, torch.Tensor) and is_whole else tensor


class Arrays:
    """Converts records of numpy arrays to tensors, each array and each buffer once."""

    def __init__(self) -> None:
        self._tensors: dict[int, torch.Tensor | None] = {}
        self._buffers: dict[int, torch.Tensor] = {}

    def as_tensors(self, members: dict[object, object]) -> dict[object, object]:
        """Return a dictionary with tensors in place of arrays, but for those of unknown dtypes."""
        arrays = {
            key: tensor
            for key, member in members.items()
            if isinstance(member, ForeignObject) and (tensor := self._tensor(member)) is not None
        }
        return {**members, **arrays} if arrays else members

    def _tensor(self, record: ForeignObject) -> torch.Tensor | None:
        if id(record) not in self._tensors:
            self._tensors[id(record)] = self._converted(record)
        return self._tensors[id(record)]

    def _converted(self, record: ForeignObject) -> torch.Tensor | None:
        if RECONSTRUCT.fullmatch(record.path):
            match record.state:
                case (int(), tuple() as shape, dtype, fortran, bytes() as octets):
                    return self._view(octets, dtype, shape, fortran=fortran is True)
                case (int(), tuple() as shape, dtype, _, ForeignObject("builtins.bytes", ())):
                    return self._view(b"", dtype, shape, fortran=False)
        elif FROM_BUFFER.fullmatch(record.path):
            match record.arguments:
                case (bytes() | bytearray() as buffer, dtype, tuple() as shape, order):
                    return self._view(buffer, dtype, shape, fortran=order == "F")
        return None

    def _view(
        self, octets: bytes | bytearray, dtype: object, shape: tuple[object, ...], *, fortran: bool
    ) -> torch.Tensor | None:
        match dtype:
            case ForeignObject("numpy.dtype", (str() as code, *_), (_, byte_order, *_)) if (
                NUMPY_CODE.fullmatch(code) and byte_order != ">"
            ):
                pass
            case _:
                return None
        with suppress(TypeError, FalseClaimError):  # torch has no such dtype; a false shape
            element = torch.from_numpy(np.empty(0, code)).dtype
            if checked_numel((), shape) * element.itemsize != len(octets):
                return None
            sizes = cast("tuple[int, ...]", shape)
            if not octets:
                return torch.empty(sizes, dtype=element)
            if id(octets) not in self._buffers:
                self._buffers[id(octets)] = torch.frombuffer(bytearray(octets), dtype=torch.uint8)
            values = self._buffers[id(octets)].view(element)
            if fortran:
                return values.reshape(sizes[::-1]).permute(*reversed(range(len(sizes))))
            return values.reshape(sizes)
        return None
