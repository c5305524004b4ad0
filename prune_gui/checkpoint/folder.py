"""Which checkpoint a folder means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import KNOWN_SUFFIXES, SUFFIXES
from prune_gui.checkpoint.shard_index import is_index, listed
from prune_gui.errors import CheckpointError

PREFERENCES: Final = tuple(
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
"""What files are looked for, the most wanted first. One of a kind is taken, of several none."""

PIPELINE: Final = "model_index.json"
"""The file by which a folder of diffusers is known: it has a folder for each component."""


def find_checkpoint(folder: Path) -> Path:
    """Return the file to open, an index or a checkpoint; folders within are not looked into.

    Raises:
        CheckpointError: there is none, or there are several and it takes a person to choose.
        OSError: the folder cannot be read.
    """
    names = _files(folder)
    if PIPELINE in names and (components := _components(folder)):
        raise CheckpointError(
            f"{folder} is a pipeline of several models. Open one of them: {listed(components)}."
        )
    for wanted in PREFERENCES:
        found = [name for name in names if wanted.fullmatch(name)]
        if len(found) == 1:
            return folder / found[0]
        if found:
            raise CheckpointError(
                f"{folder} holds several checkpoints. Open one of them: {listed(found)}."
            )
    raise CheckpointError(
        f"{folder} is a folder without a checkpoint ({KNOWN_SUFFIXES}). Open one that has some."
    )


def _files(folder: Path) -> list[str]:
    """Return the names of the files, hidden ones aside."""
    return sorted(
        path.name for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()
    )


def _components(folder: Path) -> list[str]:
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return sorted(path.name for path in inner if any(map(_is_weights, map(Path, _files(path)))))


def _is_weights(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES or is_index(path)
