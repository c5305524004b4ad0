"""The size of a checkpoint, computed from its tensors and metadata before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.sharded.writing import IndexBuilder, check_shards, shards_of
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, keyed_writers
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.writing import check_special
from prune_gui.monitor import Monitor


def file_nbytes(
    out: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    template: Checkpoint | None,
    metadata: Metadata,
) -> int:
    """Return the bytes of the file that `write_checkpoint` would write with these arguments.

    Raises:
        CheckpointError: `write_checkpoint` would raise it.
    """
    return _nbytes(out, file_format, keyed_writers(tensors, template), template, metadata)


def shards_nbytes(
    out: Path,
    file_format: FileFormat,
    tensors: Sequence[TensorWriter],
    *,
    source: Checkpoint,
    template: Checkpoint | None,
    metadata: Metadata,
    shard_size: int | None,
    monitor: Monitor,
) -> int:
    """Return the bytes of the shards and the index that `write_shards` would write.

    Raises:
        CheckpointError: `write_shards` would raise it.
    """
    check_shards(out, source, template, shard_size)
    index = IndexBuilder(source, template, shard_size)
    nbytes = 0
    with closing(shards_of(tensors, source, template, metadata, shard_size)) as shards:
        for shard in shards:
            monitor.advance()
            path = out / shard.name
            nbytes += _nbytes(path, file_format, shard.writers, shard.template, shard.metadata)
            index.add(shard)
    return nbytes + sum(map(len, index.files().values()))


def _nbytes(
    out: Path,
    file_format: FileFormat,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
) -> int:
    check_special(out, file_format, writers, template)
    return file_format.file_nbytes(writers, template, metadata)
