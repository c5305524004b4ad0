"""What a torch pickle claims and names, found before anything in it is built or called.

torch believes the sizes written in a checkpoint: it asks for that much memory, and views storages
beyond the bytes that the file holds for them. So they are checked here first; and so is every name,
because `torch.load(weights_only=True)` stops at the first that it does not know, and lets a few
calls through that take any memory or time.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import torch

from prune_gui.checkpoint.pickle_machine import (
    DAMAGED,
    OPAQUE,
    FalseClaimError,
    Global,
    Machine,
    Made,
    Opaque,
    Ordered,
)
from prune_gui.checkpoint.tensor_info import ENTRY_BITS, MAX_DIMS, MAX_ENTRIES
from prune_gui.language import later

STORAGE_ITEMSIZE: Final = {
    "DoubleStorage": 8,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "ComplexDoubleStorage": 16,
    "ComplexFloatStorage": 8,
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
    "QInt32Storage": 4,
    "QInt8Storage": 1,
    "QUInt8Storage": 1,
    "UntypedStorage": 1,
}
"""Bytes of one entry of the storage types that torch names in its files."""

TYPES: Final = re.compile(
    r"torch\.((cuda\.)?(sparse\.)?\w*Tensor|(cuda\.|storage\.)?\w+Storage|per_(tensor|channel)_\w+"
    rf"|{'|'.join(ENTRY_BITS)}|u?int[1-7]|bits\w+)"
)
"""Classes, dtypes and schemes of torch that are named, and called by nothing that torch writes."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of memory that a pickle asks for.

    Attributes:
        key: in the file.
        itemsize: bytes of one entry.
        nbytes: of all.
        typed: whether it is of one of the older dtypes; newer ones lie in storages of bytes.
    """

    key: str
    itemsize: int
    nbytes: int
    typed: bool


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that would be built from checked claims, of so many entries."""

    entries: int = 0


@dataclass(frozen=True, slots=True)
class Scan:
    """What a pickle holds.

    Attributes:
        root: with dictionaries, lists and tuples as they are, and `Tensor` and `Made` in them.
        foreign: the names of what would have to run to open it, in their order.
        protocol: of pickle.
        readable: whether torch's restricted unpickler knows all opcodes.
        copied: bytes of tensors that are built by copying others.
    """

    root: object
    foreign: tuple[str, ...]
    protocol: int
    readable: bool
    copied: int


def scan(file: BinaryIO, check: Callable[[Storage], None]) -> Scan:
    """Read one pickle from `file` up to its end, and check what it claims about tensors.

    Args:
        file: positioned at the start of the pickle; afterwards just behind it.
        check: called with every storage that is mentioned, to compare it with the file.

    Raises:
        FalseClaimError: a tensor reaches beyond its storage, or the pickle is damaged; but if it
            needs code to open, that is what is returned.
    """
    machine = _TorchMachine(check)
    root: object = OPAQUE
    try:
        root = machine.run(file)
    except FalseClaimError:
        if not machine.foreign:
            raise
    return Scan(
        root, tuple(machine.foreign), machine.protocol, machine.unread is None, machine.copied
    )


