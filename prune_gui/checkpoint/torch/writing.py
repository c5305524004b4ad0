"""Writing files for torch.load: the object of the input file with a new state dict."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final, NamedTuple, cast

import torch

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import byte_chunks
from prune_gui.checkpoint.torch.archive import TorchArchive, archive_nbytes
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.deflate import deflated_chunks
from prune_gui.checkpoint.torch.pickling import identity, pickled
from prune_gui.checkpoint.torch.record_copy import copy_nbytes, copy_plan, own_record, write_copy
from prune_gui.checkpoint.torch.state_dict_search import Root, with_state
from prune_gui.checkpoint.torch.zip_layout import BYTE_ORDER, METADATA_RECORD
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata, with_checksums
from prune_gui.checkpoint.write.plain_files import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

VERSION: Final = b"3\n"
"""The version of torch's file format."""


def write_torch(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
    *,
    compressed: bool = False,
    tensors_only: bool = False,
) -> WrittenFile:
    """Write a torch file to `path`.

    Only a few chunks of the values are in memory at once. If `template` is a torch file with the
    same tensors, it is copied with other values; see `copy_plan`. If it is one with other tensors,
    its objects outside of the state dict are kept, and in the state dict everything but dense
    tensors, and tensors that share elements with others. If these objects need code to build, or
    with `tensors_only`, the file is a plain state dict of tensors. The metadata and the path of the
    state dict are in an additional record, which torch ignores.

    If `compressed`, records of values are compressed if that makes them smaller, on
    `torch.get_num_threads()` threads. The largest record is then the last one: torch.load with
    mmap=True takes compressed bytes for values, unless a record would extend beyond the file.
    """
    if not tensors_only and (plan := copy_plan(writers, template)) is not None:
        return write_copy(path, plan, metadata, monitor, compressed=compressed)
    root, leading, records = _records(writers, template, tensors_only=tensors_only)
    if compressed:
        records.sort(key=attrgetter("nbytes"))
    monitor.expect(sum(record.nbytes for record in records))
    checksums: dict[str, int] = {}
    with TorchArchive(path) as archive, closing(prefetch(_record_chunks(records))) as prepared:
        for name, octets in leading.items():
            archive.add(name, octets)
        write_records = _write_compressed if compressed else _write_stored
        for record, checksum in write_records(archive, prepared, monitor):
            if record.tensor is not None:
                checksums[record.tensor.name] = checksum
        tensors = {writer.tensor.name: writer.tensor for writer in writers}
        for name in [name for name in tensors if name not in checksums]:
            checksums[name] = _checksum(tensors[name], monitor)
        by_key = {writer.key: checksums[writer.tensor.name] for writer in writers}
        for name, octets in _own_records(root, with_checksums(metadata, by_key, by_key)).items():
            archive.add(name, octets)
    return WrittenFile(by_key, [record.name for record in records if record.tensor is None])


def torch_nbytes(
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    *,
    tensors_only: bool = False,
) -> int:
    """Return the bytes of the file that `write_torch` would write."""
    if not tensors_only and (plan := copy_plan(writers, template)) is not None:
        return copy_nbytes(plan, metadata)
    root, leading, records = _records(writers, template, tensors_only=tensors_only)
    trailing = _own_records(root, with_checksums(metadata, (writer.key for writer in writers)))
    sizes = {name: len(octets) for name, octets in leading.items()}
    sizes |= {record.name: record.nbytes for record in records}
    sizes |= {name: len(octets) for name, octets in trailing.items()}
    return archive_nbytes(sizes.items())


def _records(
    writers: Sequence[KeyedWriter], checkpoint: Checkpoint | None, *, tensors_only: bool
) -> tuple[Root, dict[str, bytes], list[_Record]]:
    """Return the path of the state dict, the small leading records, and the records of values.

    `_own_records` follow after these in the archive.
    """
    template = checkpoint if isinstance(checkpoint, TorchCheckpoint) else None
    is_plain = template is None or tensors_only or is_reduced(writers, template)
    tensors = {writer.tensor.name: writer.tensor for writer in writers}
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
    records = [
        _record(f"data/{number}", storage, owners.get(identity(storage)), template)
        for number, storage in enumerate(storages)
    ]
    return root, {"data.pkl": pickle, BYTE_ORDER: sys.byteorder.encode()}, records


def is_reduced(writers: Sequence[KeyedWriter], template: TorchCheckpoint) -> bool:
    """Return whether the file gets none of the objects around the state dict of `template`.

    These may need code to build. Names of code are kept only beside the same tensors.
    """
    dense = {key for key, raw in template.raw.items() if raw.special is None}
    return (
        template.file.has_records
        or (bool(template.foreign) and {writer.key for writer in writers} != dense)
        or _outgrows_bare_tensor(writers, template)
    )


