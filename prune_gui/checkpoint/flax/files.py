"""Reading and writing the files of `flax.serialization.to_bytes`, in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.flax.parsing import FlaxParser
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import (
    SpanCheckpoint,
    SpanTensor,
    check_spans,
    copy_chunks,
    dotted,
    in_place,
    invalid_file,
)
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.monitor import Monitor

NAME: Final = "flax"
OPTIMIZER: Final = "opt_state"
"""The key of the state of the optimizer in a `TrainState`, which is kept and not shown."""


class FlaxCheckpoint(SpanCheckpoint):
    """A file of `flax.serialization.to_bytes`."""

    format = NAME

    def __init__(self, source: Source, surroundings: Surroundings) -> None:
        """Find the arrays, and check that they are in the file."""
        try:
            tensors = _tensors(source)
        except FalseClaimError as claim:
            raise invalid_file(source.path, claim, "flax.serialization") from None
        super().__init__(source, tensors, {}, surroundings)


def _tensors(source: Source) -> dict[str, SpanTensor]:
    """Return the arrays of the model in a file."""
    source.file.seek(0)
    arrays = FlaxParser(source.file, source.size).arrays
    model = {path: each for path, each in arrays.items() if path[:1] != (OPTIMIZER,)} or arrays
    paths = {"/".join(path): each for path, each in model.items()}
    if len(paths) < len(model):
        raise FalseClaimError("two of its arrays have the same path")
    separator = dotted(list(paths))
    tensors = {path.replace("/", separator): each for path, each in paths.items()}
    check_spans(tensors, source.size)
    return tensors


def write_flax(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    monitor: Monitor,
) -> WrittenFile:
    """Write a copy of the file of `template`; the format has no place for metadata."""
    flax = in_place(writers, template, NAME)
    checksums: dict[str, int] = {}
    with path.open("wb") as file:
        for chunk in copy_chunks(flax, writers, (0, flax.source.size), checksums, monitor):
            file.write(chunk)
        flush(file)
    return WrittenFile(checksums)


def flax_nbytes(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> int:
    """Return the bytes of the file that `write_flax` would write."""
    return in_place(writers, template, NAME).source.size
