"""Pickling what torch.load reads, with the values left for later.

torch.save pickles everything but the storages, which it numbers and writes behind the pickle, all
of them from memory. Here the pickle is the same, and a tensor that has no values yet can stand in
it for one whose values are written by somebody else.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import torch
from torch.storage import TypedStorage, UntypedStorage

from prune_gui.checkpoint.torch.claims import typed_storage
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]

AS_USUAL: Final = cast("Reduced", NotImplemented)
PROTOCOL: Final = 2
"""Of pickle: the one that torch's restricted unpickler reads."""


def pickled(nest: object, blanks: Iterable[torch.Tensor]) -> tuple[bytes, list[UntypedStorage]]:
    """Return the pickle of a nest, and the storages that it refers to by their number.

    Args:
        nest: what to pickle.
        blanks: tensors on the device "meta" which are to be read as tensors with values. Their
            storages are among those returned.

    Raises:
        CheckpointError: the nest is too deep.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, blanks)
    try:
        pickler.dump(nest)
    except RecursionError as error:
        raise CheckpointError(
            tr("The dictionaries are nested too deeply for torch.save.")
        ) from error
    return file.getvalue(), pickler.storages


def identity(storage: UntypedStorage) -> int:
    """Return what all views of a storage that is alive have in common, and no other has."""
    return int(storage._cdata)


class _Pickler(pickle.Pickler):
    """Writes what torch.save does.

    Attributes:
        storages: those met so far, in the order of their numbers.
    """

    def __init__(self, file: io.BytesIO, blanks: Iterable[torch.Tensor]) -> None:
        super().__init__(file, PROTOCOL)
        self.storages: list[UntypedStorage] = []
        self._numbers: dict[int, str] = {}
        self._blanks = {identity(blank.untyped_storage()) for blank in blanks}

    def reducer_override(self, value: object) -> Reduced:
        """Describe a blank as torch describes a tensor of its dtype that has values."""
        if type(value) is not torch.Tensor or not value.is_meta:
            return AS_USUAL
        storage: Any = value.untyped_storage()
        if identity(storage) not in self._blanks:
            return AS_USUAL
        model: Any = torch.empty(0, dtype=torch.uint8).view(value.dtype)
        rebuild, (of_model, _, _, _, *rest) = model.__reduce_ex__(PROTOCOL)
        if isinstance(of_model, TypedStorage):
            storage = typed_storage(storage, value.dtype)
        return rebuild, (storage, 0, tuple(value.shape), value.stride(), *rest)

    def persistent_id(self, value: object) -> tuple[object, ...] | None:
        """Refer to a storage by its number, as torch does."""
        if isinstance(value, TypedStorage):
            typed: Any = value
            storage, entries = typed._untyped_storage, typed._size()
            kind = getattr(torch, typed._pickle_storage_type())
        elif isinstance(value, UntypedStorage):
            storage, entries, kind = value, value.nbytes(), UntypedStorage
        else:
            return None
        number = self._numbers.get(identity(storage))
        if number is None:
            number = self._numbers[identity(storage)] = str(len(self.storages))
            self.storages.append(storage)
        return "storage", kind, number, "cpu", entries
