"""The index of a checkpoint in several files: which of them, the shards, holds which tensor.

The format is that of Hugging Face: {"metadata": {"total_size": bytes, ...}, "weight_map": {key:
file name, ...}} in a file such as `model.safetensors.index.json`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PureWindowsPath
from reprlib import repr as short
from typing import Final, TypeVar

from prune_gui.checkpoint.base import SUFFIXES, Format
from prune_gui.errors import CheckpointError
from prune_gui.language import items, tr
from prune_gui.regular_files import read_regular

Item = TypeVar("Item")

NAME: Final = re.compile(r".+(\.safetensors|\.bin)\.index(\.[^.]+)?\.json", re.IGNORECASE)
"""What an index is called; some have a variant in their names, as in `.index.fp16.json`."""
MAX_INDEX_BYTES: Final = 32_000_000
"""A third of a million tensors with long names."""
MAX_BRACKETS: Final = 1_000_000
"""In names, too. Each pair may be a list or dictionary, which takes many times its text."""
MAX_NEIGHBOURS: Final = 16
"""Indexes that are read to find the one which lists a file."""
MAX_NAME: Final = 255
"""Characters in the name of a file; no file system takes more."""
NAMED_AT_MOST: Final = 8
"""Names in one sentence."""


def is_index(path: Path) -> bool:
    """Tell an index by its name."""
    return NAME.fullmatch(path.name) is not None


@dataclass(frozen=True)
class ShardIndex:
    """An index whose names are safe to look for in its folder.

    Attributes:
        path: its file.
        weight_map: by key, the name of the shard with that tensor.
        metadata: what else it says.
    """

    path: Path
    weight_map: Mapping[str, str]
    metadata: Mapping[str, object]

    @property
    def suffix(self) -> str:
        """Of every shard."""
        return _suffix(self.path)

    @property
    def format(self) -> Format:
        """How every shard is stored."""
        return SUFFIXES[self.suffix]

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """The names of the shards in order."""
        return tuple(sorted(set(self.weight_map.values())))

    def locate(self, shard: str) -> Path:
        """Return the path of a shard.

        Raises:
            CheckpointError: it is missing, no file, or a link to somewhere else.
            OSError: it cannot be looked for.
        """
        path = self.path.parent / shard
        try:
            real = Path(os.path.realpath(path, strict=True))
        except FileNotFoundError:
            raise CheckpointError(
                tr(
                    "{index} lists {shard}, which is not in {folder}. Get that file, too, or open "
                    "another shard alone.",
                    index=self.path.name,
                    shard=shard,
                    folder=self.path.parent,
                )
            ) from None
        if real.parent not in _homes(self.path.parent):
            raise CheckpointError(
                tr(
                    "{index} lists {shard}, which is a link to a file elsewhere, and is not "
                    "followed. Put the file itself there.",
                    index=self.path.name,
                    shard=shard,
                )
            )
        if not stat.S_ISREG(real.stat().st_mode):
            raise CheckpointError(
                tr(
                    "{index} lists {shard}, which is not a file. Put the shard there.",
                    index=self.path.name,
                    shard=shard,
                )
            )
        return path


def read_index(path: Path) -> ShardIndex:
    """Read and check an index; the shards are not looked at.

    Raises:
        CheckpointError: it breaks a rule of the format, or lists what is no file of its folder.
    """
    try:
        return _parsed(path, _read(path))
    except _IndexError as problem:
        raise CheckpointError(
            tr(
                "{name} is not a valid index of shards: {problem}. Get the file again, or open "
                "one of the shards alone.",
                name=path.name,
                problem=str(problem),
            )
        ) from None
    except OSError as error:
        raise CheckpointError(
            tr(
                "{path} cannot be read: {reason}. Check its permissions.",
                path=path,
                reason=error.strerror or error,
            )
        ) from error


def index_bytes(weight_map: Mapping[str, str], metadata: Mapping[str, object]) -> bytes:
    """Return the text of an index, formatted as Hugging Face does."""
    index = {"metadata": dict(metadata), "weight_map": dict(weight_map)}
    return f"{json.dumps(index, indent=2, sort_keys=True)}\n".encode()


def listed(
    things: Sequence[Item], told: Callable[[Item], str] = str, most: int = NAMED_AT_MOST
) -> str:
    """Return the first few of some things, each as it is told, as a list for a sentence."""
    first, more = items(map(told, things[:most])), len(things) - most
    return tr("{names} and {more:,} more", names=first, more=more) if more > 0 else first


def index_with(path: Path) -> ShardIndex | None:
    """Return the index in the folder of a file that lists it as a shard, if there is one.

    Other indexes are not parsed, and only the first few are read.
    """
    suffix = path.suffix.lower()
    with suppress(OSError):
        indexes = sorted(
            other for other in path.parent.iterdir() if is_index(other) and _suffix(other) == suffix
        )
        for other in indexes[:MAX_NEIGHBOURS]:
            with suppress(OSError, _IndexError):
                text = _read(other)
                if _mentions(text, path.name):
                    index = _parsed(other, text)
                    if path.name in index.shards:
                        return index
    return None


class _IndexError(Exception):
    """What is wrong with an index, as the end of a sentence."""


def _read(path: Path) -> bytes:
    """Return the text of an index.

    Raises:
        _IndexError: it is too large, or not a regular file.
        OSError: it cannot be read.
    """
    try:
        return read_regular(path, MAX_INDEX_BYTES)
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):
            raise _IndexError(error.strerror) from None
        raise


def _mentions(text: bytes, name: str) -> bool:
    """Whether a JSON text may hold a string, in one of the usual spellings."""
    return os.fsencode(name) in text or json.dumps(name)[1:-1].encode() in text


def _parsed(path: Path, text: bytes) -> ShardIndex:
    """Parse and check an index.

    Raises:
        _IndexError: it breaks a rule of the format.
    """
    if text.count(b"[") + text.count(b"{") > MAX_BRACKETS:
        raise _IndexError(tr("it holds too many lists"))
    try:
        index = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise _IndexError(tr("it is not JSON")) from None
    match index:
        case {"weight_map": dict() as weight_map} if weight_map:
            pass
        case _:
            raise _IndexError(tr("it has no weight_map with the file name of each tensor"))
    for name in set(map(_text, weight_map.values())):
        _check_name(name, _suffix(path))
    metadata = index.get("metadata")
    return ShardIndex(path, weight_map, metadata if isinstance(metadata, dict) else {})


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique: dict[str, object] = {}
    for key, value in pairs:
        if key in unique:
            raise _IndexError(tr("{key} appears more than once", key=short(key)))
        unique[key] = value
    return unique


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise _IndexError(tr("{name} is no file name", name=short(name)))
    return name


def _check_name(name: str, suffix: str) -> None:
    """Refuse whatever is more than the name of a file of one kind, on any system."""
    plain = PureWindowsPath(name).name == name and name.isprintable()
    if not plain or len(name) > MAX_NAME:
        raise _IndexError(tr("{name} is not the name of a file in its folder", name=short(name)))
    if not name.lower().endswith(suffix):
        raise _IndexError(tr("{name} is not a {suffix} file", name=short(name), suffix=suffix))


def _suffix(path: Path) -> str:
    named = NAME.fullmatch(path.name)
    assert named is not None
    return named[1].lower()


def _homes(folder: Path) -> set[Path]:
    """Return where the shards of a folder may really lie: in it.

    The cache of Hugging Face keeps them in `blobs`, and links in `snapshots/<revision>`.
    """
    caches = [parent.parent for parent in folder.absolute().parents if parent.name == "snapshots"]
    homes = (folder, *(cache / "blobs" for cache in caches))
    return {Path(os.path.realpath(home)) for home in homes}
