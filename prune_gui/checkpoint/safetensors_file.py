"""Reading safetensors files: the header at once, values mapped when asked for."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.safetensors_header import read_header
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.errors import CheckpointError

if TYPE_CHECKING:
    import torch


class SafetensorsCheckpoint(Checkpoint):
    """A safetensors file.

    Each tensor read is a copy-on-write mapping of its own part of the file: nothing is loaded
    before it is looked at, a write never reaches the file, and the pages go when the tensor goes.
    The file stays open, so that it can be read on even after another one took its place.
    """

    format: Literal["safetensors"] = "safetensors"

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._state = _state(self._file.fileno())
            tensors, self._spans, metadata = read_header(self._file, self._state[0], path.name)
            remarks = () if tensors else (f"{path.name} holds no tensors.",)
            super().__init__(path, tensors, metadata, remarks)
        except BaseException:
            self._file.close()
            raise

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor; entries of 4 or 6 bits, which torch cannot address, as flat uint8."""
        import torch

        raw = self.raw.get(key)
        if raw is None:
            raise CheckpointError(f"{self.path.name} has no tensor {key!r}.")
        start, stop = self._spans[key]
        if raw.dtype in PACKED_DTYPES:
            return self._bytes(start, stop)
        dtype = getattr(torch, raw.dtype, None)
        if dtype is None:
            raise CheckpointError(
                f"{self.path.name}: this version of torch ({torch.__version__}) does not know the "
                f"dtype {raw.dtype} of {key!r}. Install a newer one."
            )
        flat = self._bytes(start, stop)
        if start % dtype.itemsize:
            flat = flat.clone()  # kernels may rely on aligned entries, which a copy has
        return flat.view(dtype).reshape(raw.shape)

    def _bytes(self, start: int, stop: int) -> torch.Tensor:
        """Return a span of the file as a flat uint8 tensor."""
        import torch

        if self._file.closed:
            raise CheckpointError(f"{self.path.name} is closed. Open it again.")
        if _state(self._file.fileno()) != self._state:
            raise CheckpointError(
                f"{self.path.name} was changed by another program since it was opened. "
                "Open it again."
            )
        if start == stop:
            return torch.empty(0, dtype=torch.uint8)
        page_start = start - start % mmap.ALLOCATIONGRANULARITY
        try:
            pages = mmap.mmap(
                self._file.fileno(),
                stop - page_start,
                offset=page_start,
                access=mmap.ACCESS_COPY,
            )
        except OSError as error:
            raise CheckpointError(
                f"{self.path.name} cannot be mapped into memory: {error.strerror}."
            ) from error
        return torch.frombuffer(
            pages, dtype=torch.uint8, count=stop - start, offset=start - page_start
        )

    def close(self) -> None:
        """Close the file; tensors that were read keep their pages."""
        self._file.close()


def _state(descriptor: int) -> tuple[int, int]:
    """Return size and time of the last change of an open file."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
