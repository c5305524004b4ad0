"""What torch.save pickles, built from checked claims. torch's own unpickler is never called.

torch believes the sizes written in a checkpoint: it asks for that much memory, and views storages
beyond the bytes that the file holds for them. Here each claim is checked before anything is built
from it, and only what is listed in this file is ever called.
"""

from __future__ import annotations

import _codecs
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, BinaryIO, Final, cast

import torch
import torch._tensor
import torch._utils
from torch.storage import TypedStorage

from prune_gui.checkpoint.tensor_info import ENTRY_BITS
from prune_gui.checkpoint.torch import pickle_calls
from prune_gui.checkpoint.torch.claims import (
    STORAGE_DTYPES,
    TYPES,
    are_sizes,
    attribute,
    check_hooks,
    checked_numel,
    checked_view,
    nbytes_of,
    set_bits,
    typed_storage,
)
from prune_gui.checkpoint.torch.pickle_machine import (
    DAMAGED,
    OPAQUE,
    FalseClaimError,
    Global,
    Machine,
    Made,
    Opaque,
)
from prune_gui.language import later

UNKNOWN_TENSOR: Final = later("it describes a tensor in a way torch does not write")
COMPRESSED_LAYOUTS: Final = {
    torch.sparse_csr,
    torch.sparse_bsr,
    torch.sparse_csc,
    torch.sparse_bsc,
}


class Storages(ABC):
    """Where the values of tensors come from."""

    @abstractmethod
    def storage(self, key: str, nbytes: int, dtype: torch.dtype | None) -> torch.UntypedStorage:
        """Return the memory for a storage of the file. It may be filled later.

        Args:
            key: of the storage in the file.
            nbytes: its size.
            dtype: of its elements; None if the file does not tell.

        Raises:
            FalseClaimError: the file has no such storage, or a smaller one.
        """

    @abstractmethod
    def reserve(self, nbytes: int) -> torch.UntypedStorage:
        """Return memory for a tensor that is a copy of another one, all zero.

        Raises:
            CheckpointError: there is not enough memory.
        """


class Tensor:
    """A tensor of a file that cannot be opened, so that nothing of it is built."""


TENSOR: Final = Tensor()


@dataclass(frozen=True, slots=True)
class Unpickled:
    """What a pickle holds.

    Attributes:
        root: what torch.load returns; with `Tensor` and `Made` in it if it needs code to open.
        foreign: the names of what would have to run to open it, in their order.
        protocol: of pickle.
        readable: whether torch's restricted unpickler knows all opcodes.
        finish: what is to be done once all values are in their places.
    """

    root: object
    foreign: tuple[str, ...]
    protocol: int
    readable: bool
    finish: Callable[[], None]


def unpickle(file: BinaryIO, storages: Storages) -> Unpickled:
    """Read one pickle from `file` up to its end.

    Args:
        file: positioned at the start of the pickle; afterwards just behind it.
        storages: asked for every storage that is mentioned, until something foreign is.

    Raises:
        FalseClaimError: a tensor reaches beyond its storage, or the pickle is damaged; but if it
            needs code to open, that is what is returned.
        CheckpointError: there is not enough memory.
    """
    machine = _TorchMachine(storages)
    root: object = OPAQUE
    try:
        root = machine.run(file)
    except FalseClaimError:
        if not machine.foreign:
            raise
    return Unpickled(
        root, tuple(machine.foreign), machine.protocol, machine.unread is None, machine.finish
    )


