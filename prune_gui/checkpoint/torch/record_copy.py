"""Finalizing a torch file without its code: all of it is copied but the values of parameters.

The pickle, and with it every object that only the owner's code can build, stays byte for byte.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch.storage import TypedStorage, UntypedStorage

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import CHUNK_BYTES, byte_chunks
from prune_gui.checkpoint.torch.archive import TorchArchive, archive_nbytes
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.deflate import deflated_chunks
from prune_gui.checkpoint.torch.placement import Placement, StorageMap, replaced
from prune_gui.checkpoint.torch.state_dict_search import Root
from prune_gui.checkpoint.torch.zip_layout import METADATA_RECORD, Record, TorchLayout
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata, with_checksums
from prune_gui.checkpoint.write.plain_files import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor

VALUES_FOLDER: Final = "data/"
"""How the names of the records with storages begin."""
FIXED: Final = deferred(
    "{file}: the values of {key!r} cannot be replaced in place (they are inside the pickle, or "
    "repeat each other, or have the byte order of other machines). Save as .safetensors instead."
)


def copy_plan(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> CopyPlan | None:
    """Return how to copy the file of `template` with other values; None if it is not copied.

    The tensors to write must be those of the file, with the same dtypes and shapes. If the file
    needs no code, its objects can also be pickled again. So such a file is
    copied only if it is an archive, and the tensors have their storages to themselves: no other
    object has them, and no bytes are left over.

    Raises:
        CheckpointError: moments of an optimizer are to be written, and the file is not copied.
    """
    plan = _copy_plan(writers, template)
    if plan is None and any(writer.tensor.moments for writer in writers):
        raise CheckpointError(
            tr(
                "The moments of the optimizer cannot be set to zero in this file: it is not a copy "
                "of the opened one. Save without this option."
            )
        )
    return plan


def _copy_plan(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> CopyPlan | None:
    if not isinstance(template, TorchCheckpoint):
        return None
    dense = {key: raw for key, raw in template.raw.items() if raw.special is None}
    if len(writers) != len(dense) or any(
        (raw := dense.get(writer.key)) is None
        or (raw.dtype, raw.shape) != (writer.tensor.dtype, writer.tensor.shape)
        for writer in writers
    ):
        return None
    plan = CopyPlan(writers, template)
    if template.file.has_records:
        return plan
    in_place = template.file.layout is not None and not plan.fixed and plan.fills_storages
    return plan if in_place and not _shares_storages_outside(template) else None


def _shares_storages_outside(template: TorchCheckpoint) -> bool:
    """Return whether an object beside the dense tensors of the state dict shares a storage."""
    raw = template.raw
    dense = {key for key in raw if raw[key].special is None}
    storages = {template.read_key(key).untyped_storage().data_ptr() for key in dense}
    bare = isinstance(template.content, torch.Tensor)  # it is the state dict
    queue: list[object] = [] if bare else [template.content]
    seen: set[int] = set()
    while queue:
        value = queue.pop()
        if isinstance(value, TypedStorage):
            value = value._untyped_storage
        elif isinstance(value, torch.Tensor) and value.layout == torch.strided:
            value = value.untyped_storage()
        if isinstance(value, UntypedStorage):
            if value.data_ptr() in storages:
                return True
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if value is template.state:
                queue.extend(member for key, member in value.items() if key not in dense)
            else:
                queue.extend(value.values() if isinstance(value, dict) else value)
    return False


def write_copy(
    path: Path,
    plan: CopyPlan,
    metadata: Metadata,
    monitor: Monitor,
    *,
    compressed: bool,
) -> WrittenFile:
    """Write a copy of a torch file with other values of its tensors.

    An archive is copied record by record: those without a tensor of the state dict keep their
    bytes, compressed or not; those with one are stored. An additional record has the metadata. A
    legacy file has no place for metadata.

    If `compressed`, records of values that are stored are compressed; see `write_torch`.
    """
    plan.check_fixed(monitor)
    template, layout = plan.template, plan.template.file.layout
    if layout is None:
        if compressed:
            raise CheckpointError(
                tr(
                    "{file} is in the old format of torch.save, which has no compression. Save "
                    "without compression.",
                    file=template.path.name,
                )
            )
        return _write_legacy(path, plan, monitor)
    copies = list(_copies(plan, layout))
    if compressed:
        copies.sort(key=lambda copy: copy.name.startswith(VALUES_FOLDER) * (1 + copy.nbytes))
    monitor.expect(sum(copy.nbytes for copy in copies))
    with TorchArchive(path, layout.folder) as archive:
        for copy in copies:
            tried = compressed and not copy.compressed and copy.name.startswith(VALUES_FOLDER)
            if not (tried and _deflate(archive, copy, plan, monitor)):
                _store(archive, copy, plan, monitor, counted=not tried)
        by_key = plan.checksums_by_key()
        own = own_record(template.root, with_checksums(metadata, by_key, by_key))
        archive.add(METADATA_RECORD, own)
    return WrittenFile(by_key, [copy.name for copy in copies if not plan.is_summed(copy)])


def _deflate(archive: TorchArchive, copy: _Copy, plan: CopyPlan, monitor: Monitor) -> bool:
    """Write a record compressed; return False, and write nothing, if that is not smaller."""
    chunks = ((None, chunk) for chunk in plan.octets(copy, monitor))
    with closing(deflated_chunks(chunks, torch.get_num_threads())) as deflated:
        pairs = ((chunk, blocks) for _, chunk, blocks in deflated)
        return archive.deflate(copy.name, copy.nbytes, pairs) is not None


def _store(
    archive: TorchArchive, copy: _Copy, plan: CopyPlan, monitor: Monitor, *, counted: bool
) -> None:
    """Write a record uncompressed, or as it is compressed in the old file."""
    octets = plan.octets(copy, monitor, counted=counted)
    # A thread for each of many small records would cost more time than it saves.
    with closing(prefetch(octets) if copy.nbytes > CHUNK_BYTES else octets) as chunks:
        if copy.compressed is not None:
            archive.copy(copy.name, copy.compressed.entry, chunks)
        else:
            archive.stream(copy.name, copy.nbytes, chunks)


def copy_nbytes(plan: CopyPlan, metadata: Metadata) -> int:
    """Return the bytes of the file that `write_copy` would write."""
    layout = plan.template.file.layout
    if layout is None:
        return plan.template.source.size
    sizes = [(copy.name, copy.nbytes) for copy in _copies(plan, layout)]
    own = own_record(plan.template.root, with_checksums(metadata, plan.keys))
    return archive_nbytes([*sizes, (METADATA_RECORD, len(own))], layout.folder)


def own_record(root: Root, metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of the record with the path of the state dict and the metadata."""
    return json.dumps({"root": root, "metadata": dict(metadata)}, ensure_ascii=False).encode()


