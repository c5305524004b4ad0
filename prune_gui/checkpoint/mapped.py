"""Reading files that store tensors as plain bytes: values are memory-mapped on demand."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from prune_gui.checkpoint.base import Read, Surroundings
from prune_gui.checkpoint.file_checkpoint import FileCheckpoint
from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.source import BUFFER_BYTES, Source
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

if TYPE_CHECKING:
    import torch


MAX_CACHED_MAPPINGS: Final = 2
"""Spans that stay mapped, because mapping a span takes longer than reading its cached pages."""
SMALL_TENSOR_BYTES: Final = 1 << 18
"""Tensors up to this size share a mapping with the tensors near them."""
WINDOW_BYTES: Final = 1 << 24
"""Distance between the starts of two shared mappings; a multiple of every page size."""

ReadBytes = Callable[[int, int, int], "torch.Tensor"]
"""A function of start, stop and alignment in bytes that returns this span of the file as uint8."""


class Header(NamedTuple):
    """The content of a header.

    Attributes:
        tensors: the tensors by key, in the order of the header.
        spans: the bytes of each tensor in the file, as (start, stop).
        metadata: the strings that the header carries.
        remarks: remarks on the file for the user, one sentence each.
    """

    tensors: dict[str, RawTensor]
    spans: dict[str, tuple[int, int]]
    metadata: dict[str, str]
    remarks: tuple[str, ...] = ()


class MappedCheckpoint(FileCheckpoint):
    """A file with a header and the plain bytes of the tensors.

    `read_key` maps the span of a tensor copy-on-write: the system loads pages when they are first
    accessed, a write never reaches the file, and the mapping ends with the tensor. `view_key` keeps
    the last mappings. The file stays open, so that it is readable after another file replaces it.
    """

    def __init__(self, source: Source, header: Header, surroundings: Surroundings) -> None:
        """Take the checked content of the header."""
        self.source = source
        self._cached_bytes = lru_cache(MAX_CACHED_MAPPINGS)(self._aligned_bytes)
        self._spans = header.spans
        remarks = header.remarks
        if not header.tensors:
            remarks = (*remarks, tr("{name} holds no tensors.", name=source.path.name))
        super().__init__(
            source.path,
            header.tensors,
            header.metadata,
            remarks,
            surroundings=surroundings,
        )

    @staticmethod
    @abstractmethod
    def _spans_in(file: BinaryIO, size: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Return the bytes of each tensor from the header of a file; `name` is for messages."""

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor; one of a packed dtype, which torch does not have, as flat uint8."""
        return self._tensor(key, self._aligned_bytes)

    def view_key(self, key: str) -> torch.Tensor:
        """Return the tensor that `read_key` returns, possibly in memory of another view."""
        return self._tensor(key, self._viewed_bytes)

    def view_key_span(self, key: str, start: int, stop: int) -> torch.Tensor:
        """Return a span of a flat tensor; see `Checkpoint.view_key_span`."""
        if self.source.maps_neighbours:
            return super().view_key_span(key, start, stop)
        first, _ = self._span(key)
        self.source.check()
        itemsize = self._torch_dtype(key).itemsize
        span = first + start * itemsize, first + stop * itemsize
        return self._flat(key, *span, self._aligned_bytes)

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        """Return the bytes to fetch before these tensors can be read."""
        return self.source.missing_nbytes(self._spans[key] for key in keys)

    def _viewed_bytes(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return the bytes of a span; those of a small span are part of a shared mapping."""
        if stop - start > SMALL_TENSOR_BYTES or not self.source.maps_neighbours:
            return self._cached_bytes(start, stop, alignment)
        first = start - start % WINDOW_BYTES
        last = min(first + WINDOW_BYTES + SMALL_TENSOR_BYTES, self.source.size)
        flat = self._cached_bytes(first, last, 1)[start - first : stop - first]
        return flat.clone() if start % alignment else flat

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return flat tensors; those that are adjacent in the file are returned as one."""
        self.source.check()
        spans: list[tuple[str, int, int]] = []
        for key in keys:
            start, stop = self._span(key)
            if (
                spans
                and spans[-1][2] == start
                and self.raw[spans[-1][0]].dtype == self.raw[key].dtype
            ):
                spans[-1] = (*spans[-1][:2], stop)
            else:
                spans.append((key, start, stop))
        return [self._flat(*span, self._viewed_bytes) for span in spans]

    def _tensor(self, key: str, read_bytes: ReadBytes) -> torch.Tensor:
        start, stop = self._span(key)
        self.source.check()
        flat, raw = self._flat(key, start, stop, read_bytes), self.raw[key]
        return flat if raw.dtype in PACKED_DTYPES else flat.reshape(raw.shape)

    def _span(self, key: str) -> tuple[int, int]:
        span = self._spans.get(key)
        if span is None:
            raise CheckpointError(tr("{file} has no tensor {key!r}.", file=self.path.name, key=key))
        return span

    def _flat(self, key: str, start: int, stop: int, read_bytes: ReadBytes) -> torch.Tensor:
        """Return a span of the file as a flat tensor with the dtype of the tensor at `key`."""
        dtype = self._torch_dtype(key)
        return read_bytes(start, stop, dtype.itemsize).view(dtype)

    def _torch_dtype(self, key: str) -> torch.dtype:
        """Return the dtype in which a tensor is read: uint8 for a packed one."""
        import torch  # slow to import

        raw = self.raw[key]
        packed = raw.dtype in PACKED_DTYPES
        dtype: torch.dtype | None = torch.uint8 if packed else getattr(torch, raw.dtype, None)
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
        return dtype

    def _aligned_bytes(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return a span of the file as flat uint8: its mapping, or a copy if that is unaligned."""
        flat = self.source.pages(start, stop)
        # Compiled loops may rely on the alignment.
        return flat.clone() if start % alignment else flat

    @contextmanager
    def stored_reader(self) -> Iterator[Read]:
        """Yield a function that reads the file as a stream instead of through mapped pages.

        A failing disk ends a process that accesses a mapped page; a plain read raises OSError.
        See `Checkpoint.stored_reader`. Two buffers alternate.
        """
        buffers = cycle([memoryview(bytearray(BUFFER_BYTES)) for _ in range(2)])
        with self.source.open_again() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            spans = self._spans_in(file, size, self.path.name)
            yield lambda key: _stored_bytes(file, *spans[key], buffers)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        super().close()
        self._cached_bytes.cache_clear()


def _stored_bytes(
    file: BinaryIO, start: int, stop: int, buffers: Iterator[memoryview]
) -> Iterator[memoryview]:
    file.seek(start)
    while start < stop:
        buffer = next(buffers)[: stop - start]
        if file.readinto(buffer) < len(buffer):  # type: ignore[attr-defined]
            raise OSError(errno.EIO, tr("the file ended early"))
        start += len(buffer)
        yield buffer
