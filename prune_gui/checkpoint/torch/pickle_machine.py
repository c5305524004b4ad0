"""The stack machine of Python's pickle, without imports and calls, bounded in memory and time."""

from __future__ import annotations

import io
import pickletools
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, Protocol

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.language import deferred

MAX_STRING_BYTES: Final = 1 << 28
MAX_OPCODES: Final = 1 << 24
MIN_OPCODES: Final = 1 << 18
OPCODES_PER_CALL: Final = 8
"""Limits for the number of opcodes, and for that of calls. A checkpoint has about 30 opcodes and 2
calls per tensor."""
MAX_MARKS: Final = 1 << 14
"""The limit for containers that are begun inside of each other."""
MAX_TUPLE_DEPTH: Final = 32
MAX_TUPLE_ITEMS: Final = 1 << 20
"""Limits for tuples as keys: nesting, and total items. Python hashes a tuple recursively, shared
inner tuples once per reference."""
MAX_COPIED_BYTES: Final = 1 << 28
ITEM_BYTES: Final = 256
"""The total bytes that calls of a pickle may copy, and the approximate bytes per container item."""

MAX_INT_KEY: Final = 1 << 60
MAX_UNSAFE_KEYS: Final = 1 << 14
"""The limit for keys that are neither text nor integers below MAX_INT_KEY. A file can choose such
keys so that their hashes collide."""


@dataclass(frozen=True, slots=True)
class Global:
    """A function or a class that the pickle names."""

    path: str


class Opaque:
    """A value whose content is not needed."""


@dataclass(eq=False, slots=True)
class ForeignObject(Opaque):
    """A record of the result of foreign code, which is not run."""

    path: str
    arguments: tuple[object, ...] = ()
    state: object = None  # of its attributes
    items: dict[object, object] = field(default_factory=dict)  # set on it
    members: list[object] = field(default_factory=list)  # appended to it


