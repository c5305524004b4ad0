"""Reading safetensors files: the header at once, values mapped when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from prune_gui.checkpoint.safetensors.header import read_header
from prune_gui.checkpoint.single_file import FileCheckpoint
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

if TYPE_CHECKING:
    import torch


VIEWED: Final = 2
"""How many spans stay mapped: to map one anew takes longer than to look at all of it again."""
SMALL: Final = 1 << 18
"""Bytes of a tensor up to which it is viewed through a span of the file that holds many."""
WINDOW: Final = 1 << 24
"""Bytes from the start of such a span to that of the next; a multiple of every page size."""


Pages = Callable[[int, int, int], "torch.Tensor"]
"""From the start and the stop of a part of the file, and an alignment, to its bytes."""


class SafetensorsCheckpoint(FileCheckpoint):
    """A safetensors file.

    Each tensor read is a copy-on-write mapping of its own part of the file: nothing is loaded
    before it is looked at, a write never reaches the file, and the pages go when the tensor goes.
    What was viewed last stays mapped. The file stays open, so that it can be read on even
    after another one took its place.
    """

    format: Literal["safetensors"] = "safetensors"

    def __init__(self, source: Source) -> None:
        """Read and check the header."""
        self.source = source
        self._view = lru_cache(VIEWED)(self._aligned)
        name = source.path.name
        source.file.seek(0)
        tensors, self._spans, metadata = read_header(source.file, source.size, name)
        remarks = () if tensors else (tr("{name} holds no tensors.", name=name),)
        super().__init__(source.path, tensors, metadata, remarks)

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor; entries of 4 or 6 bits, which torch cannot address, as flat uint8."""
        return self._tensor(key, self._aligned)

    def view_key(self, key: str) -> torch.Tensor:
        """Return what `read_key` does, perhaps the pages that another view has."""
        return self._tensor(key, self._window)

    def _window(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return what `_aligned` does; of a small span, a part of what others near it share."""
        if stop - start > SMALL:
            return self._view(start, stop, alignment)
        first = start - start % WINDOW
        pages = self._view(first, min(first + WINDOW + SMALL, self.source.size), 1)
        flat = pages[start - first : stop - first]
        return flat.clone() if start % alignment else flat

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return flat tensors; those that touch each other in the file come as one."""
        self.source.check()
        runs: list[tuple[str, int, int]] = []
        for key in keys:
            start, stop = self._span(key)
            if runs and runs[-1][2] == start and self.raw[runs[-1][0]].dtype == self.raw[key].dtype:
                runs[-1] = (*runs[-1][:2], stop)
            else:
                runs.append((key, start, stop))
        return [self._flat(*run, self._window) for run in runs]

    def _tensor(self, key: str, pages: Pages) -> torch.Tensor:
        start, stop = self._span(key)
        self.source.check()
        flat, raw = self._flat(key, start, stop, pages), self.raw[key]
        return flat if raw.dtype in PACKED_DTYPES else flat.reshape(raw.shape)

    def _span(self, key: str) -> tuple[int, int]:
        span = self._spans.get(key)
        if span is None:
            raise CheckpointError(tr("{file} has no tensor {key!r}.", file=self.path.name, key=key))
        return span

    def _flat(self, key: str, start: int, stop: int, pages: Pages) -> torch.Tensor:
        """Return a part of the file as entries of the type of a tensor."""
        import torch

        raw = self.raw[key]
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
        flat = pages(start, stop, dtype.itemsize)
        return flat if packed else flat.view(dtype)

    def _aligned(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return a span of the file as a flat uint8 tensor: its pages, or a copy to be aligned."""
        flat = self.source.pages(start, stop)
        return flat.clone() if start % alignment else flat  # compiled loops may rely on it

    def close(self) -> None:
        """Close the file; tensors that were read keep their pages."""
        super().close()
        self._view.cache_clear()
