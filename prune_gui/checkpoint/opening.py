"""Opening a checkpoint of any known format, also again in another process."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import NO_SURROUNDINGS, Checkpoint, FileCheckpoint, Surroundings
from prune_gui.checkpoint.file_format import HEAD_BYTES, FileFormat
from prune_gui.checkpoint.folder import find_checkpoint, find_component, look_around
from prune_gui.checkpoint.formats import format_by_suffix, known_suffixes, recognized
from prune_gui.checkpoint.refusal import FalseClaimError, explanation, invalid_file, refusing
from prune_gui.checkpoint.remote.access import check_installed
from prune_gui.checkpoint.sharded.index import is_index, read_index, split_index
from prune_gui.checkpoint.sharded.reading import ShardedCheckpoint
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError
from prune_gui.location import Location
from prune_gui.memory import gc_paused

MAX_REOPENED: Final = 8
"""Checkpoints that stay open in a process: the input, its auxiliary files, and a few shards."""
_lock = threading.Lock()


def open_checkpoint(path: str | os.PathLike[str], state: str | None = None) -> Checkpoint:
    """Open a checkpoint. Its content decides the format, not its suffix.

    Reads headers only, no values. safetensors files do not need torch for this.

    Args:
        path: a file; an index of shards (`*.safetensors.index.json`, `*.bin.index.json`) or one
            part of a split GGUF, which are opened as one checkpoint; a folder with one of these; or
            a diffusers pipeline, which has such a folder for each model. The URL of a file, an
            index or a folder opens a remote checkpoint; see
            `prune_gui.location` for the schemes.
        state: the name of one of several state dicts of a torch file, or of one of several models
            of a pipeline (see `Checkpoint.candidates`); None selects the largest state dict, or the
            denoiser.

    Raises:
        CheckpointError: the file cannot be read, has an unknown format, breaks a rule of its
            format, or would need to run code; or a folder is ambiguous.
    """
    location = Location.of(path)
    if "\0" in str(location):
        raise CheckpointError("{path!r} is not a valid path. Check its name.", path=str(location))
    try:
        with refusing(location.path):
            return _open(location, state)
    except FileNotFoundError:
        raise CheckpointError("{path} does not exist. Check its name.", path=location) from None
    except OSError as error:
        raise CheckpointError(
            "{path} cannot be read: {reason}. Check its name and permissions.",
            path=location,
            reason=error.strerror or error,
        ) from error


def _open(location: Location, state: str | None) -> Checkpoint:
    path = location.path
    if location.url is not None:
        check_installed()
        from prune_gui.checkpoint.remote.small_files import fetch_surroundings  # optional

        fetch_surroundings(location)
    component = find_component(path, state)
    remarks: tuple[str, ...] = ()
    pipeline = None
    if component is not None:
        if component.folder == path:
            pipeline, remarks = path, component.remarks if state is None else ()
        path, state = component.path, None
    if path.is_dir():
        path, variants = find_checkpoint(path)
        remarks += variants
    surroundings = look_around(path, remarks, component, pipeline)
    if is_index(path):
        _check_state(path, state, has_states=False)
        return ShardedCheckpoint(read_index(path), open_file, surroundings)
    opened = open_file(path, state, surroundings)
    with ExitStack() as whole:
        whole.enter_context(opened)
        index = split_index(opened)
        if index is None:
            whole.pop_all()
            return opened
    return ShardedCheckpoint(index, open_file, surroundings)


@gc_paused()
def open_file(
    path: Path, state: str | None = None, surroundings: Surroundings = NO_SURROUNDINGS
) -> FileCheckpoint:
    """Open a single file, once, also one that is a part of others; see `open_checkpoint`."""
    source = _source(path)
    try:
        with refusing(path):
            file_format = _format_of(source)
            _check_state(path, state, has_states=file_format.has_states)
            try:
                return file_format.open(source, state, surroundings)
            except FalseClaimError as claim:
                program, refusal = file_format.program, file_format.refusal
                raise invalid_file(path, claim, program, refusal) from None
    except BaseException:
        source.close()
        raise


def _source(path: Path) -> Source:
    location = Location.at(path)
    if location.url is None:
        return Source(path)
    from prune_gui.checkpoint.remote.fetched_blocks import RemoteSource  # optional

    return RemoteSource(path, location.url)


def _format_of(source: Source) -> FileFormat:
    path = source.path
    start = source.file.read(HEAD_BYTES)
    if not start:
        raise CheckpointError("{name} is empty. Download the file again.", name=path.name)
    if file_format := recognized(start, source.file):
        return file_format
    if message := explanation(path, start):
        raise CheckpointError(message, name=path.name)
    if file_format := format_by_suffix(path):
        return file_format
    raise CheckpointError(
        "{name} is not a checkpoint of a known format. Open one of {suffixes}.",
        name=path.name,
        suffixes=", ".join(known_suffixes()),
    )


def _check_state(path: Path, state: str | None, *, has_states: bool) -> None:
    if state is not None and not has_states:
        raise CheckpointError(
            "{name} has no state dicts to choose from. Open it without the name of a state dict.",
            name=path.name,
        )


def address_of(checkpoint: Checkpoint) -> tuple[str, str | None, bytes, bool]:
    """Return the arguments with which `reopen` opens a checkpoint in another process."""
    where = checkpoint.url or str(checkpoint.path.absolute())
    return where, checkpoint.state_dict or None, checkpoint.files_digest(), checkpoint.is_part


def reopen(where: str, state: str | None, digest: bytes, is_part: bool) -> Checkpoint:
    """Return the checkpoint at an absolute path or URL, which stays open in this process."""
    location = Location.of(where)
    path = location.path
    if location.url is None and not path.exists():
        raise CheckpointError(
            "{path} does not exist on a worker of the cluster. Put the checkpoint on a file "
            "system that all workers mount at the same path.",
            path=path,
        )
    with _lock:  # opens it once for all threads
        return _reopened(path, state, digest, is_part)


@lru_cache(MAX_REOPENED)
def _reopened(path: Path, state: str | None, digest: bytes, is_part: bool) -> Checkpoint:
    checkpoint = open_file(path) if is_part else open_checkpoint(path, state)
    if checkpoint.files_digest() != digest:
        checkpoint.close()
        raise CheckpointError(
            "{path} on a worker of the cluster is another file than here: its size or its "
            "modification time differs. Put the checkpoint on a file system that all workers "
            "mount at the same path.",
            path=path,
        )
    return checkpoint
