"""Writing shards on an executor: each worker writes whole shards into a folder that all share."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.opening import address_of, reopen
from prune_gui.checkpoint.write.entries import KeyedWriter
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.writing import write_file
from prune_gui.errors import CheckpointError
from prune_gui.executor import Executor
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.checkpoint.remote.destination import Destination, Upload


class Shard(NamedTuple):
    """One file to write.

    Attributes:
        template: the old shard whose order, ties and other objects the new one keeps, or None.
        metadata: all of the metadata.
        special_nbytes: the bytes of the special tensors that a torch file keeps, by key.
    """

    name: str
    writers: Sequence[KeyedWriter]
    template: Checkpoint | None
    metadata: Metadata
    special_nbytes: Mapping[str, int]


def write_on_executor(
    executor: Executor,
    folder: Path,
    out: Path,
    file_format: FileFormat,
    shards: Sequence[Shard],
    monitor: Monitor,
    upload: Upload | None = None,
) -> None:
    """Write and complete shards, one task each.

    Each attempt writes a file of its own and renames it when it is complete. Those that lost
    workers left are removed. The shards of an upload are uploaded by the workers that wrote them;
    if the executor has a staging folder, they are uploaded from there.
    """
    staging = executor.staging_folder(folder)
    work = partial(_write_shard, staging.absolute(), out, file_format)
    if upload is not None and staging == folder:
        upload.announce(shard.name for shard in shards)
        work = partial(_upload_shard, upload.destination, out, file_format)
    for _ in executor.map(work, shards, monitor):
        pass
    if staging != folder:
        for shard in shards:
            if upload is None:
                _link(staging / shard.name, folder / shard.name)
            else:
                upload.send(staging / shard.name, shard.name, monitor)
        return
    written = {folder / shard.name for shard in shards}
    for path in folder.rglob("*"):
        if path.is_file() and path not in written:
            path.unlink()


def _link(source: Path, target: Path) -> None:
    """Create a hard link, or a copy on another file system."""
    target.parent.mkdir(exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _upload_shard(
    destination: Destination, out: Path, file_format: FileFormat, shard: Shard, monitor: Monitor
) -> None:
    with destination.local_folder() as folder:
        _write_shard(folder, out, file_format, shard, monitor)
        destination.send(folder / shard.name, shard.name, monitor)


def _write_shard(
    folder: Path, out: Path, file_format: FileFormat, shard: Shard, monitor: Monitor
) -> None:
    if not folder.is_dir():
        raise CheckpointError(
            "{path} does not exist on a worker of the cluster. Write to a file system that all "
            "workers mount at the same path.",
            path=folder,
        )
    template = shard.template and reopen(*address_of(shard.template))  # it is closed by now
    path = folder / shard.name
    path.parent.mkdir(exist_ok=True)
    attempt = path.with_name(f"{secrets.token_hex(8)}-{path.name}")
    complete = write_file(
        attempt,
        out / shard.name,
        file_format,
        shard.writers,
        template,
        shard.metadata,
        monitor,
    )
    complete()
    attempt.replace(path)
