"""Files whose tensors are spans of bytes: reading them, and copies with other values in them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint.base import Checkpoint, FileCheckpoint, Read, Surroundings
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source, byte_chunks
from prune_gui.checkpoint.tensor_info import (
    ELEMENT_BITS,
    MAX_DIMS,
    PACKED_DTYPES,
    RawTensor,
    size_in_bytes,
)
from prune_gui.checkpoint.write.content import FileContent
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.memory import address_space_is_limited
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch

MAX_CACHED_MAPPINGS: Final = 1 << 13
"""Spans of a local file that stay mapped: every later pass finds their pages in the page table."""
MAX_CACHED_COPIES: Final = 2
"""The same for spans that are copied because they are not aligned, or fetched, and for all spans in
a process whose address space is limited."""
SMALL_TENSOR_BYTES: Final = 1 << 18
"""Tensors up to this size share a mapping with the tensors near them."""
WINDOW_BYTES: Final = 1 << 24
"""Distance between the starts of two shared mappings; a multiple of every page size."""
NUMPY_DTYPES: Final = {
    "<f8": "float64",
    "<f4": "float32",
    "<f2": "float16",
    "<c8": "complex64",
    "<c16": "complex128",
    "<i8": "int64",
    "<i4": "int32",
    "<i2": "int16",
    "|i1": "int8",
    "<u8": "uint64",
    "<u4": "uint32",
    "<u2": "uint16",
    "|u1": "uint8",
    "|b1": "bool",
}
"""torch's names of NumPy's dtypes, by their `str`."""

SIZE_LIMIT: Final = 1 << 63
"""Sizes, sizes of tensors in bits, and strides of tensors without elements stay below this: torch
counts in signed 64-bit integers."""

Span = tuple[int, int]
"""Bytes of a file, as (start, stop)."""
ReadBytes = Callable[[int, int, int], "torch.Tensor"]
"""A function of start, stop and alignment in bytes that returns this span of the file as uint8."""


class SpanTensor(NamedTuple):
    """A tensor, and the spans of its bytes: little-endian, in row-major order.

    There are none for values that cannot be used as they are.
    """

    raw: RawTensor
    spans: tuple[Span, ...] = ()


class Header(NamedTuple):
    """What a file says of its tensors, by key and in the order of the file."""

    tensors: Mapping[str, SpanTensor]
    metadata: Mapping[str, str] = MappingProxyType({})
    remarks: tuple[str, ...] = ()


class MappedCheckpoint(FileCheckpoint):
    """A file whose tensors are spans of bytes.

    `read_key` maps a span copy-on-write: the system loads pages when they are first accessed, a
    write never reaches the file, and the mapping ends with the tensor. `view_key` keeps the last
    mappings. Tensors of a packed dtype, which torch does not have, are read as flat uint8.
    """

    def __init__(self, source: Source, header: Header, surroundings: Surroundings) -> None:
        self.source = source
        self.spans = {key: tensor.spans for key, tensor in header.tensors.items()}
        self._keeps_mappings = source.maps_neighbours and not address_space_is_limited()
        mappings = MAX_CACHED_MAPPINGS if self._keeps_mappings else MAX_CACHED_COPIES
        self._cached_pages = lru_cache(mappings)(source.pages)
        self._cached_copies = lru_cache(MAX_CACHED_COPIES)(self._aligned_bytes)
        raw = {key: tensor.raw for key, tensor in header.tensors.items()}
        remarks = header.remarks
        if not raw:
            remarks += (tr("{name} holds no tensors.", name=source.path.name),)
        super().__init__(source.path, raw, header.metadata, remarks, surroundings=surroundings)

    def read_key(self, key: str) -> torch.Tensor:
        return self._tensor(key, self._aligned_bytes)

    def view_key(self, key: str) -> torch.Tensor:
        return self._tensor(key, self._viewed_bytes)

    def view_key_span(self, key: str, start: int, stop: int) -> torch.Tensor:
        dtype = self._torch_dtype(key)
        if self.source.maps_neighbours or len(self.spans[key]) != 1:
            return super().view_key_span(key, start, stop)
        self._check([key])
        first = self.spans[key][0][0]
        span = first + start * dtype.itemsize, first + stop * dtype.itemsize
        return self._aligned_bytes(*span, dtype.itemsize).view(dtype)

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        if any(len(self.spans.get(key, ())) != 1 for key in keys):
            return super().view_keys(keys)
        self._check(keys)
        runs: list[tuple[str, int, int]] = []
        for key in keys:
            ((start, stop),) = self.spans[key]
            if runs and runs[-1][2] == start and self.raw[runs[-1][0]].dtype == self.raw[key].dtype:
                runs[-1] = (*runs[-1][:2], stop)
            else:
                runs.append((key, start, stop))
        dtypes = [self._torch_dtype(key) for key, _, _ in runs]
        return [
            self._viewed_bytes(start, stop, dtype.itemsize).view(dtype)
            for (_, start, stop), dtype in zip(runs, dtypes, strict=True)
        ]

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        return self.source.missing_nbytes(span for key in keys for span in self.spans[key])

    @contextmanager
    def stored_reader(self) -> Iterator[Read]:
        # A failing disk ends a process that accesses a mapped page; a plain read raises OSError.
        yield lambda key: (
            memoryview(chunk) for span in self.spans[key] for chunk in self.source.chunks(*span)
        )

    def fingerprint(self, monitor: Monitor) -> str:
        return self.source.fingerprint(monitor, self._all_chunks())

    def _all_chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file; of large tensors without a copy, in the pages of views.

        Where torch is not imported, nothing is viewed, and its import would take longer.
        """
        copies = not self._keeps_mappings or "torch" not in sys.modules
        position = 0
        for start, stop in sorted(span for spans in self.spans.values() for span in spans):
            if not copies and start >= position and stop - start > SMALL_TENSOR_BYTES:
                yield from self.source.chunks(position, start)
                yield from byte_chunks(self._cached_pages(start, stop))
                position = stop
        yield from self.source.chunks(position, self.source.size)

    def close(self) -> None:
        super().close()
        self._cached_pages.cache_clear()
        self._cached_copies.cache_clear()

    def _check(self, keys: Sequence[str]) -> None:
        self.source.check()

    def _tensor(self, key: str, read_bytes: ReadBytes) -> torch.Tensor:
        import torch  # slow to import

        self._check([key])
        dtype, raw = self._torch_dtype(key), self.raw[key]
        parts = [read_bytes(*span, dtype.itemsize) for span in self.spans[key]]
        flat = parts[0] if len(parts) == 1 else torch.cat([torch.empty(0).byte(), *parts])
        return flat.view(dtype) if raw.dtype in PACKED_DTYPES else flat.view(dtype).view(raw.shape)

    def _torch_dtype(self, key: str) -> torch.dtype:
        """Return the dtype in which a tensor is read: uint8 for a packed one."""
        import torch  # slow to import

        raw = dense(self, key)
        packed = raw.dtype in PACKED_DTYPES
        dtype: torch.dtype | None = torch.uint8 if packed else getattr(torch, raw.dtype, None)
        if dtype is None:
            raise CheckpointError(
                "{file}: this version of torch ({version}) does not know the dtype {dtype} of "
                "{key!r}. Install a newer one.",
                file=self.path.name,
                version=torch.__version__,
                dtype=raw.dtype,
                key=key,
            )
        return dtype

    def _viewed_bytes(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return the bytes of a span; those of a small one are part of a shared mapping."""
        if stop - start > SMALL_TENSOR_BYTES or not self.source.maps_neighbours:
            if start % alignment:
                return self._cached_copies(start, stop, alignment)
            return self._cached_pages(start, stop)
        first = start - start % WINDOW_BYTES
        last = min(first + WINDOW_BYTES + SMALL_TENSOR_BYTES, self.source.size)
        flat = self._cached_pages(first, last)[start - first : stop - first]
        return flat.clone() if start % alignment else flat

    def _aligned_bytes(self, start: int, stop: int, alignment: int) -> torch.Tensor:
        """Return a span of the file as flat uint8: its mapping, or a copy if that is unaligned."""
        flat = self.source.pages(start, stop)
        # Compiled loops may rely on the alignment.
        return flat.clone() if start % alignment else flat


class SpanCheckpoint(MappedCheckpoint):
    """A file that also holds other values than its tensors."""

    def nbytes_outside(self) -> int:
        return max(0, self.source.size - sum(info.nbytes for info in self.tensors.values()))


def dense(checkpoint: Checkpoint, key: str) -> RawTensor:
    """Return the tensor under a raw key."""
    raw, name = checkpoint.raw.get(key), checkpoint.path.name
    if raw is None:
        raise CheckpointError("{file} has no tensor {key!r}.", file=name, key=key)
    if raw.special is not None:
        raise CheckpointError(
            "{file}: the values of {key!r} ({special}) are not read. Open them with the "
            "program that made the file.",
            file=name,
            key=key,
            special=tr(raw.special),
        )
    return raw


def checked_nbytes(key: str, shape: Sequence[object], dtype: str) -> int:
    """Return the bytes of a tensor whose shape a file declares."""
    sizes = tuple(size for size in shape if type(size) is int and size >= 0)
    is_possible = len(sizes) == len(shape) <= MAX_DIMS
    if not is_possible or math.prod(filter(None, sizes)) * ELEMENT_BITS[dtype] >= SIZE_LIMIT:
        raise FalseClaimError("{key!r} has an impossible shape", key=key)
    return size_in_bytes(sizes, dtype)


def check_spans(tensors: Mapping[str, SpanTensor], size: int) -> None:
    """Check that spans are in a file of `size` bytes, and in order without overlap unless equal."""
    end = 0
    by_spans = {tensor.spans: key for key, tensor in tensors.items()}
    for spans, key in sorted(by_spans.items()):
        for start, stop in spans:
            if not end <= start <= stop <= size:
                raise FalseClaimError(
                    "the values of {key!r} are not where they are declared to be", key=key
                )
            end = stop


def dotted(paths: Sequence[str]) -> str:
    """Return what separates the components in the names that are shown for paths with slashes.

    Dots make a tree of modules. Paths that contain dots themselves stay as they are.
    """
    return "/" if any("." in path for path in paths) else "."


def in_place(content: FileContent, name: str) -> SpanCheckpoint:
    """Return the template if a copy of its file can hold the tensors."""
    template = content.template
    if isinstance(template, SpanCheckpoint) and template.format == name:
        old = {key: (raw.dtype, raw.shape) for key, raw in template.raw.items()}
        if all(
            old.get(writer.key) == (writer.tensor.dtype, writer.tensor.shape)
            for writer in content.writers
        ):
            return template
    raise CheckpointError(
        "A {format} file is only written as the finalized form of a file of the same format. "
        "Save as .safetensors or .npz instead.",
        format=name,
    )


def copy_chunks(
    template: SpanCheckpoint,
    content: FileContent,
    span: Span,
    checksums: dict[str, int],
    monitor: Monitor,
) -> Iterator[memoryview]:
    """Yield a span of the file of `template`, with new values in place of the old.

    At the end, adds the CRC-32 of each tensor to `checksums`, by key.
    """
    position, end = span
    monitor.expect(end - position)
    tensors = {template.spans[writer.key]: writer.tensor for writer in content.writers}
    by_spans: dict[tuple[Span, ...], int] = {}

    def copied(stop: int) -> Iterator[memoryview]:
        for chunk in template.source.chunks(position, stop):
            yield memoryview(chunk)
            monitor.advance(len(chunk))

    for spans, tensor in sorted(tensors.items(), key=itemgetter(0)):
        octets = tensor.byte_chunks()
        rest = memoryview(b"")
        checksum = 0
        for start, stop in spans:
            yield from copied(start)
            position = start
            while position < stop:
                rest = rest or next(octets)
                chunk, rest = rest[: stop - position], rest[stop - position :]
                checksum = crc32(chunk, checksum)
                position += len(chunk)
                yield chunk
                monitor.advance(len(chunk))
        by_spans[spans] = checksum
    yield from copied(end)
    checksums |= {writer.key: by_spans[template.spans[writer.key]] for writer in content.writers}
