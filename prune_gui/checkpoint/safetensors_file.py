"""Reading safetensors files: the header at once, values mapped when asked for."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.safetensors_header import read_header
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch


VIEWED: Final = 2
"""How many tensors stay mapped: to map one anew takes longer than to look at all of it again."""


class SafetensorsCheckpoint(Checkpoint):
    """A safetensors file.

    Each tensor read is a copy-on-write mapping of its own part of the file: nothing is loaded
    before it is looked at, a write never reaches the file, and the pages go when the tensor goes.
    The last few that were viewed stay mapped. The file stays open, so that it can be read on even
    after another one took its place.
    """

    format: Literal["safetensors"] = "safetensors"

    def __init__(self, path: Path) -> None:
        self.source = Source(path)
        self._view = lru_cache(VIEWED)(partial(_map, self.source.file))
        try:
            tensors, self._spans, metadata = read_header(
                self.source.file, self.source.size, path.name
            )
            remarks = () if tensors else (tr("{name} holds no tensors.", name=path.name),)
            super().__init__(path, tensors, metadata, remarks)
        except BaseException:
            self.source.close()
            raise

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor; entries of 4 or 6 bits, which torch cannot address, as flat uint8."""
        return self._tensor(key, partial(_map, self.source.file))

    def view_key(self, key: str) -> torch.Tensor:
        """Return what `read_key` does, perhaps the pages that another view has."""
        return self._tensor(key, self._view)

    def _tensor(self, key: str, span: Callable[[int, int, int], torch.Tensor]) -> torch.Tensor:
        """Return a tensor; `span` gives the bytes of a part of the file, aligned as told."""
        import torch

        raw = self.raw.get(key)
        if raw is None:
            raise CheckpointError(tr("{file} has no tensor {key!r}.", file=self.path.name, key=key))
        self.source.check()
        packed = raw.dtype in PACKED_DTYPES
        dtype = torch.uint8 if packed else getattr(torch, raw.dtype, None)
        if dtype is None:
            raise CheckpointError(
                tr(
                    "{file}: this version of torch ({version}) does not know the dtype {dtype} of "
                    "{key!r}. Install a newer one.",
                    file=self.path.name,
                    version=torch.__version__,
                    dtype=raw.dtype,
                    key=key,
                )
            )
        try:
            flat = span(*self._spans[key], dtype.itemsize)
        except OSError as error:
            raise CheckpointError(
                tr(
                    "{file} cannot be mapped into memory: {reason}.",
                    file=self.path.name,
                    reason=error.strerror,
                )
            ) from error
        return flat if packed else flat.view(dtype).reshape(raw.shape)

    def check(self) -> None:
        """Check that the file is as it was; see `Checkpoint.check`."""
        self.source.check()

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file; see `Checkpoint.fingerprint`."""
        return self.source.fingerprint(monitor)

    def close(self) -> None:
        """Close the file; tensors that were read keep their pages."""
        self.source.close()
        self._view.cache_clear()


def _map(file: BinaryIO, start: int, stop: int, alignment: int) -> torch.Tensor:
    """Return a span of a file as a flat uint8 tensor: its pages, or a copy to be aligned."""
    import torch

    if start == stop:
        return torch.empty(0, dtype=torch.uint8)
    page_start = start - start % mmap.ALLOCATIONGRANULARITY
    pages = mmap.mmap(file.fileno(), stop - page_start, offset=page_start, access=mmap.ACCESS_COPY)
    flat = torch.frombuffer(pages, dtype=torch.uint8, count=stop - start, offset=start - page_start)
    return flat.clone() if start % alignment else flat  # compiled loops may rely on it
