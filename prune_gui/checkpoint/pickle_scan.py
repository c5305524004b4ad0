"""What a torch pickle claims, found by reading its opcodes; nothing in it is built or called.

torch believes the sizes written in a checkpoint: it asks for that much memory, and views storages
beyond the bytes that the file holds for them. So they are checked here first. What code a pickle
may call is not decided here; `torch.load(weights_only=True)` does that.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO, Final, cast

from prune_gui.checkpoint.tensor_info import ENTRY_BITS

MAX_STRING_BYTES: Final = 1 << 28

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


class FalseClaimError(Exception):
    """What is wrong with a pickle, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of memory that a pickle asks for: its key in the file, and its size in bytes."""

    key: str
    itemsize: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Name:
    """A global that the pickle names, such as a function or a class."""

    path: str


class _Mark:
    """Where the arguments of a later opcode begin."""


class _Opaque:
    """A value that no claim depends on."""


class _Tensor(_Opaque):
    """A tensor that was rebuilt from checked claims."""


_MARK: Final = _Mark()
_OPAQUE: Final = _Opaque()
_TENSOR: Final = _Tensor()


def scan(file: BinaryIO, check: Callable[[Storage], None]) -> None:
    """Read one pickle from `file` up to its end, and check what it claims about tensors.

    Args:
        file: positioned at the start of the pickle; afterwards just behind it.
        check: called with every storage that is mentioned, to compare it with the file.

    Raises:
        FalseClaimError: a tensor reaches beyond its storage, or the pickle is damaged.
    """
    machine = _Machine(check)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of odd escapes in damaged names
            for opcode, argument, _ in pickletools.genops(cast("IO[bytes]", _BoundedReader(file))):
                machine.step(opcode, argument)
    except (ValueError, LookupError, OverflowError, RecursionError) as error:
        raise FalseClaimError("its pickle is damaged") from error


class _BoundedReader:
    """The file as `pickletools` reads it, which would ask for any length that an opcode names."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell = file.tell

    def read(self, length: int) -> bytes:
        if length > MAX_STRING_BYTES:
            raise FalseClaimError(f"its pickle claims a string of {length:,} bytes")
        return self._file.read(length)

    def readline(self) -> bytes:
        return self._file.readline(MAX_STRING_BYTES)


