"""Handing a pruned checkpoint over to an evaluator, in memory where there is room."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from prune_gui.checkpoint import ShardedCheckpoint
from prune_gui.checkpoint.folder import CONFIG_NAME, is_weight_file, visible_files
from prune_gui.checkpoint.safetensors.format import CODES, SAFETENSORS
from prune_gui.checkpoint.write.content import FileContent, keyed_writers
from prune_gui.checkpoint.write.temp_files import remove_abandoned, temporary
from prune_gui.errors import EvaluationError
from prune_gui.isolated.processes import anonymous_file
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.recipe.exporting import parts_to_write, write
from prune_gui.recipe.output import DEFAULTS, OutputOptions
from prune_gui.recipe.resolution import Resolution

SHARED_MEMORY: Final = Path("/dev/shm")
FREE_MEMORY_RATIO: Final = 2
"""Memory is used for a hand-over only if this many times its size is free."""
HEADER_BYTES: Final = 1 << 20
"""Added to the size of the tensors, for names and metadata."""


def size_of(resolution: Resolution) -> int:
    """Return the approximate bytes of the finalized form."""
    infos = resolution.checkpoint.tensors.values()
    return HEADER_BYTES + sum(info.nbytes * (1 + len(info.aliases)) for info in infos)


@contextmanager
def tensors_file(resolution: Resolution, monitor: Monitor) -> Iterator[int]:
    """Write the finalized tensors to a new anonymous safetensors file and yield its descriptor."""
    for info in resolution.checkpoint.tensors.values():
        if info.special is not None or info.dtype not in CODES:
            raise EvaluationError(
                "{name} ({kind}) cannot be handed over in a state dict. Let the function take "
                "a path (--pass path).",
                name=info.name,
                kind=info.dtype if info.special is None else tr(info.special),
            )
    tensors = parts_to_write(resolution, DEFAULTS)
    writers = keyed_writers(tensors, resolution.checkpoint)
    content = FileContent(writers, None, {}).checked(resolution.checkpoint.check)
    with anonymous_file(in_memory=_fits_in_memory(size_of(resolution))) as file:
        with monitor.in_charge():  # corrections are computed here
            SAFETENSORS.write(Path(f"/dev/fd/{file.fileno()}"), content, monitor)
        yield file.fileno()


@contextmanager
def handover_folder(resolution: Resolution) -> Iterator[Path]:
    """Create a private folder with room for a checkpoint, and remove it after the block.

    It is in shared memory, if there is room, else among temporary files; abandoned ones are
    removed.
    """
    nbytes = size_of(resolution)
    bases = [Path(tempfile.gettempdir())]
    if sys.platform == "linux" and os.access(SHARED_MEMORY, os.W_OK):
        bases.insert(0, SHARED_MEMORY)
    for base in bases:
        remove_abandoned(base)
    has_room = nbytes + HEADER_BYTES <= shutil.disk_usage(bases[0]).free
    base = bases[0] if has_room and _fits_in_memory(nbytes) else bases[-1]
    with temporary(base / "evaluate", lambda path: path.mkdir(mode=0o700)) as folder:
        yield folder


def write_checkpoint_in(folder: Path, resolution: Resolution, monitor: Monitor) -> Path:
    """Write the finalized checkpoint into a folder, and return its path.

    The file has the name and the format of the input; for shards, it is the folder, and for the
    parts of a split file the first one. Files beside the input, such as tokenizers, are linked into
    the folder if config.json is one. If no step prunes anything, this is the path of the input
    itself, unless it is remote.
    """
    checkpoint = resolution.checkpoint
    is_sharded = isinstance(checkpoint, ShardedCheckpoint)
    has_index = isinstance(checkpoint, ShardedCheckpoint) and not checkpoint.index.parts
    if checkpoint.url is None and not any(step.enabled for step in resolution.recipe.steps):
        path = checkpoint.path.absolute()
        return path.parent if has_index else path
    out = folder / "model"
    file = out / checkpoint.path.name
    if not is_sharded:
        out.mkdir()
    write(
        resolution,
        out if is_sharded else file,
        # the evaluator gets all that the input has
        OutputOptions(tensors_only=False, model_files=False),
        monitor,
    )
    if (checkpoint.path.parent / CONFIG_NAME).is_file():
        for path in visible_files(checkpoint.model_files_folder.absolute()):
            if not is_weight_file(path):
                with suppress(OSError):
                    (out / path.name).symlink_to(path)
    return out if has_index else file


def _fits_in_memory(nbytes: int) -> bool:
    return bool(nbytes * FREE_MEMORY_RATIO <= psutil.virtual_memory().available)
