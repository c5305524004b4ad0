"""Reading safetensors files: the header at opening, values memory-mapped on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

from prune_gui.checkpoint.base import NO_SURROUNDINGS, Surroundings
from prune_gui.checkpoint.mapped import MappedCheckpoint
from prune_gui.checkpoint.safetensors.header import read_header
from prune_gui.checkpoint.source import Source


class SafetensorsCheckpoint(MappedCheckpoint):
    """A safetensors file."""

    format = "safetensors"

    def __init__(self, source: Source, surroundings: Surroundings = NO_SURROUNDINGS) -> None:
        """Read and check the header."""
        source.file.seek(0)
        header = read_header(source.file, source.size, source.path.name)
        super().__init__(source, header, surroundings)

    @staticmethod
    def _spans_in(file: BinaryIO, size: int, name: str) -> Mapping[str, tuple[int, int]]:
        return read_header(file, size, name).spans
