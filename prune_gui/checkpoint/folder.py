"""Choosing the checkpoint to open in a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import KNOWN_SUFFIXES, SUFFIXES
from prune_gui.checkpoint.sharded.index import is_index, listed
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

PREFERRED_NAMES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r".+\.safetensors\.index(\.[^.]+)?\.json",
        r"model.*\.safetensors",
        r".+\.safetensors",
        r".+\.bin\.index(\.[^.]+)?\.json",
        r"pytorch_model\.bin",
        r".+\.(pt|pth|bin|ckpt)",
    )
)
"""Patterns of file names in order of preference. Several matches of one pattern are ambiguous."""

VARIANT_MARK: Final = re.compile(
    r"\.((fp|bf|int)\d+|(non_)?ema)(?=\.(safetensors|bin|json)$)", re.IGNORECASE
)
"""The part of a file name that marks a variant, such as "fp16". A file without it is preferred."""
INDEX_SUFFIX: Final = re.compile(r"\.index\.json$", re.IGNORECASE)


def find_checkpoint(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the file to open, an index or a checkpoint, and a remark if it has variants.

    Inner folders are not searched.

    Raises:
        CheckpointError: there is no such file, or the user has to choose one of several.
        OSError: the folder cannot be read.
    """
    names = [path.name for path in visible_files(folder)]
    for pattern in PREFERRED_NAMES:
        matches = [name for name in names if pattern.fullmatch(name)]
        candidates = [
            name
            for name in matches
            if _without_variant(name) == name or _without_variant(name) not in matches
        ]
        if len(candidates) == 1:
            return folder / candidates[0], _variant_remarks(candidates[0], names)
        if matches:
            raise CheckpointError(
                tr(
                    "{folder} holds several checkpoints. Open one of them: {names}.",
                    folder=folder,
                    names=listed(candidates),
                )
            )
    raise CheckpointError(
        tr(
            "{folder} is a folder without a checkpoint ({suffixes}). Open one that has some.",
            folder=folder,
            suffixes=KNOWN_SUFFIXES,
        )
    )


def _without_variant(name: str) -> str:
    return VARIANT_MARK.sub("", name)


def _variant_remarks(opened: str, names: Sequence[str]) -> tuple[str, ...]:
    model = INDEX_SUFFIX.sub("", _without_variant(opened))
    others = [
        name
        for name in names
        if INDEX_SUFFIX.sub("", _without_variant(name)) == model and name != opened
    ]
    if not others:
        return ()
    return (
        tr(
            "{name} was opened of several variants. The others are {others}.",
            name=opened,
            others=listed(others),
        ),
    )


def visible_files(folder: Path) -> list[Path]:
    """Return the files of a folder without hidden ones, sorted by name."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()
    )


def is_weight_file(path: Path) -> bool:
    """Return whether the name of a file is that of a checkpoint or of an index of shards."""
    return path.suffix.lower() in SUFFIXES or is_index(path)
