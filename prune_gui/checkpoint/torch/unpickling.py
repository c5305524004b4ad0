"""An unpickler for files of torch.save that checks all claims. torch's own is never called.

torch trusts the sizes in a checkpoint: it allocates as much memory as they claim, and creates views
beyond the bytes of a storage. Here each claim is checked before it is used, and only the functions
that are listed in this file are called. Calls of any other function become records, whatever it
does; see `ForeignObject`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any, BinaryIO, Final, cast

import torch
import torch._utils
from torch.storage import TypedStorage

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS
from prune_gui.checkpoint.torch import checked_calls
from prune_gui.checkpoint.torch.checked_calls import (
    GETATTR,
    IMPOSSIBLE_SHAPE,
    OBJECT_MAKERS,
    PACKED,
    PLAIN_CALLS,
    TORCH_TYPES,
    Arguments,
    ForeignTensor,
    are_sizes,
    attribute_path,
    check_hooks,
    checked_view,
    nbytes_of,
    plain_value,
    set_conj_and_neg,
    torch_attribute,
    typed_storage,
)
from prune_gui.checkpoint.torch.pickle_machine import (
    DAMAGED,
    MAX_OPCODES,
    OPAQUE,
    ForeignObject,
    Global,
    Machine,
    Opaque,
    has_records,
    reachable,
)
from prune_gui.checkpoint.torch.storages import FileStorages
from prune_gui.language import deferred

MAX_FOREIGN: Final = 1 << 14
"""The limit for different names that torch.save does not write; checkpoints have a few hundred."""
ERRORS_OF_TORCH: Final = (RuntimeError, MemoryError, AssertionError, AttributeError)
UNKNOWN_TENSOR: Final = deferred("it describes a tensor in a way torch does not write")
UNKNOWN_SPARSE: Final = deferred("it describes a sparse tensor in a way torch does not write")
UNKNOWN_PARAMETER: Final = deferred("it describes a parameter in a way torch does not write")


class ValuesNeededError(Exception):
    """A tensor is built from values, which its storages do not have."""


@dataclass(frozen=True, slots=True)
class Unpickled:
    """The content of a pickle."""

    value: object  # with records (`ForeignObject`, `Global`) in place of whatever needs code
    foreign: tuple[str, ...]  # the names that torch.load refuses by default, in order
    has_records: bool
    is_plain: bool  # torch.load reads all opcodes by default
    finish: Callable[[], None]  # to be called when all storages are filled


def unpickle(file: BinaryIO, storages: FileStorages, max_opcodes: int = MAX_OPCODES) -> Unpickled:
    """Read one pickle from `file` up to its end."""
    machine = _TorchMachine(storages)
    try:
        value = machine.run(file, max_opcodes)
    except FalseClaimError as problem:
        problem.foreign = machine.foreign_names(None)
        raise
    foreign = machine.foreign_names(value)
    has_records = machine.has_records or bool(foreign)
    return Unpickled(value, foreign, has_records, machine.is_plain, machine.finish)


class _TorchMachine(Machine):
    def __init__(self, storages: FileStorages) -> None:
        super().__init__()
        self.has_records = False  # of code that torch.load calls by default
        self._foreign_names: dict[str, None] = {}
        self._calls: list[ForeignObject] = []
        self._gets_attributes = False
        self._storages = storages
        self._storages_by_key: dict[str, tuple[TypedStorage, type]] = {}
        self._views: dict[tuple[str, int, int], TypedStorage] = {}
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def finish(self) -> None:
        """Copy the values of tensors that are copies of others, after the storages are filled."""
        for copy, original in self._copies:
            copy.copy_(original)

    def find_class(self, path: str) -> object:
        if path in _FUNCTIONS:
            return _FUNCTIONS[path]
        if TORCH_TYPES.fullmatch(path) and (found := torch_attribute(path)) is not None:
            return found
        return self._foreign(path)

    def _foreign(self, path: str) -> Global:
        self._foreign_names[path] = None
        if len(self._foreign_names) > MAX_FOREIGN:
            raise FalseClaimError("its pickle names too many classes")
        return GETATTR if path == GETATTR.path else Global(path)

    def foreign_names(self, value: object) -> tuple[str, ...]:
        """Return the names that torch.load refuses, without getattr if only its paths count."""
        if self._gets_attributes and all(
            each is not GETATTR for each in reachable([value, *self._calls])
        ):
            self._foreign_names.pop(GETATTR.path, None)
        return tuple(self._foreign_names)

    def _record(self, path: str, arguments: Arguments) -> ForeignObject:
        record = ForeignObject(path, arguments)
        self._calls.append(record)
        return record

    def call(self, function: object, arguments: object) -> object:
        parts = arguments if isinstance(arguments, tuple) else (arguments,)
        if function is GETATTR and (attribute := attribute_path(*parts)) is not None:
            self._gets_attributes = True
            return self._foreign(attribute)
        if isinstance(function, Global | ForeignObject):
            if function is GETATTR:
                parts = function, *parts  # it gets what is not known
            if function.path in OBJECT_MAKERS and parts and isinstance(parts[0], Global):
                function, parts = parts[0], parts[1:]
            return self._record(function.path, parts)
        known = _BUILDERS.get(id(function))
        if known is not None and isinstance(arguments, tuple):
            path, builder, refusal = known
            try:
                result = builder(self, arguments)
                if result is not None:
                    return result
            except (FalseClaimError, *ERRORS_OF_TORCH) as error:
                if not has_records(arguments):
                    if isinstance(error, FalseClaimError):
                        raise
                    raise FalseClaimError(DAMAGED) from error
            if not has_records(arguments):
                raise FalseClaimError(refusal)
            return self._record(path, arguments)
        if isinstance(function, Opaque):
            return OPAQUE
        # Only the text of a dtype is short; that of a list could be endless.
        named = (
            function if callable(function) or isinstance(function, torch.dtype) else type(function)
        )
        kind = getattr(named, "__name__", str(named).removeprefix("torch."))
        raise FalseClaimError("it makes a {kind} without contents", kind=kind)

    def build(self, value: object, state: object) -> object:
        if isinstance(value, ForeignObject):
            value.state = state
        elif isinstance(value, torch.Tensor):
            raise FalseClaimError("it changes a tensor after building it")
        elif type(value) is OrderedDict:
            self._set_attributes(value, state, OrderedDict)
        elif not isinstance(value, Global | Opaque):
            raise FalseClaimError(DAMAGED)
        return value

    def persistent_load(self, persistent_id: object) -> object:
        match persistent_id:
            case ("storage", type() as kind, str() | int() as key, _, int() as numel, *view):
                pass
            case ("module", value, *_):  # legacy files add the source of a module's class
                return value
            case _:
                raise FalseClaimError(
                    "it holds something other than storages in addition to its pickle"
                )
        key = str(key)
        dtype = torch.uint8 if kind is torch.UntypedStorage else getattr(kind, "dtype", None)
        if not isinstance(dtype, torch.dtype) or dtype in PACKED:
            raise FalseClaimError(
                "it holds a storage of unknown type {kind}", kind=f"torch.{kind.__name__}"
            )
        if not (are_sizes((numel,)) and key.isascii()):
            raise FalseClaimError(
                "it holds a storage {key!r} of {entries} elements", key=key[:40], entries=numel
            )
        storage = self._storage(key, numel * dtype.itemsize, dtype, kind)
        match view:
            case [] | [None]:
                return storage
            case [(_, int() as start, int() as size)]:
                if are_sizes((start, size, numel - start - size)):
                    return self._storage_view(key, storage, start, size)
        raise FalseClaimError("it describes a storage in a way torch does not write")

    def _storage(self, key: str, nbytes: int, dtype: torch.dtype, kind: type) -> TypedStorage:
        """Return a storage of the file. It is typed, whatever the file names, as in torch.load."""
        if key not in self._storages_by_key:
            element_dtype = None if kind is torch.UntypedStorage else dtype
            values = self._storages.storage(key, nbytes, element_dtype)
            self._storages_by_key[key] = typed_storage(values, dtype), kind
        storage, known_kind = self._storages_by_key[key]
        if known_kind is not kind:
            raise FalseClaimError("it declares the storage {key!r} with two types", key=key)
        if nbytes_of(storage) != nbytes:
            raise FalseClaimError("it declares the storage {key!r} with two sizes", key=key)
        return storage

    def _storage_view(self, key: str, storage: TypedStorage, start: int, size: int) -> TypedStorage:
        """Return a view of a storage, as in legacy files; the same object for the same view."""
        if (key, start, size) not in self._views:
            itemsize = storage.dtype.itemsize
            values = storage._untyped_storage[start * itemsize : (start + size) * itemsize]
            self._views[key, start, size] = typed_storage(
                cast("torch.UntypedStorage", values), storage.dtype
            )
        return self._views[key, start, size]

    def _set_attributes(self, value: object, state: object, owner: type) -> None:
        """Set attributes of a value; refuse those that its class defines."""
        for names in state if isinstance(state, tuple) else (state,):
            if isinstance(names, dict) and all(isinstance(name, str) for name in names):
                for name in names:
                    if hasattr(owner, name):
                        raise FalseClaimError(
                            "it replaces {name!r} of a {kind}", name=name[:40], kind=owner.__name__
                        )
                self.count_copied(names)
                vars(value).update(names)
            elif names is not None:
                raise FalseClaimError(DAMAGED)

    def _tensor(
        self, arguments: Arguments, dtype: torch.dtype | None = None
    ) -> torch.Tensor | None:
        """Build a tensor from (storage, offset, shape, strides, requires_grad, hooks, metadata)."""
        match arguments:
            case (
                TypedStorage() as storage,
                int() as offset,
                tuple() as shape,
                tuple() as strides,
                bool() as gradient,
                hooks,
                *metadata,
            ) if len(metadata) <= 1:
                check_hooks(hooks)
            case _:
                return None
        numel = checked_view(storage, offset, shape, strides, dtype)
        if dtype is not None and str(dtype).removeprefix("torch.") not in ELEMENT_BITS:
            raise FalseClaimError("it holds a tensor of unknown dtype {dtype}", dtype=dtype)
        tensor = torch.empty(0, dtype=dtype or storage.dtype)
        sizes, steps = cast("tuple[int, ...]", shape), cast("tuple[int, ...]", strides)
        tensor.set_(storage._untyped_storage, offset, sizes, steps)
        for bits in metadata:
            set_conj_and_neg(tensor, bits, numel, storage)
        if gradient:
            tensor.requires_grad = True
        return tensor

    def _tensor_without_gradient(self, arguments: Arguments) -> torch.Tensor | None:
        """Build from (storage, offset, shape, strides)."""
        return self._tensor((*arguments, False, None)) if len(arguments) == 4 else None

    def _tensor_of_dtype(self, arguments: Arguments) -> torch.Tensor | None:
        """Build a tensor of a newer dtype, whose values are in a storage of bytes."""
        match arguments[6:]:
            case (torch.dtype() as dtype, *bits) if len(bits) <= 1:
                return self._tensor((*arguments[:6], *bits), dtype)
        return None

    def _quantized(self, arguments: Arguments) -> torch.Tensor | None:
        match arguments:
            case (
                TypedStorage() as storage,
                int() as offset,
                tuple() as shape,
                tuple() as strides,
                (torch.qscheme(), *_) as parameters,
                bool() as gradient,
                hooks,
            ):
                check_hooks(hooks)
            case _:
                return None
        numel = checked_view(storage, offset, shape, strides)
        if numel * storage.dtype.itemsize > nbytes_of(storage):  # torch allocates all of them
            raise FalseClaimError("it repeats the elements of a quantized tensor")
        self._need_values()
        made: Any = None
        with suppress(RuntimeError, ValueError, TypeError, NotImplementedError):
            made = torch._utils._rebuild_qtensor(  # type: ignore[no-untyped-call]
                storage, offset, shape, strides, parameters, gradient, OrderedDict()
            )
        return cast("torch.Tensor | None", made)

    def _need_values(self) -> None:
        if not self._storages.have_values:
            raise ValuesNeededError

    def _sparse(self, arguments: Arguments) -> torch.Tensor | None:
        self._need_values()
        return checked_calls.sparse_tensor(self, arguments)

    def _copy(self, arguments: Arguments) -> torch.Tensor | None:
        """Build a tensor of another device as a copy of a CPU tensor in the file."""
        match arguments:
            case (torch.Tensor() as tensor, torch.dtype() as dtype, _, bool()):
                if tensor.dtype == dtype:
                    return tensor
                self._need_values()
                values = self._storages.reserve(tensor.numel() * dtype.itemsize)
                octets = torch.empty(0, dtype=torch.uint8).set_(values)
                copy = octets.view(dtype).reshape(tensor.shape)
                self._copies.append((copy, tensor))
                return copy
        return None

    def _parameter(self, arguments: Arguments) -> torch.Tensor | None:
        """Build from (tensor, requires_grad, hooks, attributes)."""
        match arguments:
            case (torch.Tensor() as tensor, bool() as gradient, hooks, state):
                check_hooks(hooks)
                if isinstance(tensor, ForeignTensor):
                    return tensor
                parameter = torch.nn.Parameter(tensor, gradient)
                self._set_attributes(parameter, state, torch.Tensor)
                return parameter
        return None

    def _new_parameter(self, arguments: Arguments) -> torch.Tensor | None:
        """Build from (tensor, requires_grad); the last is optional."""
        gradient = arguments[1:] or (True,)
        return self._parameter((*arguments[:1], *gradient, None, None))

    def _tensor_of_type(self, arguments: Arguments) -> object:
        match arguments:
            case (function, type() as kind, tuple() as inner, state) if kind in (
                torch.Tensor,
                torch.nn.Parameter,
            ):
                tensor = self.call(function, inner)
                if isinstance(tensor, torch.Tensor):
                    if type(tensor) is not kind:
                        tensor = tensor.as_subclass(kind)
                    self._set_attributes(tensor, state, torch.Tensor)
                return tensor
            case (function, Global(), tuple() as inner, state) if id(function) in _BUILDERS:
                tensor = self.call(function, inner)  # a subclass with the same values
                if isinstance(tensor, ForeignTensor):
                    return checked_calls.local_tensor(tensor, state)
                return tensor
        return None

    def _nested(self, arguments: Arguments) -> ForeignObject:
        """Return a record of a nested tensor: its shapes are values, which are read later."""
        self.has_records = True
        return self._record("torch._utils._rebuild_nested_tensor", arguments)


Builder = Callable[[_TorchMachine, Arguments], object]

_TENSOR_BUILDERS: Final[dict[str, tuple[Builder, str]]] = {
    "tensor": (_TorchMachine._tensor_without_gradient, UNKNOWN_TENSOR),
    "tensor_v2": (_TorchMachine._tensor, UNKNOWN_TENSOR),
    "tensor_v3": (_TorchMachine._tensor_of_dtype, UNKNOWN_TENSOR),
    "qtensor": (_TorchMachine._quantized, UNKNOWN_TENSOR),
    "sparse_tensor": (_TorchMachine._sparse, UNKNOWN_SPARSE),
    "nested_tensor": (_TorchMachine._nested, UNKNOWN_TENSOR),
    "wrapper_subclass": (checked_calls.wrapper_subclass, UNKNOWN_TENSOR),
    "meta_tensor_no_storage": (checked_calls.meta_tensor, IMPOSSIBLE_SHAPE),
    "device_tensor_from_cpu_tensor": (_TorchMachine._copy, UNKNOWN_TENSOR),
    "device_tensor_from_numpy": (lambda *_: None, UNKNOWN_TENSOR),
    "parameter": (lambda self, parts: self._parameter((*parts, None)), UNKNOWN_PARAMETER),
    "parameter_with_state": (_TorchMachine._parameter, UNKNOWN_PARAMETER),
}
_CALLS: Final[dict[str, tuple[Builder, str]]] = {
    **{f"torch._utils._rebuild_{kind}": row for kind, row in _TENSOR_BUILDERS.items()},
    "torch.nn.parameter.Parameter": (_TorchMachine._new_parameter, UNKNOWN_PARAMETER),
    "torch._tensor._rebuild_from_type_v2": (_TorchMachine._tensor_of_type, UNKNOWN_TENSOR),
    **{path: (partial(plain_value, path), refusal) for path, refusal in PLAIN_CALLS.items()},
}
"""The functions that torch.save writes calls of: what builds the result, and the refusal of
arguments that torch does not write."""

_FUNCTIONS: Final = {path: resolve_name(path) for path in _CALLS}
_BUILDERS: Final = {id(function): (path, *_CALLS[path]) for path, function in _FUNCTIONS.items()}