class CopyPlan:
    """Where the new values go.

    Attributes:
        template: the file to copy.
        placed: the values by the name of the record; "" is a legacy file.
        fixed: the tensors that have no place for other values.
        checksums: the CRC-32 of each tensor that was written, by name.
    """

    def __init__(self, writers: Sequence[KeyedWriter], template: TorchCheckpoint) -> None:
        self.template = template
        self._names = {writer.key: writer.tensor.name for writer in writers}
        self.placed: dict[str, list[Placement]] = {}
        self.fixed: list[TensorWriter] = []
        self.checksums: dict[str, int] = {}
        self._moments: set[str] = set()
        storages = StorageMap(() if template.file.swapped else template.file.locations)
        for tensor in {writer.tensor.name: writer.tensor for writer in writers}.values():
            self._place(tensor, storages)

    @property
    def keys(self) -> Iterable[str]:
        """The keys of the tensors."""
        return self._names.keys()

    @property
    def fills_storages(self) -> bool:
        """Whether the tensors are as large as the records that they are in."""
        return sum(placed.tensor.nbytes for each in self.placed.values() for placed in each) == sum(
            location.nbytes
            for location in self.template.file.locations
            if location.record in self.placed
        )

    def checksums_by_key(self) -> dict[str, int]:
        """Return the CRC-32 of each tensor that was written."""
        return {key: self.checksums[name] for key, name in self._names.items()}

    def octets(
        self, copy: _Copy, monitor: Monitor, *, counted: bool = True
    ) -> Generator[memoryview, None, None]:
        """Yield the bytes of a record, or of a legacy file, with the new values."""
        for chunk in replaced(copy.old, self.placed.get(copy.name, ())):
            self.template.check()
            monitor.advance(len(chunk) if counted else 0)
            yield chunk

    def is_summed(self, copy: _Copy) -> bool:
        """Return whether the checksums of tensors in the state dict cover all of a record."""
        placed = self.placed.get(copy.name, ())
        nbytes = sum(each.tensor.nbytes for each in placed)
        return copy.name not in self._moments and nbytes == copy.nbytes

    def unpacked(self, record: str) -> torch.Tensor:
        """Return the bytes of a compressed record with tensors: uint8, flat."""
        storage = self.placed[record][0].tensor.untyped_storage()
        return torch.empty(0, dtype=torch.uint8).set_(storage)

    def check_fixed(self, monitor: Monitor) -> None:
        """Check that the tensors without a place have their old values."""
        monitor.expect(sum(tensor.nbytes for tensor in self.fixed))
        for tensor in self.fixed:
            old = self.template.read_key(tensor.name).reshape(-1)
            for chunk in self._summed(tensor):
                monitor.advance(len(chunk))
            old_checksum = 0
            for chunk in byte_chunks(old):
                old_checksum = zlib.crc32(chunk, old_checksum)
            if self.checksums[tensor.name] != old_checksum:
                raise CheckpointError(tr(FIXED, file=self.template.path.name, key=tensor.name))

    def _place(self, tensor: TensorWriter, storages: StorageMap) -> None:
        old = self.template.state[tensor.name]
        assert isinstance(old, torch.Tensor)
        placed = None
        if self.template.raw[tensor.name].shares is None and old.numel():
            placed = storages.place(old.detach(), lambda: self._summed(tensor))
        if placed is None:
            self.fixed.append(tensor)
        else:
            self.placed.setdefault(placed.record, []).append(placed)
        for moment, writer in tensor.moments:
            self._place_moment(moment, writer, storages)

    def _place_moment(
        self, moment: torch.Tensor, writer: TensorWriter, storages: StorageMap
    ) -> None:
        placed = storages.place(moment.detach(), writer.byte_chunks)
        if placed is None:
            raise CheckpointError(
                tr(FIXED, file=self.template.path.name, key=f"{writer.name} (optimizer)")
            )
        self.placed.setdefault(placed.record, []).append(placed)
        self._moments.add(placed.record)

    def _summed(self, tensor: TensorWriter) -> Iterator[memoryview]:
        checksum = 0
        for chunk in tensor.byte_chunks():
            checksum = zlib.crc32(chunk, checksum)
            yield chunk
        self.checksums[tensor.name] = checksum


