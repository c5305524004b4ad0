"""What has to be in the local folder of a remote checkpoint before it is opened.

These are copies of its small files, and an empty file for each file with values.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from prune_gui.checkpoint.folder import is_weight_file
from prune_gui.checkpoint.formats import FORMATS
from prune_gui.checkpoint.remote.locations import is_plain_name, url_of
from prune_gui.checkpoint.remote.stores import file_state, listing, read_small
from prune_gui.checkpoint.sharded.index import MAX_INDEX_BYTES, is_index, part_names, read_index
from prune_gui.checkpoint.surroundings import CONFIG_NAME, MAX_CONFIG_BYTES
from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import CheckpointError
from prune_gui.language import tr


def fetch_surroundings(path: Path) -> None:
    """Fetch what is needed around a remote file or folder to open it."""
    is_file = is_weight_file(path)
    folder = path.parent if is_file else path
    names = [path.name] if is_file else _weight_files(folder)
    if not is_file:
        _forget_others(folder, names)
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(CheckpointError):  # a bucket may allow to read some files only
        config = read_small(f"{url_of(folder)}/{CONFIG_NAME}", MAX_CONFIG_BYTES)
        keep_copy(folder / CONFIG_NAME, config)
    for name in names:
        if not is_index(folder / name):
            for file in part_names(name) or (name,):
                (folder / file).touch()
            continue
        index = read_small(f"{url_of(folder)}/{name}", MAX_INDEX_BYTES)
        keep_copy(folder / name, index)
        if index is not None:
            for shard in read_index(folder / name).shards:
                (folder / shard).touch()


def _weight_files(folder: Path) -> list[str]:
    """Return the names of the checkpoints and indexes in a remote folder."""
    url = url_of(folder) or ""
    found = listing(url)
    if found is not None:
        return [name for name in found.files if is_plain_name(name) and is_weight_file(Path(name))]
    for name in _usual_names():
        try:
            file_state(f"{url}/{name}")
        except CheckpointError:
            continue
        return [name]
    raise CheckpointError(
        tr(
            "{url} is not a checkpoint, and the server does not list its files. Open the URL of a "
            "file or of an index of shards.",
            url=url,
        )
    )


def _usual_names() -> list[str]:
    """Return the names that Hugging Face gives to indexes and files of each format of shards."""
    stems = {each.shard_suffix: each.shard_stem for each in FORMATS}
    return [
        f"{stem}{suffix}{ending}"
        for suffix, stem in stems.items()
        for ending in (".index.json", "")
    ]


def _forget_others(folder: Path, names: list[str]) -> None:
    """Remove the local files that stand for weights which the remote folder does not have now."""
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
