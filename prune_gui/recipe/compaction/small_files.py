"""The files beside a checkpoint that programs need to load it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import visible_files
from prune_gui.checkpoint.remote.uploads import exists
from prune_gui.checkpoint.sharded.index import allowed_folders
from prune_gui.checkpoint.small_files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_INNER_FILE_BYTES,
    MAX_INNER_FILES,
    is_inner_folder_name,
    is_small_file_name,
)
from prune_gui.checkpoint.surroundings import CONFIG_NAME
from prune_gui.errors import CheckpointError, valid_text
from prune_gui.recipe.compaction.plan import CompactPlan
from prune_gui.recipe.compaction.source import Json
from prune_gui.regular_files import read_regular

OWN_SCRIPT: Final = b'"""Written by Prune GUI.'


def small_files(checkpoint: Checkpoint, plan: CompactPlan) -> dict[str, bytes]:
    """Return the contents of the files to write beside the compact form, by name.

    They are the adapted config.json, and copies of the small files beside it and in folders beside
    it, such as `1_Pooling/config.json` of sentence-transformers. Copies are unchanged, except for
    those of a tokenizer without some tokens. Without a config.json there are none.
    """
    if plan.config is None:
        return {}
    files = dict(_copies(checkpoint.small_files_folder))
    if tokens := plan.tokens:
        files = {
            name: tokens.files.get(name) or content
            for name, content in files.items()
            if not tokens.is_left_out(name)
        }
    return {**files, CONFIG_NAME: _config_bytes(plan.config)}


def config_beside(plan: CompactPlan, file: Path) -> dict[str, bytes]:
    """Return the config.json to write beside a single file, by name; {} if one is there already."""
    if plan.config is None or exists(file.parent / CONFIG_NAME):
        return {}
    return {CONFIG_NAME: _config_bytes(plan.config)}


def _config_bytes(config: Json) -> bytes:
    return valid_text(f"{json.dumps(config, indent=2, ensure_ascii=False)}\n").encode()


def left_out_folders(checkpoint: Checkpoint) -> list[str]:
    """Return the names of the folders beside a checkpoint of which no file is copied, sorted.

    They hold weights, other folders, or files that are not small.
    """
    with suppress(OSError, CheckpointError):  # saving says why it cannot be fetched
        folders = _subfolders(checkpoint.small_files_folder)
        return [path.name for path in folders if not _all_small(path)]
    return []


def _copies(folder: Path) -> Iterator[tuple[str, bytes]]:
    allowed = allowed_folders(folder)
    paths = [path for path in visible_files(folder) if _is_small_file(path, allowed)]
    paths = [path for path in paths if path.name != CONFIG_NAME]
    for inner in filter(_all_small, _subfolders(folder)):
        paths += visible_files(inner)
    for path in paths[:MAX_FILES]:
        with suppress(OSError):  # a file that cannot be read is not needed to read the weights
            content = read_regular(path, MAX_FILE_BYTES)
            if not content.startswith(OWN_SCRIPT):
                yield path.relative_to(folder).as_posix(), content


def _subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder without hidden ones and links, sorted by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and is_inner_folder_name(path.name)
    )


def _all_small(folder: Path) -> bool:
    """Return whether a folder has nothing but a few small files."""
    paths = list(islice(folder.iterdir(), MAX_INNER_FILES + 1))
    allowed = allowed_folders(folder)
    return len(paths) <= MAX_INNER_FILES and all(
        path.is_file()
        and path.stat().st_size <= MAX_INNER_FILE_BYTES
        and _is_small_file(path, allowed)
        for path in paths
    )


def _is_small_file(path: Path, allowed: set[Path]) -> bool:
    return is_small_file_name(path.name) and Path(os.path.realpath(path)).parent in allowed