class _TorchMachine(Machine):
    """Knows what torch.save writes.

    Attributes:
        foreign: names of everything else, in their order.
        copied: see `Scan`.
    """

    def __init__(self, check: Callable[[Storage], None]) -> None:
        super().__init__()
        self.foreign: dict[str, None] = {}
        self.copied = 0
        self._check = check
        self._itemsizes: dict[str, int] = {}

    @property
    def _hopeless(self) -> bool:
        """Whether torch would not load this: then claims do not matter, only what is in there."""
        return bool(self.foreign) or self.unread is not None

    def name(self, path: str) -> Global:
        """Take note of a name that torch.save does not write."""
        if path not in _CALLS and not TYPES.fullmatch(path):
            self.foreign[path] = None
        return Global(path)

    def call(self, function: object, arguments: object) -> object:
        """Return what a call would give, as far as claims depend on it."""
        if not isinstance(function, Global):
            return OPAQUE
        path = function.path
        known = _CALLS.get(path)
        if known is not None and isinstance(arguments, tuple):
            try:
                return known(self, arguments)
            except FalseClaimError:
                if not self._hopeless:
                    raise
                return Tensor() if "_rebuild" in path else OPAQUE
        if path in self.foreign:
            match path, arguments:
                case "copyreg._reconstructor", (Global(path), *_):
                    pass
            return Made(path)
        raise FalseClaimError(
            later("it makes a {kind} without contents", kind=path.rpartition(".")[2])
        )

    def build(self, value: object, state: object) -> object:
        """Take note of the attributes of foreign things; let an OrderedDict have harmless ones."""
        if isinstance(value, Made):
            value.state = state
        elif isinstance(value, Tensor):
            raise FalseClaimError(later("it changes a tensor after building it"))
        elif not self._hopeless:
            if not isinstance(value, Ordered):
                raise FalseClaimError(DAMAGED)
            _check_attributes(state, OrderedDict)
        return value

    def fetch(self, claim: object) -> object:
        """Return the storage that the pickle refers to."""
        match claim:
            case ("storage", Global(path), str() | int() as key, _, int() as numel, *view):
                pass
            case ("module", *_):  # legacy files add the source of a module's class
                return claim[1] if len(claim) > 1 else OPAQUE
            case _ if self._hopeless:
                return OPAQUE
            case _:
                raise FalseClaimError(
                    later("it holds something other than storages beside its pickle")
                )
        key, itemsize = str(key), STORAGE_ITEMSIZE.get(path.rpartition(".")[2])
        if itemsize is None:
            raise FalseClaimError(later("it holds a storage of unknown type {kind}", kind=path))
        if not (_are_sizes((numel,)) and key.isascii()):
            raise FalseClaimError(
                later(
                    "it holds a storage {key!r} of {entries} entries", key=key[:40], entries=numel
                )
            )
        if self._itemsizes.setdefault(key, itemsize) != itemsize:
            raise FalseClaimError(later("it claims the storage {key!r} with two types", key=key))
        typed = not path.endswith("UntypedStorage")
        storage = Storage(key, itemsize, numel * itemsize, typed)
        self._check(storage)
        match view:
            case [] | [Opaque()]:
                return storage
            case [(_, int() as start, int() as part)]:
                if _are_sizes((start, part, numel - start - part)):
                    return Storage(key, itemsize, part * itemsize, typed)
        raise FalseClaimError(later("it describes a storage in a way torch does not write"))

    def _tensor(self, arguments: tuple[object, ...], itemsize: int | None = None) -> Tensor:
        """Check that (storage, offset, shape, strides, ...) stays within the storage."""
        match arguments:
            case (Storage() as storage, int() as offset, tuple() as shape, tuple() as strides, *_):
                pass
            case _:
                raise FalseClaimError(later("it describes a tensor in a way torch does not write"))
        if len(shape) != len(strides):
            raise FalseClaimError(later("it claims a tensor of an impossible shape"))
        entries = _entries((offset, *strides), shape)
        end = (offset + extent(shape, strides)) * (itemsize or storage.itemsize)
        if end > storage.nbytes:
            raise FalseClaimError(
                later(
                    "it claims a tensor of shape {shape}, which does not fit its {nbytes:,} bytes",
                    shape=shape,
                    nbytes=storage.nbytes,
                )
            )
        if len(arguments) > 5 and arguments[5] and not isinstance(arguments[5], Opaque):
            raise FalseClaimError(later("it attaches something to a tensor"))
        return Tensor(entries)

    def _tensor_of_dtype(self, arguments: tuple[object, ...]) -> Tensor:
        """Check a tensor of a newer dtype, which lies in a storage of bytes."""
        match arguments:
            case (_, _, _, _, _, _, Global(path), *_):
                return self._tensor(arguments, _itemsize(path))
        raise FalseClaimError(later("it describes a tensor in a way torch does not write"))

    def _quantized(self, arguments: tuple[object, ...]) -> Tensor:
        tensor = self._tensor((*arguments[:5], *arguments[6:7]))
        storage = arguments[0]
        assert isinstance(storage, Storage)
        if tensor.entries * storage.itemsize > storage.nbytes:  # torch makes room for all of them
            raise FalseClaimError(later("it repeats the entries of a quantized tensor"))
        return tensor

    def _sparse(self, arguments: tuple[object, ...]) -> Tensor:
        match arguments:
            case (_, (Tensor(), Tensor(), tuple() as shape, *_)) | (
                _,
                (Tensor(), Tensor(), Tensor(), tuple() as shape),
            ):
                return Tensor(_entries((), shape))
        raise FalseClaimError(later("it describes a sparse tensor in a way torch does not write"))

    def _without_values(self, arguments: tuple[object, ...]) -> Tensor:
        match arguments:
            case (_, tuple() as shape, tuple() as strides, *_) if len(shape) == len(strides):
                return Tensor(_entries(strides, shape))
        raise FalseClaimError(later("it claims a tensor of an impossible shape"))

    def _copy(self, arguments: tuple[object, ...]) -> Tensor:
        """Count a tensor of another device, which is made from one that the file holds."""
        match arguments:
            case (Tensor() as tensor, Global(path), *_):
                self.copied += tensor.entries * _itemsize(path)
                return tensor
        raise FalseClaimError(later("it describes a tensor in a way torch does not write"))

    def _parameter(self, arguments: tuple[object, ...]) -> Tensor:
        match arguments:
            case (Tensor() as tensor, _, hooks, state):
                _check_attributes(state, torch.Tensor)
            case (Tensor() as tensor, _, hooks):
                pass
            case (Tensor() as tensor,) | (Tensor() as tensor, _):
                return tensor
            case _:
                raise FalseClaimError(
                    later("it describes a parameter in a way torch does not write")
                )
        if hooks and not isinstance(hooks, Opaque):
            raise FalseClaimError(later("it attaches something to a tensor"))
        return tensor

    def _of_type(self, arguments: tuple[object, ...]) -> object:
        match arguments:
            case (Global() as function, _, tuple() as inner, state):
                _check_attributes(state, torch.Tensor)
                return self.call(function, inner)
        raise FalseClaimError(later("it describes a tensor in a way torch does not write"))

    def _ordered(self, arguments: tuple[object, ...]) -> Ordered:
        made = Ordered()
        match arguments:
            case ():
                pass
            case (dict() as items,):
                made.update(items)
            case (list() as pairs,):  # as Python 2 wrote them
                for pair in pairs:
                    match pair:
                        case [str() as key, value] | (str() as key, value):
                            made[key] = value
                        case [key, _] | (key, _):
                            self.see_key(key)
                        case _:
                            self.see_key(pair)  # something that a Counter counts
            case _:
                raise FalseClaimError(DAMAGED)
        return made

    def _set(self, arguments: tuple[object, ...]) -> Opaque:
        match arguments:
            case ():
                return OPAQUE
            case (tuple() | list() as members,):
                for member in members:
                    if not isinstance(member, str):
                        self.see_key(member)
                return OPAQUE
        raise FalseClaimError(DAMAGED)

    def _size(self, arguments: tuple[object, ...]) -> object:
        match arguments:
            case () | (tuple(),):
                return arguments[0] if arguments else ()
        raise FalseClaimError(later("it claims a tensor of an impossible shape"))

    def _bytes(self, arguments: tuple[object, ...]) -> Opaque:
        """Let text stand for bytes, as protocol 2 has it; other codecs could make it grow."""
        match arguments:
            case () | (str(), "latin1" | "latin-1") | (Opaque(),):
                return OPAQUE
        raise FalseClaimError(later("it asks for memory without filling it"))

    def _opaque(self, _: tuple[object, ...]) -> Opaque:
        return OPAQUE


