"""The file formats that the program reads and writes. A new one is a module and a line here."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

FORMATS: tuple[FileFormat, ...] = (SAFETENSORS, TORCH)
"""In order of preference: the first one that recognizes a file opens it."""


def known_suffixes() -> list[str]:
    """Return the suffixes of all formats."""
    return [suffix for file_format in FORMATS for suffix in file_format.suffixes]


def recognized(start: bytes, file: BinaryIO) -> FileFormat | None:
    """Return the format of a file by its content, of which `start` are the first bytes."""
    return next((each for each in FORMATS if each.recognizes(start, file)), None)


def format_named(name: str) -> FileFormat:
    """Return the format with a name, such as `Checkpoint.format`.

    Raises:
        KeyError: there is no such format.
    """
    return {each.name: each for each in FORMATS}[name]


def format_by_suffix(path: Path) -> FileFormat | None:
    """Return the format that the suffix of a file means, or None."""
    return next((each for each in FORMATS if path.suffix.lower() in each.suffixes), None)


def format_to_write(out: Path) -> FileFormat:
    """Return the format that the suffix of an output file selects.

    Raises:
        CheckpointError: the suffix is not that of a checkpoint.
    """
    file_format = format_by_suffix(out)
    if file_format is None:
        raise CheckpointError(
            tr(
                "{name} has no suffix of a known format. Use one of {suffixes}.",
                name=out.name,
                suffixes=", ".join(known_suffixes()),
            )
        )
    return file_format
