"""Writing what torch.load reads: the nest of the input with another state dict in its place."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from prune_gui.checkpoint.atomic import flush
from prune_gui.checkpoint.digest import PIECE_BYTES
from prune_gui.checkpoint.entries import Entry, Placed
from prune_gui.checkpoint.nest import with_state
from prune_gui.checkpoint.torch_file import TorchCheckpoint
from prune_gui.checkpoint.torch_layout import METADATA_RECORD
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ARCHIVE: Final = "archive"
"""The folder inside the zip file; torch.save uses this name when it writes to an open file."""


def write_torch(
    path: Path,
    placed: Sequence[Placed],
    like: TorchCheckpoint | None,
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> dict[str, int]:
    """Fill the file at `path` with a torch archive, and return a CRC-32 by key.

    All entries are in memory at once. What lies beside the state dict of `like`, and what in it is
    no dense tensor, is put back as it was. The metadata and the path of the state dict are a
    further record of the archive, which torch ignores.

    Raises:
        CheckpointError: a tensor cannot be stored in this format.
        Cancelled: the monitor says so.
    """
    entries = {item.entry.name: item.entry for item in placed}
    monitor.expect(2 * sum(entry.nbytes for entry in entries.values()))
    tensors, checksums = {}, {}
    for name, entry in entries.items():
        tensors[name], checksums[name] = _assemble(entry, monitor)
    members = [(item.position, item.key, tensors[item.entry.name]) for item in placed]
    if like is None:
        root: tuple[str, ...] = ()
        nest: object = {key: tensor for _, key, tensor in members}
    else:
        root = like.root
        nest = with_state(like.nest, root, _state(members, like))
    with _WatchedFile(path, monitor) as file:
        try:
            torch.save(nest, file)
        except RecursionError as error:
            raise CheckpointError(
                "The dictionaries are nested too deeply for torch.save."
            ) from error
        except RuntimeError:
            if file.failure is not None:  # torch replaced it by an error of its own
                raise file.failure from None
            raise
    record = json.dumps({"root": root, "metadata": dict(metadata)}, ensure_ascii=False)
    with path.open("r+b") as file:
        with zipfile.ZipFile(file, "a") as archive:
            # A ZipInfo has no date of today: the same input gives the same bytes on any day.
            archive.writestr(zipfile.ZipInfo(f"{ARCHIVE}/{METADATA_RECORD}"), record)
        flush(file)
    return {item.key: checksums[item.entry.name] for item in placed}


def _assemble(entry: Entry, monitor: Monitor) -> tuple[torch.Tensor, int]:
    """Return the values of an entry as one tensor, and their CRC-32."""
    dtype = getattr(torch, entry.dtype, None)
    if dtype is None:
        raise CheckpointError(
            f"{entry.name!r} has the dtype {entry.dtype}, which torch does not know. "
            "Save as .safetensors instead."
        )
    octets = torch.empty(entry.nbytes, dtype=torch.uint8)
    view = octets.numpy().data
    checksum = done = 0
    for piece in entry.octets():
        view[done : done + len(piece)] = piece
        done += len(piece)
        checksum = zlib.crc32(piece, checksum)
        monitor.advance(len(piece))
    return octets.view(dtype).reshape(entry.shape), checksum


def _state(
    members: Sequence[tuple[float, str, torch.Tensor]], like: TorchCheckpoint
) -> dict[str, object]:
    """Return the members, and between them at their old places what `like` has besides."""
    written = {key for _, key, _ in members}
    placed: list[tuple[float, str, object]] = [
        (position, key, _as_before(tensor, like.state.get(key)))
        for position, key, tensor in members
    ]
    index = 0
    for key, value in like.state.items():
        raw = like.raw.get(key)
        if (raw is None or raw.special is not None) and key not in written:
            placed.append((index if raw else index - 0.5, key, value))
        index += raw is not None
    placed.sort(key=lambda item: item[0])
    return {key: value for _, key, value in placed}


def _as_before(tensor: torch.Tensor, old: object) -> torch.Tensor:
    """Make the tensor a `Parameter` if the one it replaces was."""
    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=old.requires_grad)
    return tensor


class _WatchedFile(io.BufferedWriter):
    """A file for torch.save that shows the monitor every few megabytes.

    Attributes:
        failure: what stopped the writing, which torch does not pass on.
    """

    def __init__(self, path: Path, monitor: Monitor) -> None:
        super().__init__(io.FileIO(path, "w"))
        self._monitor = monitor
        self.failure: BaseException | None = None

    def write(self, buffer: ReadableBuffer, /) -> int:
        octets = memoryview(buffer)
        try:
            for start in range(0, len(octets), PIECE_BYTES):
                piece = octets[start : start + PIECE_BYTES]
                super().write(piece)
                self._monitor.advance(len(piece))
        except BaseException as error:
            self.failure = error
            raise
        return len(octets)
