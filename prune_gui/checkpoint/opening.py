"""Opening a checkpoint of any known format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import KNOWN_SUFFIXES, SUFFIXES, Checkpoint
from prune_gui.checkpoint.folder import find_checkpoint
from prune_gui.checkpoint.formats import HEAD_BYTES, explanation, is_pickle, is_safetensors, is_zip
from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.checkpoint.hf_config import describe_hf_config
from prune_gui.checkpoint.pipeline import find_component
from prune_gui.checkpoint.sharded.index import index_with, is_index
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.single_file import FileCheckpoint
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred, tr, trn

ONE_STATE: Final = deferred("{name} has no state dicts to choose from. Open it without naming one.")


def open_checkpoint(path: str | os.PathLike[str], state: str | None = None) -> Checkpoint:
    """Open a checkpoint. Its content decides the format, not its suffix.

    Reads headers only, no values. safetensors files do not need torch for this.

    Args:
        path: a file; an index of shards (`*.safetensors.index.json`, `*.bin.index.json`), which
            are opened as one checkpoint; a folder with one of these; or a diffusers pipeline, which
            has such a folder for each model.
        state: the name of one of several state dicts of a torch file, or of one of several models
            of a pipeline (see `Checkpoint.candidates`); None selects the largest state dict, or the
            denoiser.

    Raises:
        CheckpointError: the file cannot be read, has an unknown format, breaks a rule of its
            format, or would need to run code; or a folder is ambiguous.
    """
    path = Path(path)
    if "\0" in str(path):
        raise CheckpointError(tr("{path!r} is not a path. Check its name.", path=str(path)))
    remarks: tuple[str, ...] = ()
    try:
        component = find_component(path, state)
        if component is not None:
            remarks = component.remarks if component.folder == path and state is None else ()
            path, state = component.path, None
        if path.is_dir():
            path, about = find_checkpoint(path)
            remarks += about
        sharded = is_index(path)
        if sharded and state is not None:
            raise CheckpointError(tr(ONE_STATE, name=path.name))
        opened = ShardedCheckpoint(path, _open_file) if sharded else _open_file(path, state)
    except FileNotFoundError:
        raise CheckpointError(tr("{path} does not exist. Check its name.", path=path)) from None
    except OSError as error:
        raise CheckpointError(
            tr(
                "{path} cannot be read: {reason}. Check its name and permissions.",
                path=path,
                reason=error.strerror or error,
            )
        ) from error
    if component is not None and len(opened.candidates) <= 1:
        opened.candidates, opened.state_dict = component.names, component.name
    opened.description, about = describe_hf_config(path.parent)
    index = None if sharded else index_with(path)
    if index is not None:
        remark = trn(
            "It is the only shard; open {index} to see the whole.",
            "It is one of {count:,} shards; open {index} to see the whole.",
            len(index.shards),
            index=index.path.name,
        )
        about = (remark, *about)
    opened.warnings += tuple(map(one_line, (*remarks, *about)))
    return opened


@gc_paused()
def _open_file(path: Path, state: str | None = None) -> FileCheckpoint:
    """Open a single file, once, without regard to the files beside it."""
    source = Source(path)
    try:
        return _opened(source, state)
    except BaseException:
        source.close()
        raise


def _opened(source: Source, state: str | None) -> FileCheckpoint:
    path = source.path
    start = source.file.read(HEAD_BYTES)
    expected = SUFFIXES.get(path.suffix.lower())
    if not start:
        raise CheckpointError(tr("{name} is empty. Get the file again.", name=path.name))
    if is_safetensors(start):
        return _safetensors(source, state)
    if is_zip(start) or is_pickle(start, source.file):
        if expected == "safetensors":  # torch would go by the suffix
            raise CheckpointError(
                tr(
                    "{name} is a torch checkpoint, not a safetensors file. "
                    "Rename it to end in .pt.",
                    name=path.name,
                )
            )
        from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint

        return TorchCheckpoint(source, state)
    if explained := explanation(path, start):
        raise CheckpointError(explained)
    if expected == "safetensors":
        return _safetensors(source, state)
    if expected == "torch":
        raise CheckpointError(
            tr(
                "{name} is not a checkpoint that torch.save wrote. Get the file again.",
                name=path.name,
            )
        )
    raise CheckpointError(
        tr(
            "{name} is not a checkpoint of a known format. Open one of {suffixes}.",
            name=path.name,
            suffixes=KNOWN_SUFFIXES,
        )
    )


def _safetensors(source: Source, state: str | None) -> FileCheckpoint:
    from prune_gui.checkpoint.safetensors.reading import SafetensorsCheckpoint

    if state is not None:
        raise CheckpointError(tr(ONE_STATE, name=source.path.name))
    return SafetensorsCheckpoint(source)
