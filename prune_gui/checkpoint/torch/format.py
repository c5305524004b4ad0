"""The format of files that torch.save writes, zip or legacy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import FileCheckpoint, Surroundings
from prune_gui.checkpoint.file_format import HEAD_BYTES, FileFormat
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.archive import damaged_record
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

TEXT_PICKLE_OPCODES: Final = b"(]}cLl"
"""First opcodes of pickles of protocol 0 and 1, which end with a dot."""
LEGACY_TEXT_MAGIC: Final = b"L119547037146038801333356L\n"
"""First bytes of legacy torch files of these protocols, which end with the values."""


def _recognizes(start: bytes, file: BinaryIO) -> bool:
    """Return whether a file is a zip archive, possibly an empty one, or a pickle."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06")) or _is_pickle(start, file)


def _is_pickle(start: bytes, file: BinaryIO) -> bool:
    """Return whether a file looks like a pickle of any protocol, without unpickling it."""
    if start[:1] == b"\x80":
        return start[1:2] <= b"\x05"
    if not start or start[0] not in TEXT_PICKLE_OPCODES:
        return False
    file.seek(-1, 2)
    return start.startswith(LEGACY_TEXT_MAGIC) or file.read(1) == b"."


def _open(source: Source, state: str | None, surroundings: Surroundings) -> FileCheckpoint:
    name = source.path.name
    source.file.seek(0)
    if not _recognizes(source.file.read(HEAD_BYTES), source.file):
        raise CheckpointError(
            "{name} is not a checkpoint that torch.save wrote. Download the file again.", name=name
        )
    if source.path.suffix.lower() in SAFETENSORS.suffixes:  # torch would go by the suffix
        raise CheckpointError(
            "{name} is a torch checkpoint, not a safetensors file. Rename it to end in .pt.",
            name=name,
        )
    from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint  # torch: slow to import

    return TorchCheckpoint(source, state, surroundings)


def _open_headers(path: Path) -> FileCheckpoint:
    from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint  # torch: slow to import

    source = Source(path)
    try:
        return TorchCheckpoint(source, values=False)
    except BaseException:
        source.close()
        raise


# The options are those of `write_torch`.
def _write(path: Path, content: FileContent, monitor: Monitor, **options: bool) -> WrittenFile:
    from prune_gui.checkpoint.torch.writing import write_torch  # torch: slow to import

    return write_torch(path, content, monitor, **options)


def _file_nbytes(content: FileContent, **options: bool) -> int:
    from prune_gui.checkpoint.torch.writing import torch_nbytes  # torch: slow to import

    return torch_nbytes(content, **options)


def _data_nbytes(content: FileContent, *, tensors_only: bool = False) -> int:
    """Return the bytes of the values; tied tensors are stored once."""
    template = None if tensors_only else content.template
    outside = template.nbytes_outside() if template else 0
    return sum(tensor.nbytes for tensor in content.tensors.values()) + outside


TORCH: Final = FileFormat(
    name="torch",
    suffixes=(".pt", ".pth", ".bin", ".ckpt"),
    shard_suffix=".bin",
    shard_stem="pytorch_model",
    preferred_name=r"pytorch_model\.bin",
    recognizes=_recognizes,
    recognizes_loosely=True,
    program="torch.save",
    open=_open,
    write=_write,
    write_compressed=partial(_write, compressed=True),
    open_headers=_open_headers,
    file_nbytes=_file_nbytes,
    data_nbytes=_data_nbytes,
    load_code='torch.load({path}, map_location="cpu", weights_only=True)',
    has_states=True,
    damaged_record=damaged_record,
)
TENSORS_ONLY: Final = replace(
    TORCH,
    write=partial(_write, tensors_only=True),
    write_compressed=partial(_write, compressed=True, tensors_only=True),
    file_nbytes=partial(_file_nbytes, tensors_only=True),
    data_nbytes=partial(_data_nbytes, tensors_only=True),
)
"""Writes torch files with nothing but tensors, which torch.load accepts with weights_only=True."""
