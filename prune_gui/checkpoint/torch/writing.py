"""Writing files for torch.load: the object of the input file with a new state dict.

The pickle is that of torch.save, but a tensor may be a blank on the device "meta", whose values
come from a writer.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch
from torch.storage import TypedStorage, UntypedStorage

from prune_gui.checkpoint.source import byte_chunks, crc32_of
from prune_gui.checkpoint.torch.archive import (
    FOLDER,
    VALUES_FOLDER,
    NewRecord,
    TorchArchive,
    archive_nbytes,
    padding,
)
from prune_gui.checkpoint.torch.checked_calls import typed_storage
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.record_copy import CopyPlan, copy_plan
from prune_gui.checkpoint.torch.state_dict_search import Root, with_state
from prune_gui.checkpoint.torch.zip_layout import BYTE_ORDER, METADATA_RECORD, VERSION_RECORD
from prune_gui.checkpoint.write.content import FileContent, KeyedWriter, TensorWriter, WrittenFile
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

VERSION: Final = b"3\n"
"""The version of torch's file format."""
Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
DEFAULT_REDUCTION: Final = cast("Reduced", NotImplemented)
PROTOCOL: Final = 2
"""The pickle protocol that torch's restricted unpickler reads."""


def write_torch(
    path: Path,
    content: FileContent,
    monitor: Monitor,
    *,
    compressed: bool = False,
    tensors_only: bool = False,
) -> WrittenFile:
    """Write a torch file to `path`, with only a few chunks of the values in memory at once.

    If the template is a torch file with the same tensors, it is copied with other values; see
    `copy_plan`. If it is one with other tensors, its objects outside of the state dict are kept,
    and in the state dict everything but dense tensors, and tensors that share elements with others.
    If these objects need code to build, or with `tensors_only`, the file is a plain state dict of
    tensors. The metadata and the path of the state dict are in an additional record, which torch
    ignores.

    If `compressed`, records of values are compressed if that makes them smaller. The largest one is
    then the last one of values: torch.load with mmap=True takes compressed bytes for values, unless
    a record would extend beyond the file.
    """
    plan = None if tensors_only else copy_plan(content.writers, content.template)
    tensors, names = content.tensors, {one.key: one.tensor.name for one in content.writers}
    if plan is not None:
        plan.check_fixed(monitor)
    if plan is not None and plan.layout is None:
        if compressed:
            raise CheckpointError(
                "{file} is in the old format of torch.save, which has no compression. Save "
                "without compression.",
                file=plan.template.path.name,
            )
        whole = plan.write_legacy(path, monitor)
        by_key = {key: plan.checksums[name] for key, name in names.items()}
        return WrittenFile(by_key, whole=whole)
    contents = _contents(content, plan, tensors_only=tensors_only)
    records, checksums = contents.records, contents.checksums
    if compressed:
        records.sort(key=lambda each: each.name.startswith(VALUES_FOLDER) * (1 + each.nbytes))
    monitor.expect(sum(record.nbytes for record in records))
    with TorchArchive(path, contents.folder) as archive:
        for record, checksum in archive.write(records, monitor, compressed=compressed):
            if record.tensor:
                checksums[record.tensor] = checksum
        for name in [name for name in tensors if name not in checksums]:
            monitor.expect(tensors[name].nbytes)
            checksums[name] = crc32_of(tensors[name].byte_chunks(), monitor)
        by_key = {key: checksums[name] for key, name in names.items()}
        archive.add(METADATA_RECORD, _own_record(contents.root, content.texts(by_key)))
    return WrittenFile(by_key, [record.name for record in records if record.is_kept])


def torch_nbytes(content: FileContent, *, tensors_only: bool = False) -> int:
    """Return the bytes of the file that `write_torch` would write."""
    plan = None if tensors_only else copy_plan(content.writers, content.template)
    if plan is not None and plan.layout is None:
        return plan.template.source.size
    contents = _contents(content, plan, tensors_only=tensors_only)
    sizes = {record.name: record.nbytes for record in contents.records}
    sizes[METADATA_RECORD] = len(_own_record(contents.root, content.texts()))
    paths = ((f"{contents.folder}/{name}", nbytes) for name, nbytes in sizes.items())
    return archive_nbytes(paths, padding)


class _Contents(NamedTuple):
    """What an archive holds without the record of this program; the CRC-32 of written tensors."""

    root: Root
    records: list[NewRecord]
    checksums: dict[str, int]
    folder: str = FOLDER


