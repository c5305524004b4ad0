"""Writing a checkpoint as a folder: shards and an index, or one file and those beside it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.formats import format_by_suffix, format_named
from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.checkpoint.sharded.index import index_bytes, is_index, part_names, read_index
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.sharded.spreading import Shard, write_on_executor
from prune_gui.checkpoint.tensor_info import size_in_bytes
from prune_gui.checkpoint.write.atomic import rehearse, replacing_folder, write_files
from prune_gui.checkpoint.write.entries import (
    KeyedWriter,
    TensorWriter,
    keyed_writers,
    lookup_source,
)
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.writing import (
    KEEP_THE_FILES,
    check_nothing_special,
    check_special,
    reading_back,
    write_file,
)
from prune_gui.errors import CheckpointError
from prune_gui.executor import current_executor
from prune_gui.language import tr
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.checkpoint.remote.destination import Upload


def is_folder(out: str | os.PathLike[str]) -> bool:
    """Return whether the output path or URL is a folder for shards rather than a single file.

    It is a folder if it exists as one on this machine, if it ends in a slash, or if it has no
    suffix of a checkpoint file. Names of models may contain dots.
    """
    return is_clearly_folder(out) or format_by_suffix(Path(out)) is None


def is_clearly_folder(out: str | os.PathLike[str]) -> bool:
    """Return whether the output path is that of a folder on this machine, or ends in a slash."""
    path = Path(out)
    with suppress(OSError):  # writing reports the error
        if Location.at(path).url is None and path.is_dir():
            return True
    return os.fspath(out).endswith((os.sep, "/"))


def write_shards(
    out: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    source: Checkpoint,
    template: Checkpoint | None,
    metadata: Metadata,
    shard_size: int | None = None,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
    upload: Upload | None = None,
    monitor: Monitor,
) -> None:
    """Write a folder of shards with their index.

    The folder is written beside `out`, flushed, opened again and compared with the input, and only
    then replaces `out`. Until then, and after any error, `out` is unchanged. Files of an old folder
    that do not contain weights are kept. On an executor (see `prune_gui.executor`), its workers
    write the shards.

    If the folder is remote, each shard is written to this machine, compared with the input,
    uploaded and removed here, and the index is uploaded last.

    Args:
        out: the folder to write.
        file_format: the format of the shards, that of `source`.
        tensors: as for `write_checkpoint`.
        source: the checkpoint that the tensors come from.
        template: `source` if the new shards keep its order and, in torch files, all objects around
            the state dict; None writes just the tensors.
        metadata: the metadata to add to that of every shard; see `with_checksums`.
        shard_size: the limit for a shard in bytes; a larger tensor gets its own shard. None keeps
            the shards of `source`, which has to be sharded.
        extra_files: the contents of other files to write into the folder, by name.
        overwrite: whether an `out` that is not empty may be replaced, including that of `source`.
        upload: to a remote folder, for which `out` stands; `metadata` has no late texts then.
        monitor: counts the bytes that are written, read back and uploaded.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
    """
    check_shards(out, source, template, shard_size)
    nbytes = sum(tensor.nbytes for tensor in tensors)
    kept = partial(kept_files, also_replaced=extra_files)
    new_folder = (
        replacing_folder(out, nbytes=nbytes, overwrite=overwrite, kept_files=kept)
        if upload is None
        else nullcontext(upload.folder)
    )
    with (
        new_folder as folder,
        closing(shards_of(tensors, source, template, metadata, shard_size)) as shards,
    ):
        index = IndexBuilder(source, template, shard_size)
        unfinished = []
        executor = current_executor()
        if executor is not None:
            every = list(shards)
            write_on_executor(executor, folder, out, file_format, every, monitor, upload)
            for shard in every:
                index.add(shard)
        for shard in shards:
            path = folder / shard.name
            complete = write_file(
                path,
                out / shard.name,
                file_format,
                shard.writers,
                shard.template,
                shard.metadata,
                monitor,
            )
            if upload is None:
                unfinished.append(complete)
            else:
                complete()
                upload.send_beside(path, shard.name, monitor)
            index.add(shard)
        for complete in unfinished:
            complete()
        write_files(folder, {**extra_files, **index.files()})
        if upload is None:
            with reading_back(out):
                open_checkpoint(folder / index.name).close()  # compares the index with all shards
        else:
            upload.wait()
            upload.send_all(folder, monitor)


def check_shards(
    out: Path, source: Checkpoint, template: Checkpoint | None, shard_size: int | None
) -> None:
    """Check that the shards can hold the special tensors of `template`; see `write_shards`."""
    if shard_size is not None:
        check_nothing_special(out, (), template, KEEP_THE_FILES)


def index_name(source: Checkpoint, shard_size: int | None) -> str:
    """Return the name of the index of shards, or of the first part; see `write_shards`."""
    if shard_size is None:
        return source.path.name
    file_format = format_named(source.format)
    return f"{file_format.shard_stem}{file_format.shard_suffix}.index.json"


def check_shards_target(
    out: Path,
    tensors: Sequence[TensorWriter],
    *,
    extra_files: Iterable[str] = (),
    overwrite: bool = False,
) -> int:
    """Check that `write_shards` can write to `out`, and return the approximate bytes to write.

    Raises:
        CheckpointError: `out` may not or cannot be written.
    """
    nbytes = sum(tensor.nbytes for tensor in tensors)
    kept = partial(kept_files, also_replaced=tuple(extra_files))
    rehearse(replacing_folder(out, nbytes=nbytes, overwrite=overwrite, kept_files=kept))
    return nbytes


class IndexBuilder:
    """The index of the new shards, which are added one by one.

    The same shards as those of `template` list the same tensors, new ones list all of them. The
    arguments are those of `write_shards`.

    Attributes:
        name: the name of the file of the index; for the parts of a split file, of the first part.
    """

    def __init__(
        self, source: Checkpoint, template: Checkpoint | None, shard_size: int | None
    ) -> None:
        self.name = index_name(source, shard_size)
        old = template.index if isinstance(template, ShardedCheckpoint) else None
        self._old_metadata = old.metadata if old else {}
        self._listed = old.weight_map if old and shard_size is None else None
        self._is_split = old is not None and bool(old.parts)
        self._shard_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}  # tied tensors count once

    def add(self, shard: Shard) -> None:
        """Add the next shard."""
        writers = [writer for writer in shard.writers if self._is_listed(writer.replaced)]
        special = {key: size for key, size in shard.special_nbytes.items() if self._is_listed(key)}
        keys = (writer.key for writer in writers)
        self._shard_of |= dict.fromkeys([*keys, *special], shard.name)
        self._sizes |= {writer.tensor.name: writer.tensor.nbytes for writer in writers}
        self._sizes |= special

    def _is_listed(self, old_key: str) -> bool:
        return self._listed is None or lookup_source(old_key, self._listed, default="") != ""

    def files(self) -> dict[str, bytes]:
        """Return the content of the file by its name; {} for the parts of a split file."""
        if self._is_split:
            return {}
        total = sum(self._sizes.values())
        metadata = {**self._old_metadata, "total_size": total}
        if total != self._old_metadata.get("total_size"):
            metadata.pop("total_parameters", None)  # other tensors than before
        return {self.name: index_bytes(self._shard_of, metadata)}


def shards_of(
    tensors: Sequence[TensorWriter],
    source: Checkpoint,
    template: Checkpoint | None,
    metadata: Metadata,
    shard_size: int | None,
) -> Generator[Shard]:
    """Yield the shards to write; see `write_shards`.

    A shard of `source` stays open until the next one is requested.
    """
    if shard_size is not None:
        return _split_shards(tensors, source, template, metadata, shard_size)
    assert isinstance(source, ShardedCheckpoint)
    return _same_shards(tensors, source, template, metadata)


def _same_shards(
    tensors: Iterable[TensorWriter],
    source: ShardedCheckpoint,
    template: Checkpoint | None,
    metadata: Metadata,
) -> Generator[Shard]:
    """Yield shards with the names and the tensors of the old ones."""
    shard_of, parts = source.shard_of, source.index.parts
    groups: dict[str, list[TensorWriter]] = {}
    for tensor in tensors:
        groups.setdefault(lookup_source(tensor.replaced, shard_of, default=""), []).append(tensor)
    for name in (*parts[1:], *parts[:1]) or source.index.shards:  # an upload ends with the main one
        if template is None and name not in groups:
            continue
        with source.open_shard(name) as old:
            model = old if template else None
            writers = keyed_writers(groups.get(name, []), model)
            special_nbytes = {
                key: size_in_bytes(raw.shape, raw.dtype)
                for key, raw in (model.raw.items() if model else ())
                if raw.special is not None and shard_of.get(key) == name
            }
            if writers or special_nbytes or parts:  # else all of its tensors are removed
                yield Shard(name, writers, model, {**old.metadata, **metadata}, special_nbytes)


def _split_shards(
    tensors: Sequence[TensorWriter],
    source: Checkpoint,
    template: Checkpoint | None,
    metadata: Metadata,
    shard_size: int,
) -> Generator[Shard]:
    """Yield shards of at most `shard_size` bytes, or of a single tensor; ties stay in one shard."""
    writers = keyed_writers(tensors, template)
    shards: list[list[KeyedWriter]] = []
    shard_of: dict[str, list[KeyedWriter]] = {}
    size = 0
    for writer in writers:
        name, nbytes = writer.tensor.name, writer.tensor.nbytes
        if name not in shard_of:
            if not shards or size + nbytes > shard_size:
                shards.append([])
                size = 0
            shard_of[name] = shards[-1]
            size += nbytes
        shard_of[name].append(writer)
    file_format = format_named(source.format)
    for number, shard in enumerate(shards, start=1):
        name = f"{file_format.shard_stem}-{number:05}-of-{len(shards):05}{file_format.shard_suffix}"
        yield Shard(name, shard, None, {**source.metadata, **metadata}, {})


def kept_files(folder: Path, *, also_replaced: Iterable[str]) -> list[str]:
    """Return the names of the files of a folder to keep when its shards are replaced.

    Shards, parts, indexes and the files named in `also_replaced` are not kept. A name with a slash
    is that of a file in an inner folder; all files of inner folders must be replaced.
    """
    replaced: set[str] = set(also_replaced)
    for path in folder.iterdir():
        replaced.update(part_names(path.name))
        if is_index(path):
            replaced |= {path.name, *read_index(path).shards}
    inner = {
        path.name
        for path in folder.iterdir()
        if path.is_dir()
        and not path.is_symlink()
        and any(path.iterdir())
        and all(f"{path.name}/{file.name}" in replaced for file in path.iterdir())
    }
    for path in folder.iterdir():
        if path.name in inner:
            continue
        weights = format_by_suffix(path) is not None and path.name not in replaced
        if weights or path.is_symlink() or not path.is_file():
            raise CheckpointError(
                tr(
                    "{folder} contains files that do not belong to a sharded checkpoint: {name}. "
                    "Choose another folder.",
                    folder=folder,
                    name=path.name,
                )
            )
    return [path.name for path in folder.iterdir() if path.name not in replaced | inner]


def file_nbytes(
    out: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    metadata: Metadata,
) -> int:
    """Return the bytes of the file that `write_checkpoint` would write with these arguments.

    Raises:
        CheckpointError: `write_checkpoint` would raise it.
    """
    return _nbytes(out, file_format, keyed_writers(tensors, template), template, metadata)


def shards_nbytes(
    out: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    source: Checkpoint,
    template: Checkpoint | None,
    metadata: Metadata,
    shard_size: int | None,
    monitor: Monitor,
) -> int:
    """Return the bytes of the shards and the index that `write_shards` would write.

    Raises:
        CheckpointError: `write_shards` would raise it.
    """
    check_shards(out, source, template, shard_size)
    index = IndexBuilder(source, template, shard_size)
    nbytes = 0
    with closing(shards_of(tensors, source, template, metadata, shard_size)) as shards:
        for shard in shards:
            monitor.advance()
            path = out / shard.name
            nbytes += _nbytes(path, file_format, shard.writers, shard.template, shard.metadata)
            index.add(shard)
    return nbytes + sum(map(len, index.files().values()))


def _nbytes(
    out: Path,
    file_format: FileFormat,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
) -> int:
    check_special(out, file_format, writers, template)
    return file_format.file_nbytes(writers, template, metadata)


def write_model_folder(
    path: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    metadata: Metadata,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
    monitor: Monitor,
) -> None:
    """Write a checkpoint and other files into a folder, which is replaced as a whole.

    The folder is written as by `write_shards`.

    Args:
        path: the file to write in the folder.
        file_format: its format.
        tensors: as for `write_checkpoint`.
        template: as for `write_checkpoint`.
        metadata: as for `write_checkpoint`.
        extra_files: the contents of the other files, by name.
        overwrite: whether a folder that is not empty may be replaced.
        monitor: counts the bytes that are written and those that are read back.

    Raises:
        CheckpointError: the folder may not or cannot be written, or cannot hold these tensors.
    """
    out = path.parent
    writers = keyed_writers(tensors, template)
    nbytes = file_format.data_nbytes(writers, template) + sum(map(len, extra_files.values()))
    kept = partial(kept_files, also_replaced=(path.name, *extra_files))
    with replacing_folder(out, nbytes=nbytes, overwrite=overwrite, kept_files=kept) as folder:
        draft = folder / path.name
        write_file(draft, path, file_format, writers, template, metadata, monitor)()
        write_files(folder, extra_files)


def check_model_folder(
    path: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
) -> int:
    """Run the checks of `write_model_folder`, and return the approximate bytes of the values.

    Raises:
        CheckpointError: the folder may not or cannot be written, or cannot hold these tensors.
    """
    writers = keyed_writers(tensors, template)
    check_special(path, file_format, writers, template)
    nbytes = file_format.data_nbytes(writers, template)
    kept = partial(kept_files, also_replaced=(path.name, *extra_files))
    rehearse(replacing_folder(path.parent, nbytes=nbytes, overwrite=overwrite, kept_files=kept))
    return nbytes
