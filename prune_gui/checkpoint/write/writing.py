"""Writing a checkpoint: all of it, verified, or nothing."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prune_gui.checkpoint.base import Checkpoint, Format, format_of
from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.checkpoint.safetensors.writing import write_safetensors
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.write.atomic import flush, rehearse, replacing_together
from prune_gui.checkpoint.write.checksums import with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, place
from prune_gui.checkpoint.write.reading_back import stored_reader
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
    entries: Sequence[TensorWriter],
    *,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    beside: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
    monitor: Monitor,
) -> None:
    """Write a checkpoint in the format that the suffix of `out` names.

    The file is written beside `out`, flushed, opened again and compared with what was meant, and
    only then takes the place of `out`: until then, and after any error, `out` is as it was, and so
    are the files beside it (see `replacing_together`).

    Args:
        out: the file to write; `.safetensors`, or `.pt`, `.pth`, `.bin`, `.ckpt` for torch's.
        entries: the tensors to write, in order. Aliases are filled in; special tensors (see
            `TensorInfo`) need no entry, a torch file keeps them; and those that share entries
            with another (see `RawTensor`), which are to be as they are in `like`.
        like: the checkpoint whose order, ties and (torch) surroundings the new file keeps. None
            writes just the entries.
        metadata: all of the metadata to write; see `with_checksums`.
        beside: what other files to write into the folder of `out`, by name.
        overwrite: whether existing files may be replaced, be it the file of `like` itself.
        monitor: counts bytes: those written, and those read back.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
        Cancelled: the monitor says so.
    """
    form = format_of(out)
    placed = place(entries, like)
    nbytes = _nbytes(form, placed, like)
    sizes = _sizes(out, nbytes, beside)
    with replacing_together(sizes, overwrite=overwrite) as (*others, draft):
        for path, octets in zip(others, beside.values(), strict=True):
            write_bytes(path, octets)
        write_file(draft, out, form, placed, like, metadata, monitor)


def check_target(
    out: Path,
    entries: Sequence[TensorWriter],
    *,
    like: Checkpoint | None,
    beside: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
) -> int:
    """Check what `write_checkpoint` would, and return about how many bytes it would write.

    No value is looked at for this.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
    """
    form = format_of(out)
    placed = place(entries, like)
    check_dtypes(out, form, placed, like)
    nbytes = _nbytes(form, placed, like)
    rehearse(replacing_together(_sizes(out, nbytes, beside), overwrite=overwrite))
    return nbytes


def _sizes(out: Path, nbytes: int, beside: Mapping[str, bytes]) -> dict[Path, int]:
    """Return how many bytes each file gets, `out` last."""
    return {out.parent / name: len(octets) for name, octets in beside.items()} | {out: nbytes}


def write_file(
    path: Path,
    out: Path,
    form: Format,
    placed: Sequence[KeyedWriter],
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> None:
    """Fill the file at `path`, which is to become `out`, and compare it with what was meant.

    Raises:
        CheckpointError: it cannot hold these tensors, or does not.
        Cancelled: the monitor says so.
    """
    check_dtypes(out, form, placed, like)
    if like is not None:
        placed = [item.checked(like.check) for item in placed]
    kept: Sequence[str] = ()
    try:
        if form == "safetensors":
            checksums = write_safetensors(path, placed, metadata, monitor)
        else:
            from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
            from prune_gui.checkpoint.torch.writing import write_torch

            model = like if isinstance(like, TorchCheckpoint) else None
            checksums, kept = write_torch(path, placed, model, metadata, monitor)
    except OSError:
        if like is not None:
            like.check()  # the system does not write pages that another program has cut off
        raise
    metadata = with_checksums(metadata, checksums, checksums)
    with reading_back(out):
        faithful = _agrees(path, placed, checksums, metadata, monitor)
        if kept:
            from prune_gui.checkpoint.torch.archive import damaged_record

            faithful = faithful and damaged_record(path, monitor, kept) is None
    if not faithful:
        raise CheckpointError(
            tr(
                "{path} was not written: read back, the new file differs from what was meant. "
                "The disk or the memory may be faulty.",
                path=out,
            )
        )
    if like is not None:
        like.check()


def _nbytes(form: Format, placed: Sequence[KeyedWriter], like: Checkpoint | None) -> int:
    """Return about how much will be written."""
    if form == "safetensors":
        return sum(item.entry.nbytes for item in placed)
    entries = {item.entry.name: item.entry.nbytes for item in placed}
    return sum(entries.values()) + (like.nbytes_beside() if like else 0)


def check_dtypes(
    out: Path, form: Format, placed: Sequence[KeyedWriter], like: Checkpoint | None
) -> None:
    """Check that the format can hold what `like` has besides the entries.

    Raises:
        CheckpointError: it cannot.
    """
    if form == "safetensors":
        check_nothing_special(out, placed, like, DENSE_ONLY)
    elif like is not None and (like.format != form or isinstance(like, ShardedCheckpoint)):
        check_nothing_special(out, placed, like, KEEP_THE_FILES)


def check_nothing_special(
    out: Path, placed: Sequence[KeyedWriter], like: Checkpoint | None, refusal: str
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


@contextmanager
def reading_back(out: Path) -> Iterator[None]:
    """Raise what goes wrong while the new file is read as an error about `out`."""
    try:
        yield
    except (OSError, CheckpointError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else None
        raise CheckpointError(
            tr(
                "{path} was not written: the new file cannot be read back: {reason}. The disk or "
                "the memory may be faulty.",
                path=out,
                reason=reason or str(error).removesuffix("."),
            )
        ) from error


def _agrees(
    written: Path,
    placed: Sequence[KeyedWriter],
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
        found = dict.fromkeys(keys, 0)
        with stored_reader(checkpoint) as read:
            for key in keys:
                for piece in read(key):
                    found[key] = zlib.crc32(piece, found[key])
                    monitor.advance(len(piece))
        return found == checksums


def write_bytes(path: Path, octets: bytes) -> None:
    """Write a small file, and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(octets)
        flush(file)
