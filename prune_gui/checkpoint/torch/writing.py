"""Writing what torch.load reads: the nest of the input with another state dict in its place."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

import torch

from prune_gui.checkpoint.byte_chunks import byte_chunks
from prune_gui.checkpoint.torch.archive import TorchArchive, archive_nbytes
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.pickling import identity, pickled
from prune_gui.checkpoint.torch.state_dict_search import Root, with_state
from prune_gui.checkpoint.torch.zip_layout import BYTE_ORDER, METADATA_RECORD
from prune_gui.checkpoint.write.checksums import with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter
from prune_gui.checkpoint.write.prefetch import prefetch
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

VERSION: Final = b"3\n"
"""Of torch's file format, for an archive with tensors in it."""


class Written(NamedTuple):
    """What is known of a new archive.

    Attributes:
        checksums: the CRC-32 of each entry, by its keys.
        kept: the records with values of no entry.
    """

    checksums: dict[str, int]
    kept: list[str]


def write_torch(
    path: Path,
    placed: Sequence[KeyedWriter],
    like: TorchCheckpoint | None,
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> Written:
    """Fill the file at `path` with a torch archive.

    No more than a few pieces of the values are in memory at once. What lies beside the state dict
    of `like`, and what in it is no dense tensor or shares some of its entries with another, is put
    back as it was. The metadata and the path of the state dict are a further record of the archive,
    which torch ignores.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
        Cancelled: the monitor says so.
    """
    root, before, values = _records(placed, like)
    monitor.expect(sum(each.nbytes for each in values))
    checksums: dict[str, int] = {}
    with TorchArchive(path) as archive, closing(prefetch(_pieces(values))) as prepared:
        for name, octets in before.items():
            archive.add(name, octets)
        for each, run in groupby(prepared, itemgetter(0)):
            checksum = archive.stream(each.name, each.nbytes, _counted(run, monitor))
            if each.entry is not None:
                checksums[each.entry.name] = checksum
        entries = {item.entry.name: item.entry for item in placed}
        for name in [name for name in entries if name not in checksums]:
            checksums[name] = _checksum(entries[name], monitor)
        by_key = {item.key: checksums[item.entry.name] for item in placed}
        for name, octets in _own_records(root, with_checksums(metadata, by_key, by_key)).items():
            archive.add(name, octets)
    return Written(by_key, [each.name for each in values if each.entry is None])


def torch_nbytes(
    placed: Sequence[KeyedWriter], like: TorchCheckpoint | None, metadata: Mapping[str, str]
) -> int:
    """Return the size of the file that `write_torch` would write.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
    """
    root, before, values = _records(placed, like)
    after = _own_records(root, with_checksums(metadata, (item.key for item in placed)))
    sizes = {name: len(octets) for name, octets in before.items()}
    sizes |= {each.name: each.nbytes for each in values}
    sizes |= {name: len(octets) for name, octets in after.items()}
    return archive_nbytes(sizes.items())


def _records(
    placed: Sequence[KeyedWriter], like: TorchCheckpoint | None
) -> tuple[Root, dict[str, bytes], list[_Values]]:
    """Return the path of the state dict, and the first records of an archive in order.

    Those of values follow small ones, and `_own_records` follow them.
    """
    entries = {item.entry.name: item.entry for item in placed}
    blanks = {name: _blank(entry) for name, entry in entries.items()}
    root, nest = _nest(placed, blanks, like)
    pickle, storages = pickled(nest, blanks.values())
    owners = {identity(blank.untyped_storage()): entries[name] for name, blank in blanks.items()}
    values = [
        _values(f"data/{number}", storage, owners.get(identity(storage)), like)
        for number, storage in enumerate(storages)
    ]
    return root, {"data.pkl": pickle, BYTE_ORDER: sys.byteorder.encode()}, values


def _own_records(root: Root, metadata: Mapping[str, str]) -> dict[str, bytes]:
    own = json.dumps({"root": root, "metadata": dict(metadata)}, ensure_ascii=False)
    return {"version": VERSION, METADATA_RECORD: own.encode()}


class _Values(NamedTuple):
    """What one record holds.

    Attributes:
        name: of the record.
        nbytes: of all pieces together.
        pieces: called for them.
        entry: whose values they are; None if they are kept as they were.
    """

    name: str
    nbytes: int
    pieces: Callable[[], Iterator[memoryview]]
    entry: TensorWriter | None


def _values(
    name: str,
    storage: torch.UntypedStorage,
    entry: TensorWriter | None,
    like: TorchCheckpoint | None,
) -> _Values:
    if entry is not None:
        return _Values(name, entry.nbytes, entry.octets, entry)
    assert like is not None
    return _Values(name, storage.nbytes(), partial(_kept, storage, like), None)


def _kept(storage: torch.UntypedStorage, like: TorchCheckpoint) -> Iterator[memoryview]:
    for piece in byte_chunks(torch.empty(0, dtype=torch.uint8).set_(storage)):
        like.check()
        yield piece


def _pieces(values: Iterable[_Values]) -> Iterator[tuple[_Values, memoryview]]:
    """Yield all pieces of all records in order, and an empty one first of each."""
    for each in values:
        yield each, memoryview(b"")
        for piece in each.pieces():
            yield each, piece


def _counted(run: Iterable[tuple[_Values, memoryview]], monitor: Monitor) -> Iterator[memoryview]:
    for _, piece in run:
        yield piece
        monitor.advance(len(piece))


def _checksum(entry: TensorWriter, monitor: Monitor) -> int:
    checksum = 0
    monitor.expect(entry.nbytes)
    for piece in entry.octets():
        checksum = zlib.crc32(piece, checksum)
        monitor.advance(len(piece))
    return checksum


def _blank(entry: TensorWriter) -> torch.Tensor:
    """Return a tensor like the one to write, without values."""
    dtype = getattr(torch, entry.dtype, None)
    if dtype is None:
        raise CheckpointError(
            tr(
                "{key!r} has the dtype {dtype}, which torch does not know. "
                "Save as .safetensors instead.",
                key=entry.name,
                dtype=entry.dtype,
            )
        )
    octets = torch.empty(entry.nbytes, dtype=torch.uint8, device="meta")
    return octets.view(dtype).reshape(entry.shape)


def _nest(
    placed: Sequence[KeyedWriter], blanks: Mapping[str, torch.Tensor], like: TorchCheckpoint | None
) -> tuple[Root, object]:
    """Return the path of the state dict and all that is to be written, blanks for the entries."""
    members = [(item.position, item.key, blanks[item.entry.name]) for item in placed]
    if like is None:
        return (), {key: blank for _, key, blank in members}
    return like.root, with_state(like.nest, like.root, _state(members, like))


def _state(
    members: Sequence[tuple[float, str, torch.Tensor]], like: TorchCheckpoint
) -> dict[str, object]:
    """Return the members, and between them at their old places what `like` has besides."""
    written = {key for _, key, _ in members}
    placed: list[tuple[float, str, object]] = [
        (position, key, _as_before(key, blank, like)) for position, key, blank in members
    ]
    index = 0
    for key, value in like.state.items():
        raw = like.raw.get(key)
        if (raw is None or raw.special is not None) and key not in written:
            placed.append((index if raw else index - 0.5, key, value))
        index += raw is not None
    placed.sort(key=lambda item: item[0])
    return {key: value for _, key, value in placed}


def _as_before(key: str, blank: torch.Tensor, like: TorchCheckpoint) -> object:
    """Return what stands for a member: the old tensor if it shares entries, or a blank like it."""
    old, raw = like.state.get(key), like.raw.get(key)
    if raw is not None and raw.shares is not None:
        return old
    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(blank, requires_grad=old.requires_grad)
    return blank
