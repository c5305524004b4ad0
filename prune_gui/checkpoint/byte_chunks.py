"""Tensors as chunks of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

CHUNK_BYTES: Final = 4 << 20
"""Bytes processed between two checks for cancellation, so that cancelling is quick."""


def byte_chunks(flat: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a flat CPU tensor in chunks of 4 MiB, without a copy if contiguous."""
    import torch  # slow to import

    for chunk in torch.split(flat.detach(), CHUNK_BYTES // flat.itemsize):
        yield chunk.contiguous().view(torch.uint8).numpy().data