def _outgrows_bare_tensor(writers: Sequence[KeyedWriter], template: TorchCheckpoint) -> bool:
    """Return whether the file is a bare tensor, and a tensor under another key is to be written."""
    bare = isinstance(template.content, torch.Tensor)
    return bare and [writer.key for writer in writers] != list(template.keys)


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
                tr(
                    "{file}: {key!r} ({special}) cannot be stored in a plain state dict. Save the "
                    "finalized form with all objects.",
                    file=template.path.name,
                    key=key,
                    special=tr(raw.special),
                )
            )
        tensors[key] = cast("torch.Tensor", value).detach()
    return tensors


def _own_records(root: Root, metadata: Mapping[str, str]) -> dict[str, bytes]:
    return {"version": VERSION, METADATA_RECORD: own_record(root, metadata)}


class _Record(NamedTuple):
    """A record with values.

    Attributes:
        name: the name of the record.
        nbytes: the total bytes of all chunks.
        chunks: returns the bytes of the values.
        tensor: the tensor that the values belong to; None if they are kept from the input.
    """

    name: str
    nbytes: int
    chunks: Callable[[], Iterator[memoryview]]
    tensor: TensorWriter | None


RecordChunks = Iterable[tuple[_Record, memoryview]]
"""The chunks of each record, an empty one first."""


def _record(
    name: str,
    storage: torch.UntypedStorage,
    tensor: TensorWriter | None,
    template: TorchCheckpoint | None,
) -> _Record:
    if tensor is not None:
        return _Record(name, tensor.nbytes, tensor.byte_chunks, tensor)
    assert template is not None
    return _Record(name, storage.nbytes(), partial(_storage_chunks, storage, template), None)


def _storage_chunks(
    storage: torch.UntypedStorage, template: TorchCheckpoint
) -> Iterator[memoryview]:
    for chunk in byte_chunks(template.values_of(torch.empty(0, dtype=torch.uint8).set_(storage))):
        template.check()
        yield chunk


def _record_chunks(records: Iterable[_Record]) -> Iterator[tuple[_Record, memoryview]]:
    """Yield all chunks of all records in order, and an empty chunk before those of each record."""
    for record in records:
        yield record, memoryview(b"")
        for chunk in record.chunks():
            yield record, chunk


def _write_stored(
    archive: TorchArchive, record_chunks: RecordChunks, monitor: Monitor
) -> Iterator[tuple[_Record, int]]:
    """Write the records, and yield each with its CRC-32."""
    for record, chunks in groupby(record_chunks, itemgetter(0)):
        yield record, archive.stream(record.name, record.nbytes, _with_progress(chunks, monitor))


def _write_compressed(
    archive: TorchArchive, record_chunks: RecordChunks, monitor: Monitor
) -> Iterator[tuple[_Record, int]]:
    """Write the records compressed if that makes them smaller, and yield each with its CRC-32."""
    with closing(deflated_chunks(record_chunks, torch.get_num_threads())) as prepared:
        for record, chunks in groupby(prepared, itemgetter(0)):
            checksum = archive.deflate(
                record.name, record.nbytes, _deflated_with_progress(chunks, monitor)
            )
            if checksum is None:
                checksum = archive.stream(
                    record.name, record.nbytes, _cancellable(record.chunks(), monitor)
                )
            yield record, checksum


def _deflated_with_progress(
    record_chunks: Iterable[tuple[_Record, memoryview, bytes]], monitor: Monitor
) -> Iterator[tuple[memoryview, bytes]]:
    for _, chunk, compressed in record_chunks:
        yield chunk, compressed
        monitor.advance(len(chunk))


def _cancellable(chunks: Iterable[memoryview], monitor: Monitor) -> Iterator[memoryview]:
    for chunk in chunks:
        yield chunk
        monitor.advance()


def _with_progress(record_chunks: RecordChunks, monitor: Monitor) -> Iterator[memoryview]:
    for _, chunk in record_chunks:
        yield chunk
        monitor.advance(len(chunk))


def _checksum(tensor: TensorWriter, monitor: Monitor) -> int:
    checksum = 0
    monitor.expect(tensor.nbytes)
    for chunk in tensor.byte_chunks():
        checksum = zlib.crc32(chunk, checksum)
        monitor.advance(len(chunk))
    return checksum


def _blank(tensor: TensorWriter) -> torch.Tensor:
    """Return a tensor on the device "meta" with the dtype and shape of the one to write."""
    dtype = getattr(torch, tensor.dtype, None)
    if dtype is None:
        raise CheckpointError(
            tr(
                "{key!r} has the dtype {dtype}, which torch does not know. "
                "Save as .safetensors instead.",
                key=tensor.name,
                dtype=tensor.dtype,
            )
        )
    octets = torch.empty(tensor.nbytes, dtype=torch.uint8, device="meta")
    return octets.view(dtype).reshape(tensor.shape)


def _state(
    writers: Sequence[KeyedWriter], blanks: Mapping[str, torch.Tensor], template: TorchCheckpoint
) -> dict[str, object]:
    """Return the new state dict: the tensors, and the other values of `template` in their order."""
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
