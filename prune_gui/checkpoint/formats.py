"""The file formats that the program reads and writes. A new one is a module and a line here."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.flax.format import FLAX
from prune_gui.checkpoint.gguf.format import GGUF
from prune_gui.checkpoint.keras.format import HDF5, KERAS
from prune_gui.checkpoint.npz.format import NPZ
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.errors import CheckpointError

FORMATS: tuple[FileFormat, ...] = (SAFETENSORS, TORCH, GGUF, NPZ, KERAS, HDF5, FLAX)
"""In order of preference in a folder."""


def known_suffixes() -> list[str]:
    """Return the suffixes of all formats."""
    return [suffix for file_format in FORMATS for suffix in file_format.suffixes]


def recognized(start: bytes, file: BinaryIO) -> FileFormat | None:
    """Return the format of a file by its content, of which `start` are the first bytes."""
    strict_first = sorted(FORMATS, key=attrgetter("recognizes_loosely"))
    return next((each for each in strict_first if each.recognizes(start, file)), None)


def format_named(name: str) -> FileFormat:
    """Return the format with a name, such as `Checkpoint.format`."""
    return {each.name: each for each in FORMATS}[name]


def format_by_suffix(path: Path) -> FileFormat | None:
    """Return the format that the suffix of a file means, or None."""
    return next((each for each in FORMATS if path.suffix.lower() in each.suffixes), None)


def stem_and_suffix(path: Path) -> tuple[str, str]:
    """Return the name of a checkpoint file in two parts; ".pth.tar" is one suffix."""
    inner = Path(path.stem)
    if format_by_suffix(path) is None and format_by_suffix(inner) is not None:
        return inner.stem, inner.suffix + path.suffix
    return path.stem, path.suffix


def format_to_write(out: Path) -> FileFormat:
    """Return the format that the suffix of an output file selects."""
    file_format = format_by_suffix(out)
    if file_format is None:
        raise CheckpointError(
            "{name} has no suffix of a known format. Use one of {suffixes}.",
            name=out.name,
            suffixes=", ".join(known_suffixes()),
        )
    return file_format


def compressing(file_format: FileFormat, out: Path) -> FileFormat:
    """Return a format whose `FileFormat.write` compresses the output file."""
    if file_format.write_compressed is None:
        suffixes = [suffix for each in FORMATS if each.write_compressed for suffix in each.suffixes]
        raise CheckpointError(
            "{name} cannot be compressed: its format has no compression. Save without "
            "compression, or use one of {suffixes}.",
            name=out.name,
            suffixes=", ".join(suffixes),
        )
    return replace(file_format, write=file_format.write_compressed)
