"""Which checkpoint a folder means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import KNOWN_SUFFIXES, SUFFIXES
from prune_gui.checkpoint.sharded.index import is_index, listed
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

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

VARIANT: Final = re.compile(
    r"\.((fp|bf|int)\d+|(non_)?ema)(?=\.(safetensors|bin|json)$)", re.IGNORECASE
)
"""What the name of a file tells whose tensors are the same in another form; the plain one is wanted
more than its variants."""
INDEX: Final = re.compile(r"\.index\.json$", re.IGNORECASE)


def find_checkpoint(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the file to open, an index or a checkpoint, and a remark if it has variants.

    Folders within are not looked into.

    Raises:
        CheckpointError: there is none, or there are several and it takes a person to choose.
        OSError: the folder cannot be read.
    """
    names = [path.name for path in files_of(folder)]
    for wanted in PREFERENCES:
        found = [name for name in names if wanted.fullmatch(name)]
        several = [name for name in found if _plain(name) == name or _plain(name) not in found]
        if len(several) == 1:
            return folder / several[0], _about_variants(several[0], names)
        if found:
            raise CheckpointError(
                tr(
                    "{folder} holds several checkpoints. Open one of them: {names}.",
                    folder=folder,
                    names=listed(several),
                )
            )
    raise CheckpointError(
        tr(
            "{folder} is a folder without a checkpoint ({suffixes}). Open one that has some.",
            folder=folder,
            suffixes=KNOWN_SUFFIXES,
        )
    )


def _plain(name: str) -> str:
    return VARIANT.sub("", name)


def _about_variants(opened: str, names: Sequence[str]) -> tuple[str, ...]:
    model = INDEX.sub("", _plain(opened))
    others = [name for name in names if INDEX.sub("", _plain(name)) == model and name != opened]
    if not others:
        return ()
    return (
        tr(
            "{name} was opened of several variants. The others are {others}.",
            name=opened,
            others=listed(others),
        ),
    )


def files_of(folder: Path) -> list[Path]:
    """Return the files by their names, hidden ones aside."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()
    )


def is_weights(path: Path) -> bool:
    """Tell a checkpoint or an index of shards by its name."""
    return path.suffix.lower() in SUFFIXES or is_index(path)