class _TorchMachine(Machine):
    """Knows what torch.save writes.

    Attributes:
        foreign: names of everything else, in their order.
    """

    def __init__(self, storages: Storages) -> None:
        super().__init__()
        self.foreign: dict[str, None] = {}
        self._storages = storages
        self._known: dict[str, tuple[TypedStorage, type]] = {}
        self._parts: dict[tuple[str, int, int], TypedStorage] = {}
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def _hopeless(self) -> bool:
        """Whether torch would not load this: then claims do not matter, only what is in there."""
        return bool(self.foreign) or self.unread is not None

    def finish(self) -> None:
        """Copy what is copied from other tensors, once the values of these are there."""
        for copy, original in self._copies:
            copy.copy_(original)

    def name(self, path: str) -> object:
        """Return a class, dtype or function of torch; take note of any other name."""
        if path in _CALLS:
            return _CALLS[path][0]
        if TYPES.fullmatch(path) and (found := attribute(path)) is not None:
            return found
        self.foreign[path] = None
        return Global(path)

    def call(self, function: object, arguments: object) -> object:
        """Return what a call gives."""
        if isinstance(function, Global):
            if function.path == "copyreg._reconstructor" and isinstance(arguments, tuple):
                function = next((one for one in arguments[:1] if isinstance(one, Global)), function)
            return Made(function.path)
        build = _BUILDERS.get(id(function))
        if build is not None and isinstance(arguments, tuple):
            try:
                return build(self, arguments)
            except FalseClaimError:
                if not self._hopeless:
                    raise
                return TENSOR if isinstance(function, FunctionType) else OPAQUE
            except (RuntimeError, MemoryError, AssertionError) as error:  # of torch
                raise FalseClaimError(DAMAGED) from error
        if isinstance(function, Opaque):
            return OPAQUE
        raise FalseClaimError(
            later(
                "it makes a {kind} without contents",
                kind=getattr(function, "__name__", str(function).removeprefix("torch.")[:40]),
            )
        )

    def build(self, value: object, state: object) -> object:
        """Take note of the attributes of foreign things; let an OrderedDict have harmless ones."""
        if isinstance(value, Made):
            value.state = state
        elif isinstance(value, Tensor | torch.Tensor):
            raise FalseClaimError(later("it changes a tensor after building it"))
        elif not self._hopeless:
            if type(value) is not OrderedDict:
                raise FalseClaimError(DAMAGED)
            self._set_attributes(value, state, OrderedDict)
        return value

    def fetch(self, claim: object) -> object:
        """Return the storage that the pickle refers to."""
        if self._hopeless:
            return claim[1] if isinstance(claim, tuple) and len(claim) > 1 else OPAQUE
        match claim:
            case ("storage", type() as kind, str() | int() as key, _, int() as numel, *view):
                pass
            case ("module", value, *_):  # legacy files add the source of a module's class
                return value
            case _:
                raise FalseClaimError(
                    later("it holds something other than storages beside its pickle")
                )
        key, dtype = str(key), STORAGE_DTYPES.get(kind.__name__)
        if dtype is None:
            raise FalseClaimError(
                later("it holds a storage of unknown type {kind}", kind=f"torch.{kind.__name__}")
            )
        if not (are_sizes((numel,)) and key.isascii()):
            raise FalseClaimError(
                later(
                    "it holds a storage {key!r} of {entries} entries", key=key[:40], entries=numel
                )
            )
        storage = self._whole(key, numel * dtype.itemsize, dtype, kind)
        match view:
            case [] | [None]:
                return storage
            case [(_, int() as start, int() as size)]:
                if are_sizes((start, size, numel - start - size)):
                    return self._part(key, storage, start, size)
        raise FalseClaimError(later("it describes a storage in a way torch does not write"))

    def _whole(self, key: str, nbytes: int, dtype: torch.dtype, kind: type) -> TypedStorage:
        """Return a storage of the file. As in torch.load, it is typed whatever the file names."""
        if key not in self._known:
            told = None if kind is torch.UntypedStorage else dtype
            values = self._storages.storage(key, nbytes, told)
            self._known[key] = typed_storage(values, dtype), kind
        storage, known_kind = self._known[key]
        if known_kind is not kind:
            raise FalseClaimError(later("it claims the storage {key!r} with two types", key=key))
        if nbytes_of(storage) != nbytes:
            raise FalseClaimError(later("it claims the storage {key!r} with two sizes", key=key))
        return storage

    def _part(self, key: str, storage: TypedStorage, start: int, size: int) -> TypedStorage:
        """Return a part of a storage, as legacy files have them; the same one when asked again."""
        if (key, start, size) not in self._parts:
            itemsize = storage.dtype.itemsize
            values = storage._untyped_storage[start * itemsize : (start + size) * itemsize]
            self._parts[key, start, size] = typed_storage(
                cast("torch.UntypedStorage", values), storage.dtype
            )
        return self._parts[key, start, size]

    def _set_attributes(self, value: object, state: object, owner: type) -> None:
        """Give a value attributes that do not replace what its class has."""
        for names in state if isinstance(state, tuple) else (state,):
            if isinstance(names, dict) and all(isinstance(name, str) for name in names):
                for name in names:
                    if hasattr(owner, name):
                        raise FalseClaimError(
                            later(
                                "it replaces {name!r} of a {kind}",
                                name=name[:40],
                                kind=owner.__name__,
                            )
                        )
                self.count_copied(names)
                vars(value).update(names)
            elif names is not None:
                raise FalseClaimError(DAMAGED)

    def _tensor(
        self, arguments: tuple[object, ...], dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Build from (storage, offset, shape, strides, requires_grad, hooks, metadata)."""
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
                raise FalseClaimError(UNKNOWN_TENSOR)
        numel = checked_view(storage, offset, shape, strides, dtype)
        if dtype is not None and str(dtype).removeprefix("torch.") not in ENTRY_BITS:
            raise FalseClaimError(later("it holds a tensor of unknown dtype {dtype}", dtype=dtype))
        tensor = torch.empty(0, dtype=dtype or storage.dtype)
        sizes, steps = cast("tuple[int, ...]", shape), cast("tuple[int, ...]", strides)
        tensor.set_(storage._untyped_storage, offset, sizes, steps)
        for bits in metadata:
            set_bits(tensor, bits, numel, storage)
        if gradient:
            tensor.requires_grad = True
        return tensor

    def _tensor_without_gradient(self, arguments: tuple[object, ...]) -> torch.Tensor:
        """Build from (storage, offset, shape, strides)."""
        if len(arguments) != 4:
            raise FalseClaimError(UNKNOWN_TENSOR)
        return self._tensor((*arguments, False, None))

    def _tensor_of_dtype(self, arguments: tuple[object, ...]) -> torch.Tensor:
        """Build a tensor of a newer dtype, which lies in a storage of bytes."""
        match arguments:
            case (*_, torch.dtype() as dtype) if len(arguments) == 7:
                return self._tensor(arguments[:6], dtype)
            case (_, _, _, _, _, _, torch.dtype() as dtype, bits):
                return self._tensor((*arguments[:6], bits), dtype)
        raise FalseClaimError(UNKNOWN_TENSOR)

    def _quantized(self, arguments: tuple[object, ...]) -> torch.Tensor:
        match arguments:
            case (
                TypedStorage() as storage,
                int() as offset,
                tuple() as shape,
                tuple() as strides,
                *_,
            ):
                pass
            case _:
                raise FalseClaimError(UNKNOWN_TENSOR)
        numel = checked_view(storage, offset, shape, strides)
        if numel * storage.dtype.itemsize > nbytes_of(storage):  # torch makes room for all of them
            raise FalseClaimError(later("it repeats the entries of a quantized tensor"))
        match arguments[4:]:
            case ((torch.qscheme(), *_) as parameters, bool() as gradient, hooks):
                check_hooks(hooks)
            case _:
                raise FalseClaimError(UNKNOWN_TENSOR)
        rebuild: Any = torch._utils._rebuild_qtensor
        try:
            tensor = rebuild(storage, offset, shape, strides, parameters, gradient, OrderedDict())
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            raise FalseClaimError(UNKNOWN_TENSOR) from error
        return cast("torch.Tensor", tensor)

    def _sparse(self, arguments: tuple[object, ...]) -> torch.Tensor:
        """Build a sparse tensor. As in torch.load, nobody looks at its indices."""
        unknown = FalseClaimError(
            later("it describes a sparse tensor in a way torch does not write")
        )
        match arguments:
            case (torch.layout() as layout, tuple() as members):
                pass
            case _:
                raise unknown
        make: Any
        options: dict[str, object]
        match layout, members:
            case torch.sparse_coo, (
                torch.Tensor() as indices,
                torch.Tensor() as values,
                tuple() as shape,
                *coalesced,
            ) if len(coalesced) < 2:
                checked_numel((), shape)
                make = torch.sparse_coo_tensor
                options = {"is_coalesced": coalesced[0] is True} if coalesced else {}
                parts: tuple[object, ...] = (indices, values)
            case _, (
                torch.Tensor() as pointers,
                torch.Tensor() as indices,
                torch.Tensor() as values,
                tuple() as shape,
            ) if layout in COMPRESSED_LAYOUTS:
                checked_numel((), shape)
                make = torch.sparse_compressed_tensor
                options = {"layout": layout}
                parts = (pointers, indices, values)
            case _:
                raise unknown
        try:
            return cast("torch.Tensor", make(*parts, shape, check_invariants=False, **options))
        except (RuntimeError, ValueError, TypeError) as error:
            raise unknown from error

    def _without_values(self, arguments: tuple[object, ...]) -> torch.Tensor:
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
        raise FalseClaimError(later("it claims a tensor of an impossible shape"))

    def _copy(self, arguments: tuple[object, ...]) -> torch.Tensor:
        """Build a tensor of another device, which is made from one that the file holds."""
        match arguments:
            case (torch.Tensor() as tensor, torch.dtype() as dtype, _, bool()):
                pass
            case _:
                raise FalseClaimError(UNKNOWN_TENSOR)
        if tensor.dtype == dtype:
            return tensor
        values = self._storages.reserve(tensor.numel() * dtype.itemsize)
        octets = torch.empty(0, dtype=torch.uint8).set_(values)
        copy = octets.view(dtype).reshape(tensor.shape)
        self._copies.append((copy, tensor))
        return copy

    def _parameter(self, arguments: tuple[object, ...]) -> torch.nn.Parameter:
        """Build from (tensor, requires_grad, hooks)."""
        return self._parameter_with_state((*arguments, None))

    def _parameter_with_state(self, arguments: tuple[object, ...]) -> torch.nn.Parameter:
        """Build from (tensor, requires_grad, hooks, attributes)."""
        match arguments:
            case (torch.Tensor() as tensor, bool() as gradient, hooks, state):
                check_hooks(hooks)
            case _:
                raise FalseClaimError(UNKNOWN_TENSOR)
        parameter = torch.nn.Parameter(tensor, gradient)
        self._set_attributes(parameter, state, torch.Tensor)
        return parameter

    def _new_parameter(self, arguments: tuple[object, ...]) -> torch.nn.Parameter:
        """Build from (tensor, requires_grad); the last may be missing."""
        gradient = arguments[1:] or (True,)
        return self._parameter_with_state((*arguments[:1], *gradient, None, None))

    def _of_type(self, arguments: tuple[object, ...]) -> object:
        match arguments:
            case (function, type() as kind, tuple() as inner, state) if kind in (
                torch.Tensor,
                torch.nn.Parameter,
            ):
                made = self.call(function, inner)
                if isinstance(made, torch.Tensor):
                    if type(made) is not kind:
                        made = made.as_subclass(kind)
                    self._set_attributes(made, state, torch.Tensor)
                return made
        raise FalseClaimError(UNKNOWN_TENSOR)


Builder = Callable[[_TorchMachine, tuple[object, ...]], object]

_CALLS: Final[dict[str, tuple[object, Builder]]] = {
    "torch._utils._rebuild_tensor": (
        torch._utils._rebuild_tensor,
        _TorchMachine._tensor_without_gradient,
    ),
    "torch._utils._rebuild_tensor_v2": (torch._utils._rebuild_tensor_v2, _TorchMachine._tensor),
    "torch._utils._rebuild_tensor_v3": (
        torch._utils._rebuild_tensor_v3,
        _TorchMachine._tensor_of_dtype,
    ),
    "torch._utils._rebuild_qtensor": (torch._utils._rebuild_qtensor, _TorchMachine._quantized),
    "torch._utils._rebuild_sparse_tensor": (
        torch._utils._rebuild_sparse_tensor,
        _TorchMachine._sparse,
    ),
    "torch._utils._rebuild_meta_tensor_no_storage": (
        torch._utils._rebuild_meta_tensor_no_storage,
        _TorchMachine._without_values,
    ),
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": (
        torch._utils._rebuild_device_tensor_from_cpu_tensor,
        _TorchMachine._copy,
    ),
    "torch._utils._rebuild_parameter": (
        torch._utils._rebuild_parameter,
        _TorchMachine._parameter,
    ),
    "torch._utils._rebuild_parameter_with_state": (
        torch._utils._rebuild_parameter_with_state,
        _TorchMachine._parameter_with_state,
    ),
    "torch.nn.parameter.Parameter": (torch.nn.Parameter, _TorchMachine._new_parameter),
    "torch._tensor._rebuild_from_type_v2": (
        torch._tensor._rebuild_from_type_v2,
        _TorchMachine._of_type,
    ),
    "collections.OrderedDict": (OrderedDict, pickle_calls.ordered_dict),
    "collections.Counter": (Counter, pickle_calls.counter),
    "builtins.set": (set, pickle_calls.set_of),
    "torch.Size": (torch.Size, pickle_calls.size),
    "_codecs.encode": (_codecs.encode, pickle_calls.octets),
    "builtins.bytearray": (bytearray, pickle_calls.byte_array),
    "builtins.complex": (complex, pickle_calls.complex_number),
    "torch.device": (torch.device, pickle_calls.device),
    "torch.serialization._get_layout": (torch.serialization._get_layout, pickle_calls.layout),
}
"""What torch.save writes calls of, and what builds their results in place of them."""

_BUILDERS: Final = {id(function): build for function, build in _CALLS.values()}
