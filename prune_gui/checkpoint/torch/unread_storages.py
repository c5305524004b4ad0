"""The storages of an archive whose values are read when they are needed, as of a remote file."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Final

import torch

from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.claims import extent
from prune_gui.checkpoint.torch.storages import ZipStorages
from prune_gui.checkpoint.torch.zip_layout import Record, TorchLayout

MAX_CACHED_MAPPINGS: Final = 2
"""Spans that stay mapped, because a tensor is read chunk by chunk."""


class UnreadStorages(ZipStorages):
    """Storages of which uncompressed records are zeros, which the system does not allocate.

    Tensors in them stand for those that `read` returns. Other records are read at once.

    Args:
        swapped: whether the values are in the other byte order.
    """

    have_values = False

    def __init__(self, source: Source, layout: TorchLayout, *, swapped: bool) -> None:
        super().__init__(source, layout, swapped=swapped)
        self._cached_pages = lru_cache(MAX_CACHED_MAPPINGS)(source.pages)
        self._unread: list[tuple[int, torch.UntypedStorage, Record]] = []

    def fill(self) -> None:
        """Read the records that are not mapped; see `FileStorages.fill`."""
        super().fill()
        self._unread.sort(key=_address)

    def read(self, tensor: torch.Tensor, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Return the strided tensor that another one stands for, or the same one if none."""
        span = self.span(tensor)
        if span is None:
            return tensor if stop is None else tensor.reshape(-1)[start:stop]
        shape, strides = tensor.shape, tensor.stride()
        if stop is not None:
            first = span[0] + start * tensor.itemsize
            span = first, first + (stop - start) * tensor.itemsize
            shape, strides = torch.Size((stop - start,)), (1,)
        read_pages = self._cached_pages if stop is None else self._source.pages
        octets = read_pages(*span)
        if octets.data_ptr() % tensor.itemsize:
            octets = octets.clone()
        values = octets.view(tensor.dtype).as_strided(shape, strides)
        values = values.conj() if tensor.is_conj() else values
        return values.neg() if tensor.is_neg() else values

    def span(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """Return the bytes of the file from the first element of a tensor to its last.

        Returns:
            (start, stop); None if its values are in memory, or if it has none.
        """
        address = tensor.data_ptr()
        index = bisect_right(self._unread, address, key=_address) - 1
        if index < 0 or not tensor.numel():
            return None
        first, storage, record = self._unread[index]
        if address >= first + storage.nbytes():
            return None
        start = record.start + address - first
        return start, start + extent(tensor.shape, tensor.stride()) * tensor.itemsize

    def forget_pages(self) -> None:
        """Release the mappings of what was read last."""
        self._cached_pages.cache_clear()

    def _is_mapped(self, record: Record, _dtype: torch.dtype) -> bool:
        return record.stored and not self._swapped

    def _mapped(self, record: Record) -> torch.UntypedStorage:
        values = self._zeros(record.nbytes)
        self._unread.append((values.data_ptr(), values, record))
        return values


def _address(unread: tuple[int, torch.UntypedStorage, Record]) -> int:
    return unread[0]
