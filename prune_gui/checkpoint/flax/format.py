"""The format of `flax.serialization.to_bytes`: msgpack with arrays, which are changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.file_checkpoint import FileCheckpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.monitor import Monitor

MAP_HEADS: Final = {0xDE: 3, 0xDF: 5}
"""Bytes before the first key of a large map, by its first byte."""


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether a file starts with a map whose first key is a text."""
    first = start[0]
    key = start[1:2] if 0x81 <= first <= 0x8F else start[MAP_HEADS.get(first, len(start)) :][:1]
    return bool(key) and (0xA0 <= key[0] <= 0xBF or key[0] == 0xD9)


def _open(source: Source, _: str | None, surroundings: Surroundings) -> FileCheckpoint:
    from prune_gui.checkpoint.flax.files import FlaxCheckpoint  # not needed at the start

    return FlaxCheckpoint(source, surroundings)


def _write(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    _: Metadata,
    monitor: Monitor,
) -> WrittenFile:
    from prune_gui.checkpoint.flax.files import write_flax  # not needed at the start

    return write_flax(path, writers, template, monitor)


def _file_nbytes(writers: Sequence[KeyedWriter], template: Checkpoint | None, _: Metadata) -> int:
    from prune_gui.checkpoint.flax.files import flax_nbytes  # not needed at the start

    return flax_nbytes(writers, template)


FLAX: Final = FileFormat(
    name="flax",
    suffixes=(".msgpack",),
    shard_suffix=".msgpack",
    shard_stem="flax_model",
    preferred_name=r"flax_model\.msgpack",
    recognizes=_recognizes,
    recognizes_loosely=True,
    open=_open,
    write=_write,
    file_nbytes=_file_nbytes,
    load_code=(
        "{{name: torch.from_numpy(np.array(a)) for name, a in "
        'flatten_dict(msgpack_restore(Path({path}).read_bytes()), sep=".").items() '
        "if isinstance(a, np.ndarray)}}"
    ),
    load_import=(
        "from pathlib import Path\n\nimport numpy as np\n"
        "from flax.serialization import msgpack_restore\n"
        "from flax.traverse_util import flatten_dict"
    ),
    opens_without_torch=True,
    holds_metadata=False,
)
