"""The small files beside a remote checkpoint, such as its tokenizer: copies in its local folder."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.folder import is_weight_file
from prune_gui.checkpoint.model_files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_INNER_FILES,
    is_inner_folder_name,
    is_model_file_name,
    is_module_folder_name,
    max_inner_nbytes,
)
from prune_gui.checkpoint.remote.fetch_limit import fetch_limit
from prune_gui.checkpoint.remote.stores import DeniedError, Listing, listing, read_small
from prune_gui.checkpoint.remote.surroundings import keep_copy
from prune_gui.checkpoint.surroundings import CONFIG_NAME
from prune_gui.location import Location, is_plain_name
from prune_gui.monitor import check_cancelled

USUAL_NAMES: Final = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "model_index.json",
    "modules.json",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "1_Pooling/config.json",
)
"""What is asked for on a server that does not list its files."""
LEFT_OUT: Final = ".not-fetched"
"""Stands for what a remote folder has beside small files."""


def fetch_model_files(folder: Location) -> None:
    """Fetch the files that are copied beside the weights, and remove local ones that are gone."""
    wanted = _listed_files(folder)
    if wanted is None:
        wanted = dict.fromkeys(USUAL_NAMES)
    _forget_others(folder.path, wanted)
    for name, size in wanted.items():
        check_cancelled()
        _fetch(folder / name, size)


def _listed_files(folder: Location) -> dict[str, int | None] | None:
    """Return the sizes of the files to fetch, by their paths; None if the server does not tell."""
    try:
        found = listing(folder.url or "")
    except DeniedError:  # a bucket may allow to read files, but not to list them
        found = None
    if found is None:
        return None
    small = _small_files(found, lambda name: MAX_FILE_BYTES if is_model_file_name(name) else -1)
    wanted: dict[str, int | None] = dict(small[:MAX_FILES])
    wanted.pop(CONFIG_NAME, None)  # it was fetched when the checkpoint was opened
    for name in filter(is_inner_folder_name, found.folders[:MAX_FILES]):
        inner = listing((folder / name).url or "") if is_plain_name(name) else None
        if inner is not None:
            small = _small_files(inner, partial(max_inner_nbytes, name))
            all_small = len(small) == len(inner.files) <= MAX_INNER_FILES and not inner.folders
            small = small if all_small else [(LEFT_OUT, 0)]
            wanted |= {f"{name}/{file}": size for file, size in small}
    return wanted


def _small_files(found: Listing, limit: Callable[[str], int]) -> list[tuple[str, int]]:
    """Return the names and sizes of the files in a folder within a limit for a name, sorted."""
    return [
        (name, size)
        for name, size in sorted(found.files.items())
        if is_plain_name(name) and not name.startswith(".") and size <= limit(name)
    ]


def _forget_others(folder: Path, wanted: Container[str]) -> None:
    """Remove the local copies of files that are not wanted now."""
    inner = [path for path in folder.iterdir() if path.is_dir()]
    for place in (folder, *inner):
        files = [path for path in place.iterdir() if path.is_file()]
        is_module = is_module_folder_name(place.name)
        if place is not folder and not is_module and any(map(is_weight_file, files)):
            continue  # it is the folder of another checkpoint
        for path in files:
            is_needed = is_weight_file(path) or path == folder / CONFIG_NAME
            if not is_needed and path.relative_to(folder).as_posix() not in wanted:
                path.unlink()


def _fetch(location: Location, size: int | None) -> None:
    """Fetch a file whose size is known; else fetch it if it exists."""
    path, url = location.path, location.url or ""
    content: bytes | None = b""
    if path.name != LEFT_OUT:
        fetch_limit.take(url, size or 0)
        try:
            content = read_small(url, MAX_FILE_BYTES)
        except DeniedError:  # which some servers say of files that do not exist
            if size is not None:
                raise
            content = None
    if content is not None:
        path.parent.mkdir(exist_ok=True)
    keep_copy(path, content)
