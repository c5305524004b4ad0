"""Finalizing a torch file without its code: all of it is copied but the values of parameters.

The pickle, and with it every object that only the owner's code can build, stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch.storage import TypedStorage, UntypedStorage
from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import byte_chunks, crc32_of
from prune_gui.checkpoint.torch.archive import VALUES_FOLDER, NewRecord
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.pickle_machine import reachable
from prune_gui.checkpoint.torch.storages import (
    Chunks,
    Placement,
    StorageMap,
    repeats_elements,
    replaced,
)
from prune_gui.checkpoint.torch.zip_layout import METADATA_RECORD, TorchLayout
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.content import KeyedWriter, TensorWriter
from prune_gui.checkpoint.write.plain_files import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred
from prune_gui.monitor import Monitor

FIXED: Final = deferred(
    "{file}: the values of {key!r} cannot be replaced in place (they are inside the pickle, or "
    "repeat each other, or have the byte order of other machines). Save as .safetensors instead."
)


def copy_plan(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> CopyPlan | None:
    """Return how to copy the file of `template` with other values; None if it is not copied.

    The tensors to write must be those of the file, with the same dtypes and shapes. If the file
    needs no code, its objects can also be pickled again. So such a file is copied only if it is an
    archive, and the tensors have their storages to themselves: no other object has them, and no
    bytes are left over. Moments of an optimizer can only be written to a copy.
    """
    plan = _copy_plan(writers, template)
    if plan is None and any(writer.tensor.moments for writer in writers):
        raise CheckpointError(
            "The moments of the optimizer cannot be set to zero in this file: it is not a copy "
            "of the opened one. Save without this option."
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
    if template.has_records:
        return plan
    in_place = template.layout is not None and not plan.fixed and plan.fills_storages
    return plan if in_place and not _shares_storages_outside(template) else None


def _shares_storages_outside(template: TorchCheckpoint) -> bool:
    if isinstance(template.content, torch.Tensor):  # it is the state dict
        return False
    state = template.state
    dense = {key for key, raw in template.raw.items() if raw.special is None}
    storages = {template.read_key(key).untyped_storage().data_ptr() for key in dense}
    others = [member for key, member in state.items() if key not in dense]
    for value in reachable([template.content, *others], lambda each: each is not state):
        if isinstance(value, TypedStorage):
            value = value._untyped_storage
        elif isinstance(value, torch.Tensor) and value.layout == torch.strided:
            value = value.untyped_storage()
        if isinstance(value, UntypedStorage) and value.data_ptr() in storages:
            return True
    return False


class CopyPlan:
    """Where the new values go."""

    def __init__(self, writers: Sequence[KeyedWriter], template: TorchCheckpoint) -> None:
        self.template = template
        self.layout = template.layout
        self.placed: dict[str, list[Placement]] = {}  # by record; "" is a legacy file
        self.fixed: list[TensorWriter] = []  # without a place for other values
        self.checksums: dict[str, int] = {}  # of the tensors that were written, by name
        self._moments: set[str] = set()
        storages = StorageMap(() if template.swapped else template.locations)
        for tensor in {writer.tensor.name: writer.tensor for writer in writers}.values():
            self._place(tensor, storages)

    @property
    def fills_storages(self) -> bool:
        """Whether the tensors are as large as the records that they are in."""
        return sum(placed.tensor.nbytes for each in self.placed.values() for placed in each) == sum(
            location.nbytes
            for location in self.template.locations
            if location.record in self.placed
        )

    def records(self, layout: TorchLayout) -> list[NewRecord]:
        """Return the records to write; those without a parameter keep their bytes."""
        pages = self.template.source.pages(0, self.template.source.size)
        records = []
        for name, record in layout.records.items():
            if name == METADATA_RECORD:
                continue
            octets = pages[record.start : record.start + record.entry.compress_size]
            stays_compressed = not record.stored and name not in self.placed
            placed = self.placed.get(name, ())
            if not record.stored and placed:  # its unpacked bytes are in memory
                storage = placed[0].tensor.untyped_storage()
                octets = torch.empty(0, dtype=torch.uint8).set_(storage)
            summed_nbytes = sum(each.tensor.nbytes for each in placed)
            records.append(
                NewRecord(
                    name,
                    len(octets),
                    partial(self._octets, name, octets),
                    has_values=name.startswith(VALUES_FOLDER) and not stays_compressed,
                    compressed=record.entry if stays_compressed else None,
                    is_kept=name in self._moments or summed_nbytes != len(octets),
                )
            )
        return records

    def _octets(self, name: str, old: torch.Tensor) -> Iterator[memoryview]:
        for chunk in replaced(old, self.placed.get(name, ())):
            self.template.check()
            yield chunk

    def write_legacy(self, path: Path, monitor: Monitor) -> int:
        """Write a legacy file, which has no place for metadata, and return its CRC-32."""
        source = self.template.source
        monitor.expect(source.size)
        whole = 0
        octets = self._octets("", source.pages(0, source.size))
        with path.open("wb") as file, closing(prefetch(octets)) as chunks:
            for chunk in chunks:
                file.write(chunk)
                monitor.advance(len(chunk))
                whole = crc32(chunk, whole)
            flush(file)
        return whole

    def check_fixed(self, monitor: Monitor) -> None:
        """Check that the tensors without a place have their old values."""
        monitor.expect(sum(tensor.nbytes for tensor in self.fixed))
        for tensor in self.fixed:
            old = self.template.read_key(tensor.name).reshape(-1)
            self.checksums[tensor.name] = crc32_of(tensor.byte_chunks(), monitor)
            if self.checksums[tensor.name] != crc32_of(byte_chunks(old)):
                raise CheckpointError(FIXED, file=self.template.path.name, key=tensor.name)

    def _place(self, tensor: TensorWriter, storages: StorageMap) -> None:
        old = self.template.state[tensor.name]
        assert isinstance(old, torch.Tensor)
        record = None
        if self.template.raw[tensor.name].shares is None and old.numel():
            record = self._put(old, lambda: self._summed(tensor), storages)
        if record is None:
            self.fixed.append(tensor)
        for moment, writer in tensor.moments:
            record = self._put(moment, writer.byte_chunks, storages)
            if record is None:
                raise CheckpointError(
                    FIXED, file=self.template.path.name, key=f"{writer.name} (optimizer)"
                )
            self._moments.add(record)

    def _put(self, old: torch.Tensor, chunks: Chunks, storages: StorageMap) -> str | None:
        """Note new values for a tensor, and return their record; None if the file has no place."""
        old = old.detach()
        found = None if repeats_elements(old) else storages.find(old)
        if found is None:
            return None
        location, start = found
        placed = Placement(location.record, location.start + start, old, chunks)
        self.placed.setdefault(location.record, []).append(placed)
        return location.record

    def _summed(self, tensor: TensorWriter) -> Iterator[memoryview]:
        checksum = 0
        for chunk in tensor.byte_chunks():
            checksum = crc32(chunk, checksum)
            yield chunk
        self.checksums[tensor.name] = checksum
