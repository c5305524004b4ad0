"""Writing a checkpoint: all of it, verified, or nothing."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.atomic import rehearse, replacing
from prune_gui.checkpoint.base import Checkpoint, Format, format_of
from prune_gui.checkpoint.digest import pieces
from prune_gui.checkpoint.entries import Entry, Placed, place
from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.checkpoint.safetensors_writer import write_safetensors
from prune_gui.checkpoint.sharded import ShardedCheckpoint
from prune_gui.errors import CheckpointError
from prune_gui.language import later, tr
from prune_gui.monitor import Monitor

KEEP_THE_FILES: Final = later(
    "{key!r} ({special}) cannot be stored in {name}: only dense tensors can go from one torch file "
    "to another. Save in files like those of the input."
)
DENSE_ONLY: Final = later(
    "{key!r} ({special}) cannot be stored in {name}: safetensors holds plain dense tensors only. "
    "Save as .pt instead."
)
"""Refusals of a special tensor."""


def write_checkpoint(
    out: Path,
    entries: Sequence[Entry],
    *,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    overwrite: bool = False,
    monitor: Monitor,
) -> None:
    """Write a checkpoint in the format that the suffix of `out` names.

    The file is written beside `out`, flushed, opened again and compared with what was meant, and
    only then takes the place of `out`: until then, and after any error, `out` is as it was.

    Args:
        out: the file to write; `.safetensors`, or `.pt`, `.pth`, `.bin`, `.ckpt` for torch's.
        entries: the tensors to write, in order. Aliases are filled in; special tensors (see
            `TensorInfo`) need no entry, a torch file keeps them; and those that share entries
            with another (see `RawTensor`), which are to be as they are in `like`.
        like: the checkpoint whose order, ties and (torch) surroundings the new file keeps. None
            writes just the entries.
        metadata: all of the metadata to write.
        overwrite: whether an existing `out` may be replaced, be it the file of `like` itself.
        monitor: counts bytes: those written, and those read back.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
        Cancelled: the monitor says so.
    """
    form = format_of(out)
    placed = place(entries, like)
    nbytes = _nbytes(form, placed, like)
    with replacing(out, nbytes=nbytes, overwrite=overwrite) as temporary:
        write_file(temporary, out, form, placed, like, metadata, monitor)


def check_target(
    out: Path, entries: Sequence[Entry], *, like: Checkpoint | None, overwrite: bool = False
) -> int:
    """Check what `write_checkpoint` would, and return about how many bytes it would write.

    No value is looked at for this.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
    """
    form = format_of(out)
    placed = place(entries, like)
    check_kinds(out, form, placed, like)
    nbytes = _nbytes(form, placed, like)
    rehearse(replacing(out, nbytes=nbytes, overwrite=overwrite))
    return nbytes


def write_file(
    path: Path,
    out: Path,
    form: Format,
    placed: Sequence[Placed],
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> None:
    """Fill the file at `path`, which is to become `out`, and compare it with what was meant.

    Raises:
        CheckpointError: it cannot hold these tensors, or does not.
        Cancelled: the monitor says so.
    """
    check_kinds(out, form, placed, like)
    if like is not None:
        placed = [item.checked(like.check) for item in placed]
    faithful = True
    if form == "safetensors":
        checksums = write_safetensors(path, placed, metadata, monitor)
    else:
        from prune_gui.checkpoint.torch_archive import are_sound
        from prune_gui.checkpoint.torch_file import TorchCheckpoint
        from prune_gui.checkpoint.torch_writer import write_torch

        model = like if isinstance(like, TorchCheckpoint) else None
        checksums, kept = write_torch(path, placed, model, metadata, monitor)
        faithful = are_sound(path, kept, monitor)
    if not (faithful and _agrees(path, placed, checksums, metadata, monitor)):
        raise CheckpointError(
            tr(
                "{path} was not written: read back, the new file differs from what was meant. "
                "The disk or the memory may be faulty.",
                path=out,
            )
        )
    if like is not None:
        like.check()


def _nbytes(form: Format, placed: Sequence[Placed], like: Checkpoint | None) -> int:
    """Return about how much will be written."""
    if form == "safetensors":
        return sum(item.entry.nbytes for item in placed)
    entries = {item.entry.name: item.entry.nbytes for item in placed}
    return sum(entries.values()) + (like.nbytes_beside() if like else 0)


def check_kinds(out: Path, form: Format, placed: Sequence[Placed], like: Checkpoint | None) -> None:
    """Check that the format can hold what `like` has besides the entries.

    Raises:
        CheckpointError: it cannot.
    """
    if form == "safetensors":
        check_nothing_special(out, placed, like, DENSE_ONLY)
    elif like is not None and (like.format != form or isinstance(like, ShardedCheckpoint)):
        check_nothing_special(out, placed, like, KEEP_THE_FILES)


def check_nothing_special(
    out: Path, placed: Sequence[Placed], like: Checkpoint | None, refusal: str
) -> None:
    """Check that no special tensor of `like` would be missing from `out`.

    Raises:
        CheckpointError: one would; says so as the refusal does.
    """
    if like is None:
        return
    written = {item.key for item in placed}
    for key, tensor in like.raw.items():
        if tensor.special is not None and key not in written:
            raise CheckpointError(tr(refusal, key=key, special=tr(tensor.special), name=out.name))


def _agrees(
    written: Path,
    placed: Sequence[Placed],
    checksums: Mapping[str, int],
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> bool:
    """Compare names, dtypes, shapes, metadata and the checksum of every tensor with the file."""
    monitor.expect(sum(item.entry.nbytes for item in placed))
    with open_checkpoint(written) as checkpoint:
        keys = [key for key in checkpoint.keys if key in checksums]
        if keys != [item.key for item in placed] or checkpoint.metadata != metadata:
            return False
        for item in placed:
            raw, entry = checkpoint.raw[item.key], item.entry
            if (raw.dtype, raw.shape) != (entry.dtype, entry.shape):
                return False
            checksum = 0
            for piece in pieces(checkpoint.view_key(item.key).reshape(-1)):
                checksum = zlib.crc32(piece, checksum)
                monitor.advance(len(piece))
            if checksum != checksums[item.key]:
                return False
    return True
