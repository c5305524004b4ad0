"""The format of `flax.serialization.to_bytes`: msgpack with arrays, which are changed in place."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.flax.parsing import FlaxParser
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import (
    Header,
    SpanCheckpoint,
    check_spans,
    copy_chunks,
    dotted,
    in_place,
)
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.entries import FileContent, WrittenFile
from prune_gui.monitor import Monitor

NAME: Final = "flax"
OPTIMIZER: Final = "opt_state"
"""The key of the state of the optimizer in a `TrainState`, which is kept and not shown."""
MAP_HEADS: Final = {0xDE: 3, 0xDF: 5}
"""Bytes before the first key of a large map, by its first byte."""


class FlaxCheckpoint(SpanCheckpoint):
    """A file of `flax.serialization.to_bytes`."""

    format = NAME

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        """Find the arrays, and check that they are in the file."""
        source.file.seek(0)
        arrays = FlaxParser(source.file, source.size).arrays
        model = {path: each for path, each in arrays.items() if path[:1] != (OPTIMIZER,)} or arrays
        paths = {"/".join(path): each for path, each in model.items()}
        if len(paths) < len(model):
            raise FalseClaimError("two of its arrays have the same path")
        separator = dotted(list(paths))
        tensors = {path.replace("/", separator): each for path, each in paths.items()}
        check_spans(tensors, source.size)
        super().__init__(source, Header(tensors), surroundings)


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether a file starts with a map whose first key is a text."""
    first = start[0]
    key = start[1:2] if 0x81 <= first <= 0x8F else start[MAP_HEADS.get(first, len(start)) :][:1]
    return bool(key) and (0xA0 <= key[0] <= 0xBF or key[0] == 0xD9)


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    """Write a copy of the file of the template; the format has no place for metadata."""
    flax = in_place(content, NAME)
    checksums: dict[str, int] = {}
    with path.open("wb") as file:
        file.writelines(copy_chunks(flax, content, (0, flax.source.size), checksums, monitor))
        flush(file)
    return WrittenFile(checksums)


FLAX: Final = FileFormat(
    name=NAME,
    suffixes=(".msgpack",),
    shard_suffix=".msgpack",
    shard_stem="flax_model",
    preferred_name=r"flax_model\.msgpack",
    recognizes=_recognizes,
    recognizes_loosely=True,
    program="flax.serialization",
    open=FlaxCheckpoint,
    write=_write,
    file_nbytes=lambda content: in_place(content, NAME).source.size,
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
