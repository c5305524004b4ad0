"""How large a checkpoint will be, told from what is to be in it before a byte is written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Checkpoint, Format, format_of
from prune_gui.checkpoint.entries import Entry, Placed, place
from prune_gui.checkpoint.nest import tensors_of
from prune_gui.checkpoint.safetensors_writer import header_of
from prune_gui.checkpoint.sharded_writing import Index, check_shards, shards_of
from prune_gui.checkpoint.torch_file import TorchCheckpoint
from prune_gui.checkpoint.writing import KEEP_THE_FILES, check_nothing_special
from prune_gui.monitor import Monitor

ARCHIVE_BYTES: Final = 1500
"""What a torch archive takes besides its tensors: about so much, and about so much for each."""
RECORD_BYTES: Final = 340


@dataclass(frozen=True, slots=True)
class Extent:
    """How much room something takes.

    Attributes:
        nbytes: all of it.
        exact: whether that is to the byte.
    """

    nbytes: int
    exact: bool

    def __add__(self, other: Extent) -> Extent:
        """Return the extent of both together."""
        return Extent(self.nbytes + other.nbytes, self.exact and other.exact)


def file_extent(
    out: Path, entries: Sequence[Entry], *, like: Checkpoint | None, metadata: Mapping[str, str]
) -> Extent:
    """Return the size of the file that `write_checkpoint` would write, given the same.

    Raises:
        CheckpointError: it would refuse to.
    """
    return _extent(out, format_of(out), place(entries, like), like, metadata)


def shards_extent(
    out: Path,
    entries: Sequence[Entry],
    *,
    source: Checkpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    shard_size: int | None,
    monitor: Monitor,
) -> Extent:
    """Return the size of the shards and the index that `write_shards` would write.

    Raises:
        CheckpointError: it would refuse to.
        Cancelled: the monitor says so.
    """
    check_shards(out, source, like, shard_size)
    index = Index(source, like, shard_size)
    whole = Extent(0, exact=True)
    with closing(shards_of(entries, source, like, metadata, shard_size)) as shards:
        for shard in shards:
            monitor.advance()
            path = out / shard.name
            whole += _extent(path, source.format, shard.placed, shard.like, shard.metadata)
            index.add(shard)
    return whole + Extent(len(index.octets()), exact=True)


def _extent(
    out: Path,
    form: Format,
    placed: Sequence[Placed],
    like: Checkpoint | None,
    metadata: Mapping[str, str],
) -> Extent:
    if form == "safetensors":
        check_nothing_special(out, placed, like, "safetensors holds plain dense tensors only.")
        header = header_of(placed, metadata)
        return Extent(len(header) + sum(item.entry.nbytes for item in placed), exact=True)
    model = like if isinstance(like, TorchCheckpoint) else None
    if model is None:
        check_nothing_special(out, placed, like, KEEP_THE_FILES)
    return Extent(_about_torch(placed, model, metadata), exact=False)


def _about_torch(
    placed: Sequence[Placed], model: TorchCheckpoint | None, metadata: Mapping[str, str]
) -> int:
    """Return about how large a torch archive will be: the lengths of its records are torch's."""
    entries = {item.entry.name: item.entry for item in placed}
    tensors = sum(RECORD_BYTES + entry.nbytes for entry in entries.values())
    names = sum(len(item.key.encode()) for item in placed)
    said = len(json.dumps(dict(metadata), ensure_ascii=False).encode())
    return ARCHIVE_BYTES + tensors + names + said + (_beside(model) if model else 0)


def _beside(model: TorchCheckpoint) -> int:
    """Return about what a file holds besides the dense tensors of its state dict."""
    storages = {
        storage.data_ptr(): storage.nbytes()
        for storage in (
            tensor.untyped_storage()
            for key, tensor in tensors_of(model.state)
            if model.raw[key].special is None
        )
    }
    file = model.source.file
    file.seek(0)
    if not zipfile.is_zipfile(file):
        return max(0, model.source.size - sum(storages.values()))
    with zipfile.ZipFile(file) as archive:
        records = [each for each in archive.infolist() if "/data/" in each.filename]
    others = max(0, len(records) - len(storages))
    held = sum(record.file_size for record in records)
    return others * RECORD_BYTES + max(0, held - sum(storages.values()))
