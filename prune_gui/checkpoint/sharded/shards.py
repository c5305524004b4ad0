"""One shard to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.write.entries import KeyedWriter
from prune_gui.checkpoint.write.metadata import Metadata


class Shard(NamedTuple):
    """One file to write.

    Attributes:
        name: the name of the file.
        writers: the tensors to write.
        template: the old shard whose order, ties and other objects the new one keeps, or None.
        metadata: all of the metadata.
        special_nbytes: the bytes of the special tensors that a torch file keeps, by key.
    """

    name: str
    writers: Sequence[KeyedWriter]
    template: Checkpoint | None
    metadata: Metadata
    special_nbytes: Mapping[str, int]
