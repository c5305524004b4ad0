"""The parts of a split GGUF file, which are one checkpoint without an index.

`gguf-split` of llama.cpp names them X-00001-of-00003.gguf and so on, and writes into each its
number from 0, the number of parts, and the number of tensors in all parts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.gguf.format import GGUF
from prune_gui.checkpoint.gguf.reading import GgufCheckpoint
from prune_gui.checkpoint.sharded.index import ShardIndex, is_index
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

PART_NAME: Final = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)
MAX_PARTS: Final = 4096


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
            tr(
                "{name} is part {number:,} of {count:,} of a split file, and not named like that. "
                "Give all parts the names that gguf-split gave them, such as "
                "X-{number:05}-of-{count:05}.gguf.",
                name=opened.path.name,
                number=part.number + 1,
                count=part.parts,
            )
        )
    return ShardIndex(opened.path.with_name(names[0]), GGUF, {}, {}, names)


def check_part(opened: Checkpoint, number: int, index: ShardIndex) -> int:
    """Check that a file is a part of a split file, and return what it says of all tensors."""
    part = opened.gguf_header.part if isinstance(opened, GgufCheckpoint) else None
    if part is None or (part.number, part.parts) != (number, len(index.parts)):
        raise CheckpointError(
            tr(
                "{name} is not part {number:,} of {count:,} of a split file, as its name says. "
                "Download all parts again.",
                name=opened.path.name,
                number=number + 1,
                count=len(index.parts),
            )
        )
    return part.tensors
