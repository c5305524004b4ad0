"""Writing a checkpoint as shards and an index: all of it, verified, or nothing."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from prune_gui.checkpoint.base import SUFFIXES, Checkpoint, Format
from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.checkpoint.sharded.index import index_bytes, is_index, read_index
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.tensor_info import size_in_bytes
from prune_gui.checkpoint.write.atomic import rehearse
from prune_gui.checkpoint.write.atomic_folder import replacing_folder
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, home, place
from prune_gui.checkpoint.write.writing import (
    KEEP_THE_FILES,
    check_nothing_special,
    reading_back,
    write_bytes,
    write_file,
)
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

NAMES: Final[Mapping[Format, tuple[str, str]]] = {
    "safetensors": ("model", ".safetensors"),
    "torch": ("pytorch_model", ".bin"),
}
"""How Hugging Face calls shards and their index, by their format."""


def is_folder(out: str | os.PathLike[str]) -> bool:
    """Tell whether what a user calls the output is a folder rather than a single file.

    It is if there is such a folder, if the name ends in a slash, or if it does not end in a suffix
    of checkpoints: there may be dots in the names of models.
    """
    path = Path(out)
    with suppress(OSError):  # writing will say what is wrong
        if path.is_dir():
            return True
    return os.fspath(out).endswith((os.sep, "/")) or path.suffix.lower() not in SUFFIXES


def write_shards(
    out: Path,
    entries: Sequence[TensorWriter],
    *,
    source: Checkpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    shard_size: int | None = None,
    beside: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
    monitor: Monitor,
) -> None:
    """Write a folder of shards with their index, in the format of `source`.

    All is written beside `out`, flushed, opened again and compared with what was meant, and only
    then takes the place of `out`: until then, and after any error, `out` is as it was. Of an old
    folder that is replaced, files that are no weights stay.

    Args:
        out: the folder to write.
        entries: as for `write_checkpoint`.
        source: the checkpoint that the entries come from.
        like: `source` if the new shards keep its order and surroundings; None writes just the
            entries.
        metadata: to write into every shard, after the metadata that is there already; see
            `with_checksums`.
        shard_size: begin a new shard when the next tensor would make one larger than so many bytes;
            None keeps the shards of `source`, which then has some.
        beside: what other files to write into the folder, by name.
        overwrite: whether an `out` with something in it may be replaced, be it that of `source`.
        monitor: counts bytes: those written, and those read back.

    Raises:
        CheckpointError: `out` may not or cannot be written, or cannot hold these tensors.
        Cancelled: the monitor says so.
    """
    check_shards(out, source, like, shard_size)
    nbytes = sum(entry.nbytes for entry in entries)
    with (
        replacing_folder(
            out,
            nbytes=nbytes,
            overwrite=overwrite,
            staying=partial(_staying, but=beside),
        ) as folder,
        closing(shards_of(entries, source, like, metadata, shard_size)) as shards,
    ):
        index = Index(source, like, shard_size)
        for shard in shards:
            write_file(
                folder / shard.name,
                out / shard.name,
                source.format,
                shard.placed,
                shard.like,
                shard.metadata,
                monitor,
            )
            index.add(shard)
        for name, octets in {**beside, index.name: index.octets()}.items():
            write_bytes(folder / name, octets)
        with reading_back(out):
            open_checkpoint(folder / index.name).close()  # compares the index with all shards


def check_shards(
    out: Path, source: Checkpoint, like: Checkpoint | None, shard_size: int | None
) -> None:
    """Check that shards can hold all that is in `like`; see `write_shards`.

    Raises:
        CheckpointError: they cannot.
    """
    if shard_size is not None:
        check_nothing_special(out, (), like, KEEP_THE_FILES)


def index_name(source: Checkpoint, shard_size: int | None) -> str:
    """Return what the index of shards is called; see `write_shards`."""
    if shard_size is None:
        return source.path.name
    stem, suffix = NAMES[source.format]
    return f"{stem}{suffix}.index.json"


def check_shards_target(
    out: Path,
    entries: Sequence[TensorWriter],
    *,
    beside: Iterable[str] = (),
    overwrite: bool = False,
) -> int:
    """Check whether `write_shards` can write to `out`, and return about how many bytes it would.

    Raises:
        CheckpointError: it may not or cannot.
    """
    nbytes = sum(entry.nbytes for entry in entries)
    staying = partial(_staying, but=tuple(beside))
    rehearse(replacing_folder(out, nbytes=nbytes, overwrite=overwrite, staying=staying))
    return nbytes


class Shard(NamedTuple):
    """One file to write.

    Attributes:
        name: of the file.
        placed: the tensors in it.
        like: the shard whose surroundings it keeps, if any.
        metadata: all of it.
        kept: the bytes of special tensors that a torch file keeps by itself, by key.
    """

    name: str
    placed: Sequence[KeyedWriter]
    like: Checkpoint | None
    metadata: Mapping[str, str]
    kept: Mapping[str, int]


class Index:
    """The index of shards, as it grows with each of them.

    Its arguments are those of `write_shards`.

    Attributes:
        name: of its file.
    """

    def __init__(self, source: Checkpoint, like: Checkpoint | None, shard_size: int | None) -> None:
        self.name = index_name(source, shard_size)
        before = like if shard_size is None else None
        self._said = before.index.metadata if isinstance(before, ShardedCheckpoint) else {}
        self._shard_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}  # tied tensors count once

    def add(self, shard: Shard) -> None:
        """Take in the next shard."""
        keys = (item.key for item in shard.placed)
        self._shard_of |= dict.fromkeys([*keys, *shard.kept], shard.name)
        self._sizes |= {item.entry.name: item.entry.nbytes for item in shard.placed}
        self._sizes |= shard.kept

    def octets(self) -> bytes:
        """Return what its file holds."""
        total = sum(self._sizes.values())
        return index_bytes(self._shard_of, {**self._said, "total_size": total})


def shards_of(
    entries: Sequence[TensorWriter],
    source: Checkpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    shard_size: int | None,
) -> Generator[Shard]:
    """Yield the shards to write; see `write_shards`. One of `source` is open till the next.

    Raises:
        CheckpointError: a shard of `source` cannot be opened any more.
    """
    if shard_size is not None:
        return _split(entries, source, like, metadata, shard_size)
    assert isinstance(source, ShardedCheckpoint)
    return _as_before(entries, source, like, metadata)


def _as_before(
    entries: Iterable[TensorWriter],
    source: ShardedCheckpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
) -> Generator[Shard]:
    """Yield shards with the names of the old ones, and in each what was in it."""
    shard_of = source.index.weight_map
    groups: dict[str, list[TensorWriter]] = {}
    for entry in entries:
        groups.setdefault(home(entry.name, shard_of, otherwise=""), []).append(entry)
    for name in source.index.shards:
        if like is None and name not in groups:
            continue
        with source.open_shard(name) as old:
            model = old if like else None
            # What the index does not list may be tied to what it does.
            placed = [
                item
                for item in place(groups.get(name, []), model)
                if home(item.key, shard_of, otherwise="") == name
            ]
            kept = {
                key: size_in_bytes(tensor.shape, tensor.dtype)
                for key, tensor in (model.raw.items() if model else ())
                if tensor.special is not None and shard_of.get(key) == name
            }
            yield Shard(name, placed, model, {**old.metadata, **metadata}, kept)


def _split(
    entries: Sequence[TensorWriter],
    source: Checkpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    shard_size: int,
) -> Generator[Shard]:
    """Yield shards of no more than a size, or of a single tensor; tied tensors stay together."""
    placed = place(entries, like)
    shards: list[list[KeyedWriter]] = []
    shard_of: dict[str, list[KeyedWriter]] = {}
    size = 0
    for item in placed:
        name, nbytes = item.entry.name, item.entry.nbytes
        if name not in shard_of:
            if not shards or size + nbytes > shard_size:
                shards.append([])
                size = 0
            shard_of[name] = shards[-1]
            size += nbytes
        shard_of[name].append(item)
    stem, suffix = NAMES[source.format]
    for number, shard in enumerate(shards, start=1):
        name = f"{stem}-{number:05}-of-{len(shards):05}{suffix}"
        yield Shard(name, shard, None, {**source.metadata, **metadata}, {})


def _staying(folder: Path, *, but: Iterable[str]) -> list[str]:
    """Return which files of a folder stay when the shards in it are replaced: no weights.

    Those named in `but` are replaced, too.

    Raises:
        CheckpointError: it holds what nobody meant to replace.
    """
    replaced: set[str] = set(but)
    for path in filter(is_index, folder.iterdir()):
        replaced |= {path.name, *read_index(path).shards}
    for path in folder.iterdir():
        weights = path.suffix.lower() in SUFFIXES and path.name not in replaced
        if weights or path.is_symlink() or not path.is_file():
            raise CheckpointError(
                tr(
                    "{folder} holds more than shards and the files beside them: {name}. Choose "
                    "another folder.",
                    folder=folder,
                    name=path.name,
                )
            )
    return [path.name for path in folder.iterdir() if path.name not in replaced]