class _Machine:
    """The stack and the memo of a pickle, with every value that does not matter left opaque."""

    def __init__(self, check: Callable[[Storage], None]) -> None:
        self._check = check
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def step(self, opcode: pickletools.OpcodeInfo, argument: object) -> None:
        stack = self._stack
        match opcode.name:
            case "MARK":
                stack.append(_MARK)
            case "TUPLE":
                stack.append(tuple(self._to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" | "EMPTY_TUPLE":
                stack.append(self._pop(len(opcode.stack_before)))
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                assert isinstance(argument, int)
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                assert isinstance(argument, int)
                stack.append(self._memo[argument])
            case "DUP":
                stack.append(stack[-1])
            case "GLOBAL":
                stack.append(_Name(str(argument).replace(" ", ".")))
            case "STACK_GLOBAL":
                match self._pop(2):
                    case (str() as module, str() as name):
                        stack.append(_Name(f"{module}.{name}"))
                    case _:
                        raise FalseClaimError("its pickle is damaged")
            case "BINPERSID":
                stack.append(self._beside(stack.pop()))
            case "REDUCE" | "NEWOBJ":
                stack.append(self._called(*self._pop(2)))
            case "BUILD":
                if isinstance(self._pop(2)[0], _Tensor):
                    raise FalseClaimError("it changes a tensor after building it")
                stack.append(_OPAQUE)
            case _:
                self._step_by_description(opcode, argument)

    def _step_by_description(self, opcode: pickletools.OpcodeInfo, argument: object) -> None:
        """Do what the table of opcodes says about the stack; keep plain numbers and text."""
        before, after = opcode.stack_before, opcode.stack_after
        if pickletools.markobject in before:
            self._to_mark()
            before = before[: before.index(pickletools.markobject)]
        self._pop(len(before))
        value = argument if isinstance(argument, int | str) else _OPAQUE
        self._stack.extend([value] * len(after))

    def _pop(self, count: int) -> tuple[object, ...]:
        """Take the topmost `count` values off the stack."""
        if count == 0:
            return ()
        if len(self._stack) < count:
            raise FalseClaimError("its pickle is damaged")
        values = tuple(self._stack[-count:])
        del self._stack[-count:]
        return values

    def _to_mark(self) -> list[object]:
        """Take everything above the last mark, and the mark."""
        values = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _beside(self, claim: object) -> object:
        """Return what the pickle refers to outside of itself."""
        match claim:
            case ("storage", _Name(path), str() | int() as key, _, int() as numel, *_):
                itemsize = STORAGE_ITEMSIZE.get(path.rpartition(".")[2])
                if itemsize is None:
                    raise FalseClaimError(f"it holds a storage of unknown type {path}")
                if numel < 0:
                    raise FalseClaimError(f"it holds a storage of {numel} entries")
                storage = Storage(str(key), itemsize, numel * itemsize)
                self._check(storage)
                return storage
            case ("module", *_):  # legacy files add the source of a module's class
                return _OPAQUE
            case _:
                raise FalseClaimError("it holds something other than storages beside its pickle")

    def _called(self, function: object, arguments: object) -> object:
        """Return what a call would give, as far as claims depend on it."""
        path = function.path if isinstance(function, _Name) else ""
        match path.rpartition(".")[2]:
            case "_rebuild_from_type_v2":
                match arguments:
                    case (_Name() as inner, _, tuple() as inner_arguments, _):
                        return self._called(inner, inner_arguments)
                raise FalseClaimError("it describes a tensor in a way torch does not write")
            case (
                "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3" | "_rebuild_qtensor"
            ):
                _check_tensor(arguments)
                return _TENSOR
            case "_rebuild_parameter" | "_rebuild_parameter_with_state" | "Parameter":
                return _TENSOR
            case "Size":
                match arguments:
                    case (tuple() as sizes,):
                        return sizes
            case "_rebuild_nested_tensor":
                raise FalseClaimError("it holds a nested tensor")
            case "bytearray":
                if isinstance(arguments, tuple) and isinstance(arguments[0], int):
                    raise FalseClaimError("it asks for memory without filling it")
            case name if name.endswith(("Tensor", "Storage")):
                raise FalseClaimError(f"it makes a {name} without contents")
        return _OPAQUE


def _check_tensor(arguments: object) -> None:
    """Check that (storage, offset, shape, strides, ...) stays within the storage."""
    match arguments:
        case (Storage() as storage, int() as offset, tuple() as shape, tuple() as strides, *rest):
            pass
        case _:
            raise FalseClaimError("it describes a tensor in a way torch does not write")
    if len(shape) != len(strides) or not _are_sizes((offset, *shape, *strides)):
        raise FalseClaimError("it claims a tensor of an impossible shape")
    itemsize = storage.itemsize
    if len(rest) > 2 and isinstance(rest[2], _Name):  # newer dtypes lie in untyped storages
        itemsize = _itemsize(rest[2].path)
    if (offset + extent(shape, strides)) * itemsize > storage.nbytes:
        raise FalseClaimError(
            f"it claims a tensor of shape {shape}, which does not fit its {storage.nbytes:,} bytes"
        )


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many entries of a storage a strided view spans."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _are_sizes(values: tuple[object, ...]) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _itemsize(path: str) -> int:
    bits = ENTRY_BITS.get(path.rpartition(".")[2])
    if bits is None:
        raise FalseClaimError(f"it holds a tensor of unknown dtype {path}")
    return bits // 8
