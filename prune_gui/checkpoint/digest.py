"""Long runs of bytes, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

PIECE_BYTES: Final = 4 << 20
"""Work between two looks at the monitor, so that Cancel is quick."""


def pieces(flat: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a flat contiguous CPU tensor a few megabytes at a time, uncopied."""
    import torch

    octets = flat.detach().view(torch.uint8).numpy().data
    for start in range(0, len(octets), PIECE_BYTES):
        yield octets[start : start + PIECE_BYTES]
