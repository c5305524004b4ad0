"""Long runs of bytes, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

PIECE_BYTES: Final = 4 << 20
"""Work between two looks at the monitor, so that Cancel is quick."""


def byte_chunks(flat: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a flat CPU tensor a few megabytes at a time, uncopied where contiguous."""
    import torch

    for part in torch.split(flat.detach(), PIECE_BYTES // flat.itemsize):
        yield part.contiguous().view(torch.uint8).numpy().data