def _contents(new: FileContent, plan: CopyPlan | None, *, tensors_only: bool) -> _Contents:
    if plan is not None and plan.layout is not None:
        return _Contents(
            plan.template.root, plan.records(plan.layout), plan.checksums, plan.layout.folder
        )
    template = new.template if isinstance(new.template, TorchCheckpoint) else None
    writers, tensors = new.writers, new.tensors
    is_plain = template is None or tensors_only or is_reduced(writers, template)
    blanks = {name: _blank(tensor) for name, tensor in tensors.items()}
    root: Root = ()
    content: object
    if is_plain:
        content = {writer.key: blanks[writer.tensor.name] for writer in writers}
        content |= _special_tensors(writers, template) if template is not None else {}
    else:
        assert template is not None
        state = _state(writers, blanks, template)
        root, content = template.root, with_state(template.content, template.root, state)
    pickle, storages = pickled(content, blanks.values())
    owners = {identity(blank.untyped_storage()): tensors[name] for name, blank in blanks.items()}
    records = [_small("data.pkl", pickle), _small(BYTE_ORDER, sys.byteorder.encode())]
    for number, storage in enumerate(storages):
        name, tensor = f"{VALUES_FOLDER}{number}", owners.get(identity(storage))
        if tensor is not None:
            record = NewRecord(name, tensor.nbytes, tensor.byte_chunks, tensor=tensor.name)
        else:
            assert template is not None
            chunks = partial(_storage_chunks, storage, template)
            record = NewRecord(name, storage.nbytes(), chunks, is_kept=True)
        records.append(record)
    records.append(_small(VERSION_RECORD, VERSION))
    return _Contents(root, records, {})


def _small(name: str, octets: bytes) -> NewRecord:
    return NewRecord(name, len(octets), lambda: [memoryview(octets)], has_values=False)


def _own_record(root: Root, metadata: Mapping[str, str]) -> bytes:
    return json.dumps({"root": root, "metadata": dict(metadata)}, ensure_ascii=False).encode()


def _storage_chunks(
    storage: torch.UntypedStorage, template: TorchCheckpoint
) -> Iterator[memoryview]:
    for chunk in byte_chunks(template.values_of(torch.empty(0, dtype=torch.uint8).set_(storage))):
        template.check()
        yield chunk


def is_reduced(writers: Sequence[KeyedWriter], template: TorchCheckpoint) -> bool:
    """Return whether the file gets none of the objects around the state dict of `template`."""
    # Objects may need code to build. Names of code are kept only beside the same tensors.
    keys = [writer.key for writer in writers]
    dense = {key for key, raw in template.raw.items() if raw.special is None}
    return (
        template.has_records
        or (bool(template.foreign) and set(keys) != dense)
        or (isinstance(template.content, torch.Tensor) and keys != list(template.keys))
    )


def _special_tensors(
    writers: Sequence[KeyedWriter], template: TorchCheckpoint
) -> dict[str, torch.Tensor]:
    """Return the tensors of the state dict that are not written, for a plain state dict."""
    written = {writer.key for writer in writers}
    tensors = {}
    for key, raw in template.raw.items():
        if raw.special is None or key in written:
            continue
        value = template.state[key]
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise CheckpointError(
                "{file}: {key!r} ({special}) cannot be stored in a plain state dict. Save the "
                "finalized form with all objects.",
                file=template.path.name,
                key=key,
                special=tr(raw.special),
            )
        tensors[key] = cast("torch.Tensor", value).detach()
    return tensors


def _blank(tensor: TensorWriter) -> torch.Tensor:
    """Return a tensor on the device "meta" with the dtype and shape of the one to write."""
    dtype = getattr(torch, tensor.dtype, None)
    if dtype is None:
        raise CheckpointError(
            "{key!r} has the dtype {dtype}, which torch does not know. "
            "Save as .safetensors instead.",
            key=tensor.name,
            dtype=tensor.dtype,
        )
    octets = torch.empty(tensor.nbytes, dtype=torch.uint8, device="meta")
    return octets.view(dtype).reshape(tensor.shape)


def _state(
    writers: Sequence[KeyedWriter], blanks: Mapping[str, torch.Tensor], template: TorchCheckpoint
) -> dict[str, object]:
    written = {writer.key for writer in writers}
    values: list[tuple[float, str, object]] = [
        (writer.position, writer.key, _placeholder(writer, blanks[writer.tensor.name], template))
        for writer in writers
    ]
    index = 0
    for key, value in template.state.items():
        raw = template.raw.get(key)
        if (raw is None or raw.special is not None) and key not in written:
            values.append((index if raw else index - 0.5, key, value))
        index += raw is not None
    values.sort(key=lambda item: item[0])
    return {key: value for _, key, value in values}


def _placeholder(writer: KeyedWriter, blank: torch.Tensor, template: TorchCheckpoint) -> object:
    """Return the value to pickle: the old tensor if it shares elements, else a blank."""
    old, raw = template.state.get(writer.replaced), template.raw.get(writer.replaced)
    if raw is not None and raw.shares is not None and raw.shape == writer.tensor.shape:
        return old
    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(blank, requires_grad=old.requires_grad)
    return blank


def pickled(content: object, blanks: Iterable[torch.Tensor]) -> tuple[bytes, list[UntypedStorage]]:
    """Return the pickle of an object, and the storages that it refers to by number."""
    file = io.BytesIO()
    pickler = _Pickler(file, blanks)
    try:
        pickler.dump(content)
    except RecursionError as error:
        raise CheckpointError("The dictionaries are nested too deeply for torch.save.") from error
    return file.getvalue(), pickler.storages


def identity(storage: UntypedStorage) -> int:
    """Return a number that identifies a storage as long as it exists."""
    return int(storage._cdata)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, blanks: Iterable[torch.Tensor]) -> None:
        super().__init__(file, PROTOCOL)
        self.storages: list[UntypedStorage] = []
        self._numbers: dict[int, str] = {}
        self._blanks = {identity(blank.untyped_storage()) for blank in blanks}

    def reducer_override(self, value: object) -> Reduced:
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
