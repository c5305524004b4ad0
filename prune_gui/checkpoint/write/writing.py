"""Writing a checkpoint atomically, with verification."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.formats import compressing, format_to_write
from prune_gui.checkpoint.opening import open_file
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.source import CHUNK_BYTES
from prune_gui.checkpoint.tensor_info import QUANTIZED_TYPES
from prune_gui.checkpoint.write.atomic import rehearse, replacing_together, write_bytes
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, keyed_writers
from prune_gui.checkpoint.write.metadata import Metadata, with_checksums
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor

KEEP_THE_FILES: Final = deferred(
    "{key!r} ({special}) cannot be stored in {name}: only dense tensors can be moved to another "
    "file. Save with the same division into files as the input."
)
"""A message that refuses a special tensor; see also `FileFormat.special_refusal`."""


def write_checkpoint(
    out: Path,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    metadata: Metadata,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    file_format: FileFormat | None = None,
    overwrite: bool = False,
    compressed: bool = False,
    monitor: Monitor,
) -> None:
    """Write a checkpoint.

    The file is written beside `out`, flushed, opened again and compared with the input, and only
    then renamed to `out`. Until then, and after any error, `out` and the files beside it are
    unchanged (see `replacing_together`).

    Args:
        out: the file to write; see `FORMATS` for the suffixes.
        tensors: the tensors to write, in order. Aliases are added. Special tensors (see
            `TensorInfo`) are not among them, because a torch file keeps them. Tensors that share
            elements with another one (see `RawTensor`) must have the values of `template`.
        template: the checkpoint whose order and ties the new file keeps, and, in a torch file, all
            objects around the state dict. None writes just the tensors.
        metadata: all of the metadata to write; see `with_checksums`.
        extra_files: the contents of other files to write into the folder of `out`, by name.
        file_format: the format; None for that which the suffix of `out` selects.
        overwrite: whether existing files may be replaced, including the file of `template`.
        compressed: whether the values are compressed; see `FileFormat.write_compressed`.
        monitor: counts the bytes that are written and those that are read back.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
    """
    file_format = _format_of(out, file_format, compressed=compressed)
    writers = keyed_writers(tensors, template)
    nbytes = 0 if compressed else file_format.data_nbytes(writers, template)
    sizes = _sizes(out, nbytes, extra_files)
    with replacing_together(sizes, overwrite=overwrite) as (*others, draft):
        for path, octets in zip(others, extra_files.values(), strict=True):
            write_bytes(path, octets)
        write_file(draft, out, file_format, writers, template, metadata, monitor)()


def check_target(
    out: Path,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    file_format: FileFormat | None = None,
    overwrite: bool = False,
    compressed: bool = False,
) -> int:
    """Run the checks of `write_checkpoint`, and return the approximate bytes of the values.

    Reads no values.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
    """
    file_format = _format_of(out, file_format, compressed=compressed)
    writers = keyed_writers(tensors, template)
    check_special(out, file_format, writers, template)
    nbytes = file_format.data_nbytes(writers, template)
    sizes = _sizes(out, 0 if compressed else nbytes, extra_files)
    rehearse(replacing_together(sizes, overwrite=overwrite))
    return nbytes


def _format_of(out: Path, file_format: FileFormat | None, *, compressed: bool) -> FileFormat:
    file_format = file_format or format_to_write(out)
    return compressing(file_format, out) if compressed else file_format


def _sizes(out: Path, nbytes: int, extra_files: Mapping[str, bytes]) -> dict[Path, int]:
    """Return the bytes to reserve for each file, `out` last."""
    return {out.parent / name: len(octets) for name, octets in extra_files.items()} | {out: nbytes}


def write_file(
    path: Path,
    out: Path,
    file_format: FileFormat,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
) -> Callable[[], None]:
    """Write the file at `path`, which is renamed to `out` later, and compare it with the input."""
    check_special(out, file_format, writers, template)
    if template is not None:
        writers = [writer.checked(template.check) for writer in writers]
    try:
        checksums, kept, whole, finish = file_format.write(
            path, writers, template, metadata, monitor
        )
    except OSError:
        if template is not None:
            template.check()  # writing fails if another program truncated the mapped source
        raise
    texts: dict[str, str] = {}
    if file_format.holds_metadata:
        texts = with_checksums(metadata, checksums, None if finish else checksums)
    with reading_back(out):
        if whole is not None:
            is_equal = _checksum(path, monitor) == whole
        elif file_format.write is file_format.write_compressed and file_format.open_headers:
            with file_format.open_headers(path) as written:
                is_equal = _headers_agree(written, writers, checksums, texts)
            is_equal = is_equal and file_format.damaged_record(path, monitor, None) is None
        else:
            is_equal = _agrees(path, writers, checksums, texts, monitor)
            if kept:
                is_equal = is_equal and file_format.damaged_record(path, monitor, kept) is None
    _check_equal(out, is_equal=is_equal)
    if template is not None:
        template.check()

    def complete() -> None:
        if finish is not None:
            finish()
            final = with_checksums(metadata, checksums, checksums)
            with reading_back(out), open_file(path) as written:
                is_equal = _headers_agree(written, writers, checksums, final)
            _check_equal(out, is_equal=is_equal)

    return complete


def _check_equal(out: Path, *, is_equal: bool) -> None:
    if not is_equal:
        raise CheckpointError(
            tr(
                "{path} was not written: the new file differs from the data when read back. The "
                "disk or the memory may be faulty.",
                path=out,
            )
        )


def _checksum(path: Path, monitor: Monitor) -> int:
    """Return the CRC-32 of a file."""
    monitor.expect(path.stat().st_size)
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
            monitor.advance(len(chunk))
    return checksum


def check_special(
    out: Path, file_format: FileFormat, writers: Sequence[KeyedWriter], template: Checkpoint | None
) -> None:
    """Check that the format can hold the quantized and the special tensors of `template`."""
    for writer in writers:
        dtype = writer.tensor.dtype
        if dtype in QUANTIZED_TYPES and not file_format.holds_quantized:
            raise CheckpointError(
                tr(
                    "{key!r} ({dtype}) cannot be stored in {name}: only GGUF holds this quantized "
                    "type. Save the finalized form as .gguf instead.",
                    key=writer.key,
                    dtype=dtype,
                    name=out.name,
                )
            )
    if file_format.special_refusal:
        check_nothing_special(out, writers, template, file_format.special_refusal)
    elif template is not None and (
        template.format != file_format.name or isinstance(template, ShardedCheckpoint)
    ):
        check_nothing_special(out, writers, template, KEEP_THE_FILES)


def check_nothing_special(
    out: Path, writers: Sequence[KeyedWriter], template: Checkpoint | None, refusal: str
) -> None:
    """Check that no special tensor of `template` would be missing from `out`.

    Raises:
        CheckpointError: a tensor would be missing; the message is `refusal`.
    """
    if template is None:
        return
    written = {writer.key for writer in writers}
    for key, tensor in template.raw.items():
        if tensor.special is not None and key not in written:
            raise CheckpointError(tr(refusal, key=key, special=tr(tensor.special), name=out.name))


@contextmanager
def reading_back(out: Path) -> Iterator[None]:
    """Convert errors that occur while the new file is read to an error about `out`."""
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
    writers: Sequence[KeyedWriter],
    checksums: Mapping[str, int],
    metadata: Mapping[str, str],
    monitor: Monitor,
) -> bool:
    """Return whether keys, dtypes, shapes, metadata and checksums agree with the written file."""
    monitor.expect(sum(writer.tensor.nbytes for writer in writers))
    with open_file(written) as checkpoint:
        if not _headers_agree(checkpoint, writers, checksums, metadata):
            return False
        read_checksums = dict.fromkeys(checksums, 0)
        with checkpoint.stored_reader() as read:
            for key in read_checksums:
                for chunk in read(key):
                    read_checksums[key] = zlib.crc32(chunk, read_checksums[key])
                    monitor.advance(len(chunk))
        return read_checksums == checksums


def _headers_agree(
    checkpoint: Checkpoint,
    writers: Sequence[KeyedWriter],
    checksums: Mapping[str, int],
    metadata: Mapping[str, str],
) -> bool:
    """Return whether keys, dtypes, shapes and metadata agree with those of the written file."""
    keys = [key for key in checkpoint.keys if key in checksums]
    if keys != [writer.key for writer in writers] or checkpoint.metadata != metadata:
        return False
    return all(
        (raw.dtype, raw.shape) == (writer.tensor.dtype, writer.tensor.shape)
        for writer, raw in ((writer, checkpoint.raw[writer.key]) for writer in writers)
    )