OPAQUE: Final = Opaque()
CONTAINERS: Final = (dict, list, tuple, set, frozenset, ForeignObject)
SAFE_KEYS: Final = (str, bytes, Global, Opaque)
"""Types of keys whose hashes a file cannot choose."""
DAMAGED: Final = deferred("its pickle is damaged")
TOO_MANY_PARTS: Final = deferred("its pickle has too many parts")
STOP: Final = b"."
PLAIN_OPCODES: Final = frozenset(
    [
        *("APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPERSID"),
        *("BINPUT", "BINUNICODE", "BUILD", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "EMPTY_TUPLE"),
        *("GLOBAL", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK", "NEWFALSE", "NEWOBJ", "NEWTRUE"),
        *("NONE", "PROTO", "REDUCE", "SETITEM", "SETITEMS", "SHORT_BINSTRING", "TUPLE", "TUPLE1"),
        *("TUPLE2", "TUPLE3"),
    ]
)
"""The opcodes that torch.load reads by default."""


def reachable(
    values: Iterable[object], is_entered: Callable[[object], bool] = lambda _: True
) -> Iterator[object]:
    """Yield values and the values inside of containers and records, each container once."""
    queue = list(values)
    seen: set[int] = set()
    while queue:
        value = queue.pop()
        if isinstance(value, CONTAINERS):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if is_entered(value):
                queue += _inner_values(value)
        yield value


def _inner_values(container: object) -> Iterable[object]:
    if isinstance(container, ForeignObject):
        return container.arguments, container.state, container.items, container.members
    if isinstance(container, dict):
        return container.values()
    return container if isinstance(container, Iterable) else ()


def has_records(arguments: tuple[object, ...]) -> bool:
    """Return whether arguments, or the members of a tuple among them, need code."""
    members = [inner for each in arguments if isinstance(each, tuple) for inner in each]
    return any(isinstance(each, Global | Opaque) for each in (*arguments, *members))


class _Reader(Protocol):
    def read(self, length: int, /) -> bytes: ...
    def readline(self) -> bytes: ...


class Machine(ABC):
    """Reads one pickle. A subclass defines the results of names, calls and references."""

    def __init__(self) -> None:
        self.is_plain = True  # so far, torch.load reads all opcodes by default
        self._stack: list[object] = []
        self._outer_stacks: list[list[object]] = []  # the stack below each mark
        self._memo: dict[int, object] = {}
        self._unsafe_keys = 0
        self._key_items = 0
        self._copied_bytes = 0
        self._calls_left = 0

    def run(self, file: BinaryIO, max_opcodes: int = MAX_OPCODES) -> object:
        """Read one pickle up to its end, and return its value."""
        self._calls_left = max_opcodes // OPCODES_PER_CALL
        reader = file if isinstance(file, io.BytesIO) else _BoundedReader(file)
        read, opcodes = reader.read, _OPCODES
        try:
            with warnings.catch_warnings():
                # Those of torch for rare tensors, and for invalid escapes in damaged text.
                warnings.simplefilter("ignore")
                for _ in range(max_opcodes):
                    code = read(1)
                    if code == STOP:
                        return self._stack.pop()
                    read_argument, handler = opcodes[code]
                    handler(self, read_argument(reader) if read_argument else None)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            raise FalseClaimError(DAMAGED) from error
        raise FalseClaimError(TOO_MANY_PARTS)

    @abstractmethod
    def find_class(self, path: str) -> object:
        """Return the object for a dotted name."""

    @abstractmethod
    def call(self, function: object, arguments: object) -> object:
        """Return the result of a call."""

    @abstractmethod
    def build(self, value: object, state: object) -> object:
        """Return `value` with its attributes restored from `state`."""

    @abstractmethod
    def persistent_load(self, persistent_id: object) -> object:
        """Return the object outside of the pickle that the persistent id refers to."""

    def check_key(self, key: object) -> None:
        """Check a key of a dictionary, or a member of a set, before Python hashes it."""
        if isinstance(key, SAFE_KEYS) or (isinstance(key, int) and abs(key) < MAX_INT_KEY):
            return
        if isinstance(key, tuple) and len(key) <= 2 and all(isinstance(k, str) for k in key):
            return  # as in the vocabulary of a tokenizer
        self._unsafe_keys += 1
        if self._unsafe_keys > MAX_UNSAFE_KEYS:
            raise FalseClaimError("its pickle has too many unusual keys")
        pending = [(key, 1)] if isinstance(key, tuple) else []
        while pending:
            nested, depth = pending.pop()
            self._key_items += len(nested)
            if depth > MAX_TUPLE_DEPTH or self._key_items > MAX_TUPLE_ITEMS:
                raise FalseClaimError("its pickle nests tuples too deeply")
            pending += [(item, depth + 1) for item in nested if isinstance(item, tuple)]

    def count_copied(self, value: Sized) -> None:
        """Add the bytes of a container or text that a call copies."""
        text = isinstance(value, str | bytes)
        self._copied_bytes += len(value) * (1 if text else ITEM_BYTES)
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise FalseClaimError("its pickle copies the same values too often")

    def _mark(self, _: object) -> None:
        if len(self._outer_stacks) == MAX_MARKS:
            raise FalseClaimError("its pickle is nested too deeply")
        self._outer_stacks.append(self._stack)
        self._stack = []

    def _to_mark(self) -> list[object]:
        """Pop the values above the last mark, and the mark."""
        values = self._stack
        self._stack = self._outer_stacks.pop()
        return values

    def _pop(self, count: int) -> list[object]:
        if len(self._stack) < count:
            raise FalseClaimError(DAMAGED)
        values = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return values

    def _drop(self, _: object) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._to_mark()

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _push_name(self, path: tuple[str, str]) -> None:
        module, name = path
        if (module, name) in NAME_MAPPING:  # of Python 2
            module, name = NAME_MAPPING[module, name]
        self.count_copied(module)
        self.count_copied(name)
        self._push(self.find_class(f"{IMPORT_MAPPING.get(module, module)}.{name}"))

    def _name_from_stack(self, _: object) -> None:
        match self._pop(2):
            case [str() as module, str() as name]:
                self._push_name((module, name))
            case _:
                raise FalseClaimError(DAMAGED)

    def _put(self, memo_index: Any) -> None:  # noqa: ANN401 - an int, as the table of opcodes has it
        self._memo[memo_index] = self._stack[-1]

    def _set_items(self, pairs: list[object]) -> None:
        target = self._stack[-1]
        items = target.items if isinstance(target, ForeignObject) else target
        if not isinstance(items, dict):
            if isinstance(items, Opaque):
                return
            raise FalseClaimError(DAMAGED)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.check_key(key)
            items[key] = value

    def _append(self, values: Iterable[object]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(values)
        elif isinstance(target, ForeignObject):
            target.members.extend(values)
        elif not isinstance(target, Opaque):
            raise FalseClaimError(DAMAGED)

    def _add_to_set(self, _: object) -> None:
        members = self._to_mark()
        target = self._stack[-1]
        if not isinstance(target, set):
            raise FalseClaimError(DAMAGED)
        for member in members:
            self.check_key(member)
        target.update(members)

    def _frozen_set(self, _: object) -> None:
        members = tuple(self._to_mark())
        self._push_result(self.find_class("builtins.frozenset"), (members,))

    def _dictionary(self, _: object) -> None:
        pairs = self._to_mark()
        self._push({})
        self._set_items(pairs)

    def _call(self, count: int) -> None:
        function, arguments, *_ = self._pop(count)
        self._push_result(function, arguments)

    def _push_result(self, function: object, arguments: object) -> None:
        self._calls_left -= 1
        if self._calls_left < 0:
            raise FalseClaimError(TOO_MANY_PARTS)
        self._push(self.call(function, arguments))

    def _instance(self, path: tuple[str, str]) -> None:
        arguments = self._to_mark()
        self._push_name(path)
        self._push_result(self._stack.pop(), tuple(arguments))

    def _object(self, _: object) -> None:
        function, *arguments = self._to_mark()
        self._push_result(function, tuple(arguments))

    def _build(self, _: object) -> None:
        value, state = self._pop(2)
        self._push(self.build(value, state))

    def _refuse_extension(self, code: Any) -> None:  # noqa: ANN401 - an int
        raise FalseClaimError("it names code by the extension number {code}", code=code)

    def _apply_stack_effect(self, argument: object, opcode: pickletools.OpcodeInfo) -> None:
        """Apply the stack effect from the table of opcodes; keep plain numbers, text and bytes."""
        before, after = opcode.stack_before, opcode.stack_after
        if pickletools.markobject in before:
            self._to_mark()
            before = before[: before.index(pickletools.markobject)]
        self._pop(len(before))
        value = argument if isinstance(argument, int | float | str | bytes | bytearray) else OPAQUE
        self._stack.extend([value] * len(after))


class _BoundedReader:
    """A file for `pickletools`, which would read any length that an opcode claims."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, length: int) -> bytes:
        if length > MAX_STRING_BYTES:
            raise FalseClaimError("its pickle declares a string of {length:,} bytes", length=length)
        return self._file.read(length)

    def readline(self) -> bytes:
        return self._file.readline(MAX_STRING_BYTES)


def _read_path(reader: _Reader) -> tuple[str, str]:
    module, name = reader.readline(), reader.readline()
    return module[:-1].decode("utf-8"), name[:-1].decode("utf-8")


Handler = Callable[[Machine, Any], None]

_HANDLERS: Final[dict[str, Handler]] = {
    "PROTO": lambda _, __: None,
    "MARK": Machine._mark,
    "POP": Machine._drop,
    "DUP": lambda self, _: self._push(self._stack[-1]),
    "NONE": lambda self, _: self._push(None),
    "NEWTRUE": lambda self, _: self._push(True),
    "NEWFALSE": lambda self, _: self._push(False),
    # Text of Python 2, which torch decodes as UTF-8 and `pickletools` as Latin-1.
    "SHORT_BINSTRING": lambda self, text: self._push(text.encode("latin-1").decode("utf-8")),
    "EMPTY_TUPLE": lambda self, _: self._push(()),
    "TUPLE": lambda self, _: self._push(tuple(self._to_mark())),
    "TUPLE1": lambda self, _: self._push(tuple(self._pop(1))),
    "TUPLE2": lambda self, _: self._push(tuple(self._pop(2))),
    "TUPLE3": lambda self, _: self._push(tuple(self._pop(3))),
    "EMPTY_LIST": lambda self, _: self._push([]),
    "LIST": lambda self, _: self._push(self._to_mark()),
    "APPEND": lambda self, _: self._append(self._pop(1)),
    "APPENDS": lambda self, _: self._append(self._to_mark()),
    "EMPTY_DICT": lambda self, _: self._push({}),
    "DICT": Machine._dictionary,
    "EMPTY_SET": lambda self, _: self._push(set()),
    "ADDITEMS": Machine._add_to_set,
    "FROZENSET": Machine._frozen_set,
    "SETITEM": lambda self, _: self._set_items(self._pop(2)),
    "SETITEMS": lambda self, _: self._set_items(self._to_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine._put),
    "MEMOIZE": lambda self, _: self._put(len(self._memo)),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"),
        lambda self, memo_index: self._push(self._memo[memo_index]),
    ),
    "GLOBAL": Machine._push_name,
    "STACK_GLOBAL": Machine._name_from_stack,
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), Machine._refuse_extension),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda self, _: self._call(2)),
    "NEWOBJ_EX": lambda self, _: self._call(3),
    "INST": Machine._instance,
    "OBJ": Machine._object,
    "BUILD": Machine._build,
    "PERSID": lambda self, name: self._push(self.persistent_load(name)),
    "BINPERSID": lambda self, _: self._push(self.persistent_load(self._pop(1)[0])),
}


def _reader_of(opcode: pickletools.OpcodeInfo) -> Callable[[Any], Any] | None:
    if opcode.name in ("GLOBAL", "INST"):
        return _read_path
    return opcode.arg.reader if opcode.arg else None


def _handler(opcode: pickletools.OpcodeInfo) -> Handler:
    apply = _HANDLERS.get(opcode.name)
    if apply is None and opcode.arg and not opcode.stack_before and len(opcode.stack_after) == 1:
        apply = Machine._push  # a number, text or bytes
    elif apply is None:
        apply = partial(Machine._apply_stack_effect, opcode=opcode)
    if opcode.name in PLAIN_OPCODES:
        return apply

    def apply_and_note(self: Machine, argument: object) -> None:
        self.is_plain = False
        apply(self, argument)

    return apply_and_note


_OPCODES: Final[dict[bytes, tuple[Callable[[Any], Any] | None, Handler]]] = {
    opcode.code.encode("latin-1"): (
        _reader_of(opcode),
        _handler(opcode),
    )
    for opcode in pickletools.opcodes
}
"""The functions that read the argument of an opcode, and that apply it."""
