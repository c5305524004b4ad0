"""How large a checkpoint will be, told from what is to be in it before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from prune_gui.checkpoint.base import Checkpoint, Format, format_of
from prune_gui.checkpoint.safetensors.writing import header_of
from prune_gui.checkpoint.sharded.writing import Index, check_shards, shards_of
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.writing import torch_nbytes
from prune_gui.checkpoint.write.entries import KeyedWriter, TensorWriter, place
from prune_gui.checkpoint.write.writing import check_dtypes
from prune_gui.monitor import Monitor


def file_nbytes(
    out: Path,
    entries: Sequence[TensorWriter],
    *,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
) -> int:
    """Return the size of the file that `write_checkpoint` would write, given the same.

    Raises:
        CheckpointError: it would refuse to.
    """
    return _nbytes(out, format_of(out), place(entries, like), like, metadata)


def shards_nbytes(
    out: Path,
    entries: Sequence[TensorWriter],
    *,
    source: Checkpoint,
    like: Checkpoint | None,
    metadata: Mapping[str, str],
    shard_size: int | None,
    monitor: Monitor,
) -> int:
    """Return the size of the shards and the index that `write_shards` would write.

    Raises:
        CheckpointError: it would refuse to.
        Cancelled: the monitor says so.
    """
    check_shards(out, source, like, shard_size)
    index = Index(source, like, shard_size)
    whole = 0
    with closing(shards_of(entries, source, like, metadata, shard_size)) as shards:
        for shard in shards:
            monitor.advance()
            path = out / shard.name
            whole += _nbytes(path, source.format, shard.placed, shard.like, shard.metadata)
            index.add(shard)
    return whole + len(index.octets())


def _nbytes(
    out: Path,
    form: Format,
    placed: Sequence[KeyedWriter],
    like: Checkpoint | None,
    metadata: Mapping[str, str],
) -> int:
    check_dtypes(out, form, placed, like)
    if form == "safetensors":
        return len(header_of(placed, metadata)) + sum(item.entry.nbytes for item in placed)
    return torch_nbytes(placed, like if isinstance(like, TorchCheckpoint) else None, metadata)
