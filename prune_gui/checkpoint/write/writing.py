"""Writing a checkpoint atomically, with verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.formats import compressing, format_to_write
from prune_gui.checkpoint.opening import open_file
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.source import CHUNK_BYTES, crc32_of
from prune_gui.checkpoint.tensor_info import QUANTIZED_TYPES
from prune_gui.checkpoint.write.atomic import rehearse, replacing_together, write_files
from prune_gui.checkpoint.write.content import (
    OWN_PREFIX,
    FileContent,
    KeyedWriter,
    Metadata,
    TensorWriter,
    keyed_writers,
    with_checksums,
)
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import run

if TYPE_CHECKING:
    from prune_gui.checkpoint.remote.destination import Upload

KEEP_THE_FILES: Final = deferred(
    "{key!r} ({special}) cannot be stored in {name}: only dense tensors can be moved to another "
    "file. Save with the same division into files as the input."
)
"""A message that refuses a special tensor; see also `FileFormat.special_refusal`."""


@dataclass(frozen=True, kw_only=True)
class FileOutput:
    """A checkpoint to write as a file.

    The file is written beside `path`, flushed, opened again and compared with the input, and only
    then renamed to `path`. Until then, and after any error, `path` and the files beside it are
    unchanged (see `replacing_together`). All methods raise CheckpointError if the file may not or
    cannot be written, or cannot hold these tensors.

    Attributes:
        tensors: the tensors to write, in order. Aliases are added. Special tensors (see
            `TensorInfo`) are not among them, because a torch file keeps them. Tensors that share
            elements with another one (see `RawTensor`) must have the values of `template`.
        template: the checkpoint whose order and ties the new file keeps, and, in a torch file, all
            objects around the state dict. None writes just the tensors.
        source: a checkpoint whose metadata is written, too.
        extra_files: the contents of other files to write into the folder, by name.
        format: None for that which the suffix of `path` selects.
        overwrite: whether existing files may be replaced, including the file of `template`.
        compressed: see `FileFormat.write_compressed`.
        upload: to where the local `path` and the files beside it are sent.
    """

    path: Path
    tensors: Sequence[TensorWriter]
    template: Checkpoint | None
    source: Checkpoint | None = None
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    format: FileFormat | None = None
    overwrite: bool = False
    compressed: bool = False
    upload: Upload | None = None

    def check(self) -> int:
        """Check what `write` does without reading values; return their approximate bytes."""
        file_format, content = self._prepared({})
        nbytes = file_format.data_nbytes(content)
        rehearse(self._replacing(nbytes))
        return nbytes

    def nbytes(self, metadata: Metadata, monitor: Monitor) -> int:
        """Return the bytes of the checkpoint that `write` would write, without other files."""
        monitor.advance()
        file_format, content = self._prepared(metadata)
        return file_format.file_nbytes(content)

    def write(self, metadata: Metadata, monitor: Monitor) -> None:
        """Write the file with metadata; see `with_checksums`.

        The monitor counts the bytes that are written, read back and uploaded.
        """
        file_format, content = self._prepared(metadata)
        with self._replacing(file_format.data_nbytes(content)) as files:
            write_files({files[name]: octets for name, octets in self.extra_files.items()})
            write_file(files[self.path.name], self.path, file_format, content, monitor)()
        if self.upload is not None:
            self.upload.send_all(self.path.parent, monitor)

    def _prepared(self, metadata: Metadata) -> tuple[FileFormat, FileContent]:
        writers, file_format = keyed_writers(self.tensors, self.template), self._format()
        content = FileContent(writers, self.template, self._metadata(metadata))
        check_special(self.path, file_format, content)
        return file_format, content

    def _format(self) -> FileFormat:
        file_format = self.format or format_to_write(self.path)
        return compressing(file_format, self.path) if self.compressed else file_format

    def _metadata(self, metadata: Metadata) -> Metadata:
        inherited = self.source.metadata.items() if self.source is not None else ()
        return {
            **{key: text for key, text in inherited if not key.startswith(OWN_PREFIX)},
            **metadata,
        }

    @contextmanager
    def _replacing(self, nbytes: int) -> Iterator[Mapping[str, Path]]:
        """Yield the paths of new files by their names, which replace the old ones at the end."""
        sizes = {self.path.parent / name: len(text) for name, text in self.extra_files.items()}
        sizes[self.path] = 0 if self.compressed else nbytes
        with replacing_together(sizes, overwrite=self.overwrite) as drafts:
            yield dict(zip((*self.extra_files, self.path.name), drafts, strict=True))


def write_file(
    path: Path, out: Path, file_format: FileFormat, content: FileContent, monitor: Monitor
) -> Callable[[], None]:
    """Write the file at `path`, which is renamed to `out` later, and compare it with the input.

    The function that is returned completes the file.
    """
    check_special(out, file_format, content)
    template = content.template
    if template is not None:
        content = content.checked(template.check)
    try:
        checksums, kept, whole, finish = file_format.write(path, content, monitor)
    except OSError:
        if template is not None:
            template.check()  # writing fails if another program truncated the mapped source
        raise
    texts: dict[str, str] = {}
    if file_format.holds_metadata:
        texts = with_checksums(content.metadata, checksums, None if finish else checksums)
    with reading_back(out):
        if whole is not None:
            monitor.expect(path.stat().st_size)
            with path.open("rb") as file:
                chunks = iter(partial(file.read, CHUNK_BYTES), b"")
                is_equal = crc32_of(chunks, monitor) == whole
        elif file_format.write is file_format.write_compressed and file_format.open_headers:
            with file_format.open_headers(path) as written:
                is_equal = _headers_agree(written, content.writers, checksums, texts)
            is_equal = is_equal and file_format.damaged_record(path, monitor, None) is None
        else:
            monitor.expect(content.nbytes)
            with open_file(path) as written:
                is_equal = _headers_agree(written, content.writers, checksums, texts)
                is_equal = is_equal and _read_checksums(written, checksums, monitor) == checksums
            if kept:
                is_equal = is_equal and file_format.damaged_record(path, monitor, kept) is None
    _check_equal(out, is_equal=is_equal)
    if template is not None:
        template.check()

    def complete() -> None:
        if finish is not None:
            finish()
            final = with_checksums(content.metadata, checksums, checksums)
            with reading_back(out), open_file(path) as written:
                is_equal = _headers_agree(written, content.writers, checksums, final)
            _check_equal(out, is_equal=is_equal)

    return complete


def _check_equal(out: Path, *, is_equal: bool) -> None:
    if not is_equal:
        raise CheckpointError(
            "{path} was not written: the new file differs from the data when read back. The "
            "disk or the memory may be faulty.",
            path=out,
        )


def check_special(out: Path, file_format: FileFormat, content: FileContent) -> None:
    """Check that the format can hold the quantized and the special tensors of the template."""
    writers, template = content.writers, content.template
    for writer in writers:
        dtype = writer.tensor.dtype
        if dtype in QUANTIZED_TYPES and not file_format.holds_quantized:
            raise CheckpointError(
                "{key!r} ({dtype}) cannot be stored in {name}: only GGUF holds this quantized "
                "type. Save the finalized form as .gguf instead.",
                key=writer.key,
                dtype=dtype,
                name=out.name,
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
    """Refuse an output in which a special tensor of `template` would be missing."""
    if template is None:
        return
    written = {writer.key for writer in writers}
    for key, tensor in template.raw.items():
        if tensor.special is not None and key not in written:
            raise CheckpointError(refusal, key=key, special=tr(tensor.special), name=out.name)


@contextmanager
def reading_back(out: Path) -> Iterator[None]:
    """Convert errors that occur while the new file is read to an error about `out`."""
    try:
        yield
    except (OSError, CheckpointError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else None
        raise CheckpointError(
            "{path} was not written: the new file cannot be read back: {reason}. The disk or "
            "the memory may be faulty.",
            path=out,
            reason=reason or str(error).removesuffix("."),
        ) from error


def _read_checksums(written: Checkpoint, keys: Iterable[str], monitor: Monitor) -> dict[str, int]:
    with written.stored_reader() as read:
        return dict(run(lambda key: (key, crc32_of(read(key), monitor)), keys))


def _headers_agree(
    checkpoint: Checkpoint,
    writers: Sequence[KeyedWriter],
    checksums: Mapping[str, int],
    metadata: Mapping[str, str],
) -> bool:
    keys = [key for key in checkpoint.keys if key in checksums]
    if keys != [writer.key for writer in writers] or checkpoint.metadata != metadata:
        return False
    return all(
        checkpoint.raw[writer.key][:2] == (writer.tensor.shape, writer.tensor.dtype)
        for writer in writers
    )