_CALLS: Final[dict[str, Callable[[_TorchMachine, tuple[object, ...]], object]]] = {
    "torch._utils._rebuild_tensor": _TorchMachine._tensor,
    "torch._utils._rebuild_tensor_v2": _TorchMachine._tensor,
    "torch._utils._rebuild_tensor_v3": _TorchMachine._tensor_of_dtype,
    "torch._utils._rebuild_qtensor": _TorchMachine._quantized,
    "torch._utils._rebuild_sparse_tensor": _TorchMachine._sparse,
    "torch._utils._rebuild_meta_tensor_no_storage": _TorchMachine._without_values,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _TorchMachine._copy,
    "torch._utils._rebuild_parameter": _TorchMachine._parameter,
    "torch._utils._rebuild_parameter_with_state": _TorchMachine._parameter,
    "torch.nn.parameter.Parameter": _TorchMachine._parameter,
    "torch._tensor._rebuild_from_type_v2": _TorchMachine._of_type,
    "collections.OrderedDict": _TorchMachine._ordered,
    "collections.Counter": _TorchMachine._ordered,
    "builtins.set": _TorchMachine._set,
    "torch.Size": _TorchMachine._size,
    "_codecs.encode": _TorchMachine._bytes,
    "builtins.bytearray": _TorchMachine._bytes,
    "builtins.complex": _TorchMachine._opaque,
    "torch.device": _TorchMachine._opaque,
    "torch.serialization._get_layout": _TorchMachine._opaque,
}
"""What torch.save writes calls of, and what they come to."""


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many entries of a storage a strided view spans."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _entries(others: tuple[object, ...], shape: tuple[object, ...]) -> int:
    """Return how many entries a tensor has, if its shape and other sizes are such."""
    if _are_sizes((*others, *shape)) and len(shape) <= MAX_DIMS:
        sizes = cast("tuple[int, ...]", shape)
        if math.prod(filter(None, sizes)) <= MAX_ENTRIES:
            return math.prod(sizes)
    raise FalseClaimError(later("it claims a tensor of an impossible shape"))


def _are_sizes(values: tuple[object, ...]) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _itemsize(path: str) -> int:
    bits = ENTRY_BITS.get(path.rpartition(".")[2])
    if bits is None:
        raise FalseClaimError(later("it holds a tensor of unknown dtype {dtype}", dtype=path))
    return bits // 8


def _check_attributes(state: object, owner: type) -> None:
    """Refuse attributes that would take the place of what the class of their owner has."""
    states = state if isinstance(state, tuple) else (state,)
    for names in states:
        if isinstance(names, dict):
            for name in names:
                if hasattr(owner, name):
                    raise FalseClaimError(
                        later(
                            "it replaces {name!r} of a {kind}",
                            name=name[:40],
                            kind=owner.__name__,
                        )
                    )
        elif not isinstance(names, Opaque):
            raise FalseClaimError(DAMAGED)
