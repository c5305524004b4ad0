"""Pickling objects for torch.load without the values of their tensors.

torch.save pickles everything but the storages, which it numbers and writes after the pickle from
memory. This module writes the same pickle, but a tensor may be a placeholder on the device "meta",
a blank, whose values the caller writes.
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

DEFAULT_REDUCTION: Final = cast("Reduced", NotImplemented)
PROTOCOL: Final = 2
"""The pickle protocol that torch's restricted unpickler reads."""


def pickled(content: object, blanks: Iterable[torch.Tensor]) -> tuple[bytes, list[UntypedStorage]]:
    """Return the pickle of an object, and the storages that it refers to by number."""
    file = io.BytesIO()
    pickler = _Pickler(file, blanks)
    try:
        pickler.dump(content)
    except RecursionError as error:
        raise CheckpointError(
            tr("The dictionaries are nested too deeply for torch.save.")
        ) from error
    return file.getvalue(), pickler.storages


def identity(storage: UntypedStorage) -> int:
    """Return a number that identifies a storage as long as it exists."""
    return int(storage._cdata)


class _Pickler(pickle.Pickler):
    """Writes the pickle that torch.save writes.

    Attributes:
        storages: the storages so far, by number.
    """

    def __init__(self, file: io.BytesIO, blanks: Iterable[torch.Tensor]) -> None:
        super().__init__(file, PROTOCOL)
        self.storages: list[UntypedStorage] = []
        self._numbers: dict[int, str] = {}
        self._blanks = {identity(blank.untyped_storage()) for blank in blanks}

    def reducer_override(self, value: object) -> Reduced:
        """Reduce a blank as torch reduces a tensor with values and the same dtype."""
        if type(value) is not torch.Tensor or not value.is_meta:
            return DEFAULT_REDUCTION
        storage: Any = value.untyped_storage()
        if identity(storage) not in self._blanks:
            return DEFAULT_REDUCTION
        model: Any = torch.empty(0, dtype=torch.uint8).view(value.dtype)
        rebuild, (model_storage, _, _, _, *rest) = model.__reduce_ex__(PROTOCOL)
        if isinstance(model_storage, TypedStorage):
            storage = typed_storage(storage, value.dtype)
        return rebuild, (storage, 0, tuple(value.shape), value.stride(), *rest)

    def persistent_id(self, value: object) -> tuple[object, ...] | None:
        """Return the reference to a storage by number, as torch writes it."""
        if isinstance(value, TypedStorage):
            typed: Any = value
            storage, numel = typed._untyped_storage, typed._size()
            kind = getattr(torch, typed._pickle_storage_type())
        elif isinstance(value, UntypedStorage):
            storage, numel, kind = value, value.nbytes(), UntypedStorage
        else:
            return None
        number = self._numbers.get(identity(storage))
        if number is None:
            number = self._numbers[identity(storage)] = str(len(self.storages))
            self.storages.append(storage)
        return "storage", kind, number, "cpu", numel
