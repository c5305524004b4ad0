"""The index of a sharded checkpoint, which maps each tensor to the file that holds it.

The format is that of Hugging Face: {"metadata": {"total_size": bytes, ...}, "weight_map": {key:
file name, ...}} in a file such as `model.safetensors.index.json`.

The parts of a split GGUF file are one checkpoint without an index. `gguf-split` of llama.cpp names
them X-00001-of-00003.gguf and so on, and writes into each its number from 0, the number of parts,
and the number of tensors in all parts.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PureWindowsPath
from reprlib import repr as short
from typing import Final

from prune_gui.checkpoint import formats
from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.gguf.format import GGUF, GgufCheckpoint
from prune_gui.checkpoint.refusal import FalseClaimError, refuse_duplicates
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.regular_files import read_regular

INDEX_ENDING: Final = r"\.index(\.[^.]+)?\.json"
"""The end of the name of an index; it may contain a variant, as in `.index.fp16.json`."""
MAX_INDEX_BYTES: Final = 32_000_000
"""Room for about 330,000 tensors with long names."""
MAX_BRACKETS: Final = 1_000_000
"""Each bracket may start a list or dictionary, which takes far more memory than its text."""
MAX_INDEXES_READ: Final = 16
"""Indexes that are read to find the one that lists a file."""
MAX_NAME_CHARS: Final = 255
"""Limit for the name of a file; common file systems allow no more."""
PART_NAME: Final = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)
MAX_PARTS: Final = 4096


def is_index(path: Path) -> bool:
    """Return whether the name of a file is that of an index."""
    return indexed_format(path) is not None


def indexed_format(path: Path) -> FileFormat | None:
    """Return the format of the shards of an index by its name; None if it is not named like one."""
    patterns = ((each, index_pattern(each)) for each in formats.FORMATS)
    return next(
        (each for each, pattern in patterns if re.fullmatch(pattern, path.name, re.I)), None
    )


def index_pattern(file_format: FileFormat) -> str:
    """Return a regular expression for the names of indexes of a format, regardless of case."""
    return f".+{re.escape(file_format.shard_suffix)}{INDEX_ENDING}"


@dataclass(frozen=True)
class ShardIndex:
    """An index whose shard names are plain file names.

    Attributes:
        weight_map: the name of the shard by the key of the tensor.
        parts: the names of the parts of a split file, which has no index: `path` is the first part,
            and nothing is listed.
    """

    path: Path
    format: FileFormat
    weight_map: Mapping[str, str]
    metadata: Mapping[str, object]
    parts: tuple[str, ...] = ()

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return self.parts or tuple(sorted(set(self.weight_map.values())))

    def locate(self, shard: str) -> Path:
        """Return the path of a shard."""
        path = self.path.parent / shard
        try:
            real = Path(os.path.realpath(path, strict=True))
        except FileNotFoundError:
            if self.parts:
                raise CheckpointError(
                    "{shard}, one of {count:,} parts of a split file, is not in {folder}. "
                    "Download that file, too.",
                    shard=shard,
                    count=len(self.parts),
                    folder=self.path.parent,
                ) from None
            raise CheckpointError(
                "{index} lists {shard}, which is not in {folder}. Download that file, too, or "
                "open another shard alone.",
                index=self.path.name,
                shard=shard,
                folder=self.path.parent,
            ) from None
        if real.parent not in allowed_folders(self.path.parent):
            raise CheckpointError(
                "{index} lists {shard}, which is a link to a file in another folder. Such "
                "links are not followed. Replace the link with the file.",
                index=self.path.name,
                shard=shard,
            )
        if not stat.S_ISREG(real.stat().st_mode):
            raise CheckpointError(
                "{index} lists {shard}, which is not a file. Replace it with the shard.",
                index=self.path.name,
                shard=shard,
            )
        return path


def read_index(path: Path) -> ShardIndex:
    """Read and check an index without its shards."""
    try:
        return _parse(path, _read_text(path))
    except FalseClaimError as problem:
        raise CheckpointError(
            "{name} is not a valid index of shards: {problem}. Download the file again, or "
            "open one of the shards alone.",
            name=path.name,
            problem=tr(problem.claim),
        ) from None
    except OSError as error:
        raise CheckpointError(
            "{path} cannot be read: {reason}. Check its permissions.",
            path=path,
            reason=error.strerror or error,
        ) from error


def index_bytes(weight_map: Mapping[str, str], metadata: Mapping[str, object]) -> bytes:
    """Return the content of an index, formatted as Hugging Face does."""
    index = {"metadata": dict(metadata), "weight_map": dict(weight_map)}
    return f"{json.dumps(index, indent=2, sort_keys=True)}\n".encode()


def index_with(path: Path) -> ShardIndex | None:
    """Return the index that lists a file as a shard, from the folder of the file, or None.

    Indexes that do not contain the name are not parsed, and only the first few are read.
    """
    suffix = path.suffix.lower()
    with suppress(OSError):
        indexes = sorted(
            other
            for other in path.parent.iterdir()
            if (indexed := indexed_format(other)) and indexed.shard_suffix == suffix
        )
        for other in indexes[:MAX_INDEXES_READ]:
            with suppress(OSError, FalseClaimError):
                text = _read_text(other)
                spellings = os.fsencode(path.name), json.dumps(path.name)[1:-1].encode()
                if any(name in text for name in spellings):  # plain, or with escapes
                    index = _parse(other, text)
                    if path.name in index.shards:
                        return index
    return None


def _read_text(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_INDEX_BYTES)
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):
            raise FalseClaimError(str(error.strerror)) from None
        raise


def _parse(path: Path, text: bytes) -> ShardIndex:
    if text.count(b"[") + text.count(b"{") > MAX_BRACKETS:
        raise FalseClaimError("it holds too many lists")
    try:
        index = json.loads(text, object_pairs_hook=refuse_duplicates)
    except (ValueError, RecursionError):
        raise FalseClaimError("it is not JSON") from None
    match index:
        case {"weight_map": dict() as weight_map} if weight_map:
            pass
        case _:
            raise FalseClaimError("it has no weight_map with the file name of each tensor")
    file_format = indexed_format(path)
    assert file_format is not None
    checked: set[str] = set()
    for name in weight_map.values():
        if not isinstance(name, str) or name not in checked:
            _check_name(name, file_format.shard_suffix)
            checked.add(name)
    metadata = index.get("metadata")
    return ShardIndex(path, file_format, weight_map, metadata if isinstance(metadata, dict) else {})


def _check_name(name: object, suffix: str) -> None:
    """Refuse anything but a plain file name with the suffix, by the rules of any system."""
    if not isinstance(name, str):
        raise FalseClaimError("{name} is not a file name", name=short(name))
    is_plain = PureWindowsPath(name).name == name and name.isprintable()
    if not is_plain or len(name) > MAX_NAME_CHARS:
        raise FalseClaimError("{name} is not the name of a file in its folder", name=short(name))
    if not name.lower().endswith(suffix):
        raise FalseClaimError("{name} is not a {suffix} file", name=short(name), suffix=suffix)


def allowed_folders(folder: Path) -> set[Path]:
    """Return the folders that may contain the shards after resolving links: `folder`, and caches.

    The cache of Hugging Face has files in `blobs`, and links to them in `snapshots/<revision>`.
    """
    caches = [parent.parent for parent in folder.absolute().parents if parent.name == "snapshots"]
    folders = (folder, *(cache / "blobs" for cache in caches))
    return {Path(os.path.realpath(home)) for home in folders}


def part_names(name: str) -> tuple[str, ...]:
    """Return the names of all parts of a split file by the name of one; () for another file."""
    found = PART_NAME.fullmatch(name)
    if found is None:
        return ()
    stem, number, count, suffix = found.groups()
    if not 1 <= int(number) <= int(count) <= MAX_PARTS or int(count) == 1:
        return ()
    return tuple(f"{stem}-{each:05}-of-{count}{suffix}" for each in range(1, int(count) + 1))


def has_several_files(path: Path) -> bool:
    """Return whether a path is named like an index of shards or like a part of a split file."""
    return is_index(path) or bool(part_names(path.name))


def split_index(opened: Checkpoint) -> ShardIndex | None:
    """Return what stands for the index of a split file, of which one part is open."""
    part = opened.gguf_header.part if isinstance(opened, GgufCheckpoint) else None
    if part is None:
        return None
    names = part_names(opened.path.name)
    if len(names) != part.parts or names[part.number % part.parts] != opened.path.name:
        raise CheckpointError(
            "{name} is part {number:,} of {count:,} of a split file, and not named like that. "
            "Give all parts the names that gguf-split gave them, such as "
            "X-{number:05}-of-{count:05}.gguf.",
            name=opened.path.name,
            number=part.number + 1,
            count=part.parts,
        )
    return ShardIndex(opened.path.with_name(names[0]), GGUF, {}, {}, names)


def check_part(opened: Checkpoint, number: int, index: ShardIndex) -> int:
    """Check that a file is a part of a split file, and return what it says of all tensors."""
    part = opened.gguf_header.part if isinstance(opened, GgufCheckpoint) else None
    if part is None or (part.number, part.parts) != (number, len(index.parts)):
        raise CheckpointError(
            "{name} is not part {number:,} of {count:,} of a split file, as its name says. "
            "Download all parts again.",
            name=opened.path.name,
            number=number + 1,
            count=len(index.parts),
        )
    return part.tensors
