"""The local folder of a remote checkpoint: an empty file for each file with values, and copies.

What is needed to open a checkpoint is fetched before, such as its config.json; its tokenizer and
similar files when they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.folder import CONFIG_NAME, MAX_CONFIG_BYTES, is_weight_file
from prune_gui.checkpoint.formats import FORMATS
from prune_gui.checkpoint.model_files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_INNER_FILES,
    is_inner_folder_name,
    is_model_file_name,
    is_module_folder_name,
    max_inner_nbytes,
)
from prune_gui.checkpoint.remote.access import fetch_limit
from prune_gui.checkpoint.remote.stores import DeniedError, Listing, file_state, listing, read_small
from prune_gui.checkpoint.sharded.index import MAX_INDEX_BYTES, is_index, part_names, read_index
from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import CheckpointError
from prune_gui.location import Location, is_plain_name
from prune_gui.monitor import check_cancelled

USUAL_NAMES: Final = (
    *("added_tokens.json", "chat_template.jinja", "chat_template.json"),
    *("config_sentence_transformers.json", "generation_config.json", "merges.txt"),
    *("model_index.json", "modules.json", "preprocessor_config.json", "processor_config.json"),
    *("sentence_bert_config.json", "sentencepiece.bpe.model", "special_tokens_map.json"),
    *("spiece.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"),
    *("vocab.json", "vocab.txt", "1_Pooling/config.json"),
)
"""What is asked for on a server that does not list its files."""
LEFT_OUT: Final = ".not-fetched"
"""Stands for what a remote folder has beside small files."""


def fetch_surroundings(location: Location) -> None:
    """Fetch what is needed around a remote file or folder to open it."""
    is_file = is_weight_file(location.path)
    remote = location.parent if is_file else location
    names = [location.name] if is_file else _weight_files(remote.url or "")
    folder = remote.path
    if not is_file:
        _forget_others(folder, names)
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(CheckpointError):  # a bucket may allow to read some files only
        config = read_small(f"{remote.url}/{CONFIG_NAME}", MAX_CONFIG_BYTES)
        keep_copy(folder / CONFIG_NAME, config)
    for name in names:
        if not is_index(folder / name):
            for file in part_names(name) or (name,):
                (folder / file).touch()
            continue
        index = read_small(f"{remote.url}/{name}", MAX_INDEX_BYTES)
        keep_copy(folder / name, index)
        if index is not None:
            for shard in read_index(folder / name).shards:
                (folder / shard).touch()


def _weight_files(url: str) -> list[str]:
    found = listing(url)
    if found is not None:
        return [name for name in found.files if is_plain_name(name) and is_weight_file(Path(name))]
    stems = {each.shard_suffix: each.shard_stem for each in FORMATS}
    for suffix, stem in stems.items():  # as Hugging Face names indexes and files
        for name in (f"{stem}{suffix}.index.json", f"{stem}{suffix}"):
            with suppress(CheckpointError):
                file_state(f"{url}/{name}")
                return [name]
    raise CheckpointError(
        "{url} is not a checkpoint, and the server does not list its files. Open the URL of a "
        "file or of an index of shards.",
        url=url,
    )


def _forget_others(folder: Path, names: list[str]) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            if is_weight_file(path) and path.is_file() and path.name not in names:
                path.unlink()


def keep_copy(path: Path, content: bytes | None) -> None:
    """Set the content of a local copy, unless it is the same; None removes it."""
    if content is None:
        path.unlink(missing_ok=True)
    elif not path.is_file() or path.read_bytes() != content:
        replace_bytes(path, content)


def fetch_model_files(folder: Location) -> None:
    """Fetch the files that are copied beside the weights, and remove local ones that are gone."""
    wanted = _listed_files(folder)
    if wanted is None:
        wanted = dict.fromkeys(USUAL_NAMES)
    _forget_copies(folder.path, wanted)
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
    return [
        (name, size)
        for name, size in sorted(found.files.items())
        if is_plain_name(name) and not name.startswith(".") and size <= limit(name)
    ]


def _forget_copies(folder: Path, wanted: Container[str]) -> None:
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
