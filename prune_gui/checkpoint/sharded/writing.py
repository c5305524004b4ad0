"""Writing a checkpoint as a folder: shards and an index, or one file and those beside it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.formats import format_by_suffix, format_named
from prune_gui.checkpoint.opening import address_of, open_checkpoint, reopen
from prune_gui.checkpoint.sharded.index import index_bytes, is_index, part_names, read_index
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.tensor_info import size_in_bytes
from prune_gui.checkpoint.write.atomic import link_or_copy, rehearse, replacing_folder, write_files
from prune_gui.checkpoint.write.content import (
    FileContent,
    KeyedWriter,
    Metadata,
    TensorWriter,
    keyed_writers,
    lookup_source,
)
from prune_gui.checkpoint.write.writing import (
    KEEP_THE_FILES,
    FileOutput,
    check_nothing_special,
    check_special,
    reading_back,
    write_file,
)
from prune_gui.errors import CheckpointError
from prune_gui.executor import Executor, current_executor
from prune_gui.location import Location
from prune_gui.monitor import Monitor
from prune_gui.parallel import run

if TYPE_CHECKING:
    from prune_gui.checkpoint.remote.destination import Destination


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


class Shard(NamedTuple):
    """One file to write; its template is the old shard, or None.

    Attributes:
        special_nbytes: the bytes of the special tensors that a torch file keeps, by key.
    """

    name: str
    content: FileContent
    special_nbytes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class FolderOutput(FileOutput):
    """A checkpoint to write as a file in a folder, which is replaced as a whole.

    Files of an old folder that do not contain weights are kept.
    """

    @contextmanager
    def _replacing(self, nbytes: int) -> Iterator[Mapping[str, Path]]:
        nbytes += sum(map(len, self.extra_files.values()))
        names = (self.path.name, *self.extra_files)
        with _new_folder(self.path.parent, nbytes, names, overwrite=self.overwrite) as folder:
            yield {name: folder / name for name in names}


@dataclass(frozen=True, kw_only=True)
class ShardsOutput(FileOutput):
    """A checkpoint to write as a folder of shards with their index.

    The folder is replaced as a whole, as by `FolderOutput`. On an executor (see
    `prune_gui.executor`), its workers write the shards. If the folder is remote, each shard is
    written to this machine, compared with the input, uploaded and removed here, and the index is
    uploaded last.

    Attributes:
        source: the checkpoint that the tensors come from, to whose metadata that of each shard is
            added. There are no late texts if it is remote.
        template: `source`, or None.
        shard_size: the limit for a shard in bytes; a larger tensor gets its own shard. None keeps
            the shards of `source`, which has to be sharded.
    """

    source: Checkpoint
    shard_size: int | None = None

    def check(self) -> int:
        nbytes = sum(tensor.nbytes for tensor in self.tensors)
        if self.upload is None:  # else at most two shards are on this machine
            rehearse(self._new_folder(nbytes))
        return nbytes

    def nbytes(self, metadata: Metadata, monitor: Monitor) -> int:
        """Return the bytes of the shards and the index that `write` would write."""
        nbytes, file_format, written = 0, self._format(), []
        with closing(self._shards(metadata)) as shards:
            for shard in shards:
                monitor.advance()
                check_special(self.path / shard.name, file_format, shard.content)
                nbytes += file_format.file_nbytes(shard.content)
                written.append(shard)
        return nbytes + sum(map(len, _index_files(self, written).values()))

    def write(self, metadata: Metadata, monitor: Monitor) -> None:
        nbytes = sum(tensor.nbytes for tensor in self.tensors)
        upload, executor, shards = self.upload, current_executor(), list(self._shards(metadata))
        new_folder = self._new_folder(nbytes) if upload is None else nullcontext(upload.folder)
        with new_folder as folder:
            write = partial(self._write_shard, folder, monitor)
            if executor is not None:
                self._write_on_executor(executor, folder, shards, monitor)
            elif upload is None:
                for complete in list(run(write, shards)):
                    complete()
            else:
                for shard in shards:
                    write(shard)()
                    upload.send_beside(folder / shard.name, shard.name, monitor)
            files = {**self.extra_files, **_index_files(self, shards)}
            write_files({folder / name: octets for name, octets in files.items()})
            if upload is None:
                with reading_back(self.path):
                    main = index_name(self.source, self.shard_size)
                    open_checkpoint(folder / main).close()  # compares it with all shards
            else:
                upload.wait()
                upload.send_all(folder, monitor)

    def _write_shard(self, folder: Path, monitor: Monitor, shard: Shard) -> Callable[[], None]:
        """Write and compare a shard; the function that is returned completes it."""
        path, out, content = folder / shard.name, self.path / shard.name, shard.content
        if content.template is None:
            return write_file(path, out, self._format(), content, monitor)
        assert isinstance(self.source, ShardedCheckpoint)
        with self.source.open_shard(shard.name) as template:
            content = replace(content, template=template)
            return write_file(path, out, self._format(), content, monitor)

    def _write_on_executor(
        self, executor: Executor, folder: Path, shards: Sequence[Shard], monitor: Monitor
    ) -> None:
        """Write and complete shards, one task each.

        Each attempt writes a file of its own and renames it when it is complete. Those that lost
        workers left are removed. The shards of an upload are uploaded by the workers that wrote
        them; if the executor has a staging folder, they are uploaded from there.
        """
        upload, staging = self.upload, executor.staging_folder(folder)
        work = partial(_write_shard, staging.absolute(), self.path, self._format())
        if upload is not None and staging == folder:
            upload.announce(shard.name for shard in shards)
            work = partial(_upload_shard, upload.destination, self.path, self._format())
        for _ in executor.map(work, shards, monitor):
            pass
        if staging == folder:
            written = {folder / shard.name for shard in shards}
            for path in folder.rglob("*"):
                if path.is_file() and path not in written:
                    path.unlink()
            return
        for shard in shards:
            staged, path = staging / shard.name, folder / shard.name
            if upload is None:
                path.parent.mkdir(exist_ok=True)
                link_or_copy(staged, path)
            else:
                upload.send(staged, shard.name, monitor)

    def _new_folder(self, nbytes: int) -> AbstractContextManager[Path]:
        return _new_folder(self.path, nbytes, tuple(self.extra_files), overwrite=self.overwrite)

    def _shards(self, metadata: Metadata) -> Generator[Shard]:
        """Yield the shards, whose templates are closed when the next one is requested."""
        if self.shard_size is not None:
            check_nothing_special(self.path, (), self.template, KEEP_THE_FILES)
            return self._split_shards(metadata, self.shard_size)
        assert isinstance(self.source, ShardedCheckpoint)
        return self._same_shards(metadata, self.source)

    def _same_shards(self, metadata: Metadata, source: ShardedCheckpoint) -> Generator[Shard]:
        shard_of, parts = source.shard_of, source.index.parts
        groups: dict[str, list[TensorWriter]] = {}
        for tensor in self.tensors:
            shard = lookup_source(tensor.replaced, shard_of, default="")
            groups.setdefault(shard, []).append(tensor)
        # An upload ends with the main one.
        for name in (*parts[1:], *parts[:1]) or source.index.shards:
            if self.template is None and name not in groups:
                continue
            with source.open_shard(name) as old:
                template = old if self.template else None
                writers = keyed_writers(groups.get(name, []), template)
                special_nbytes = {
                    key: size_in_bytes(raw.shape, raw.dtype)
                    for key, raw in (template.raw.items() if template else ())
                    if raw.special is not None and shard_of.get(key) == name
                }
                if writers or special_nbytes or parts:  # else all of its tensors are removed
                    content = FileContent(writers, template, {**old.metadata, **metadata})
                    yield Shard(name, content, special_nbytes)

    def _split_shards(self, metadata: Metadata, shard_size: int) -> Generator[Shard]:
        """Yield shards of at most this size, or of a single tensor; ties stay in one shard."""
        shards: list[list[KeyedWriter]] = []
        shard_of: dict[str, list[KeyedWriter]] = {}
        size = 0
        for writer in keyed_writers(self.tensors, self.template):
            name, nbytes = writer.tensor.name, writer.tensor.nbytes
            if name not in shard_of:
                if not shards or size + nbytes > shard_size:
                    shards.append([])
                    size = 0
                shard_of[name] = shards[-1]
                size += nbytes
            shard_of[name].append(writer)
        old = format_named(self.source.format)
        for number, shard in enumerate(shards, start=1):
            name = f"{old.shard_stem}-{number:05}-of-{len(shards):05}{old.shard_suffix}"
            yield Shard(name, FileContent(shard, None, self._metadata(metadata)), {})


def _index_files(output: ShardsOutput, shards: Iterable[Shard]) -> dict[str, bytes]:
    """Return the content of the index by its name; {} for the parts of a split file.

    The same shards as those of the template list the same tensors, new ones list all of them.
    """
    template = output.template
    old = template.index if isinstance(template, ShardedCheckpoint) else None
    if old is not None and old.parts:
        return {}
    listed = old.weight_map if old and output.shard_size is None else None

    def is_listed(old_key: str) -> bool:
        return listed is None or lookup_source(old_key, listed, default="") != ""

    shard_of: dict[str, str] = {}
    sizes: dict[str, int] = {}  # tied tensors count once
    for shard in shards:
        writers = [writer for writer in shard.content.writers if is_listed(writer.replaced)]
        special = {key: size for key, size in shard.special_nbytes.items() if is_listed(key)}
        shard_of |= dict.fromkeys([*(writer.key for writer in writers), *special], shard.name)
        sizes |= {writer.tensor.name: writer.tensor.nbytes for writer in writers} | special
    total = sum(sizes.values())
    metadata = {**(old.metadata if old else {}), "total_size": total}
    if old and total != old.metadata.get("total_size"):
        metadata.pop("total_parameters", None)  # other tensors than before
    name = index_name(output.source, output.shard_size)
    return {name: index_bytes(shard_of, metadata)}


def index_name(source: Checkpoint, shard_size: int | None) -> str:
    """Return the name of the index of shards, or of the first part; see `ShardsOutput`."""
    if shard_size is None:
        return source.path.name
    file_format = format_named(source.format)
    return f"{file_format.shard_stem}{file_format.shard_suffix}.index.json"


def _new_folder(
    folder: Path, nbytes: int, extra_files: Sequence[str], *, overwrite: bool
) -> AbstractContextManager[Path]:
    kept = partial(_kept_files, also_replaced=extra_files)
    return replacing_folder(folder, nbytes=nbytes, overwrite=overwrite, kept_files=kept)


def _kept_files(folder: Path, *, also_replaced: Iterable[str]) -> list[str]:
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
                "{folder} contains files that do not belong to a sharded checkpoint: {name}. "
                "Choose another folder.",
                folder=folder,
                name=path.name,
            )
    return [path.name for path in folder.iterdir() if path.name not in replaced | inner]


def _upload_shard(
    destination: Destination, out: Path, file_format: FileFormat, shard: Shard, monitor: Monitor
) -> None:
    with destination.local_folder() as folder:
        _write_shard(folder, out, file_format, shard, monitor)
        destination.send(folder / shard.name, shard.name, monitor)


def _write_shard(
    folder: Path, out: Path, file_format: FileFormat, shard: Shard, monitor: Monitor
) -> None:
    if not folder.is_dir():
        raise CheckpointError(
            "{path} does not exist on a worker of the cluster. Write to a file system that all "
            "workers mount at the same path.",
            path=folder,
        )
    content = shard.content
    if content.template is not None:  # it is closed by now
        content = replace(content, template=reopen(*address_of(content.template)))
    path = folder / shard.name
    path.parent.mkdir(exist_ok=True)
    attempt = path.with_name(f"{secrets.token_hex(8)}-{path.name}")
    write_file(attempt, out / shard.name, file_format, content, monitor)()
    attempt.replace(path)