class _Copy(NamedTuple):
    """A record of the new archive, or a legacy file.

    Attributes:
        name: its name; "" for a legacy file.
        nbytes: its bytes in the archive.
        old: the bytes to copy: uint8, flat.
        compressed: the old record, if its compressed bytes are copied.
    """

    name: str
    nbytes: int
    old: torch.Tensor
    compressed: Record | None


def _copies(plan: CopyPlan, layout: TorchLayout) -> Iterator[_Copy]:
    pages = plan.template.source.pages(0, plan.template.source.size)
    for name, record in layout.records.items():
        if name == METADATA_RECORD:
            continue
        octets = pages[record.start : record.start + record.entry.compress_size]
        if record.stored:
            yield _Copy(name, record.nbytes, octets, None)
        elif name in plan.placed:
            yield _Copy(name, record.nbytes, plan.unpacked(name), None)
        else:
            yield _Copy(name, record.entry.compress_size, octets, record)


def _write_legacy(path: Path, plan: CopyPlan, monitor: Monitor) -> WrittenFile:
    source = plan.template.source
    monitor.expect(source.size)
    whole = 0
    copy = _Copy("", source.size, source.pages(0, source.size), None)
    with path.open("wb") as file, closing(prefetch(plan.octets(copy, monitor))) as chunks:
        for chunk in chunks:
            file.write(chunk)
            whole = zlib.crc32(chunk, whole)
        flush(file)
    return WrittenFile(plan.checksums_by_key(), whole=whole)
