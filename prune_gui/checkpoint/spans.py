"""Files whose tensors are spans of bytes, and copies of them with other values in these spans."""

from __future__ import annotations

import errno
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prune_gui.checkpoint.base import Checkpoint, Surroundings
from prune_gui.checkpoint.byte_chunks import CHUNK_BYTES
from prune_gui.checkpoint.file_checkpoint import FileCheckpoint
from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, MAX_DIMS, size_in_bytes
from prune_gui.checkpoint.write.entries import KeyedWriter
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch

Span = tuple[int, int]
"""Bytes of a file, as (start, stop)."""


class SpanTensor(NamedTuple):
    """A tensor, and the bytes of its values: little-endian, in row-major order.

    Attributes:
        raw: the tensor.
        spans: the spans of its bytes, in order; () for a special tensor.
    """

    raw: RawTensor
    spans: tuple[Span, ...] = ()


class SpanCheckpoint(FileCheckpoint):
    """A file whose tensors are spans of bytes, which `read_key` maps.

    Attributes:
        spans: the spans of each tensor by key.
    """

    def __init__(
        self,
        source: Source,
        tensors: Mapping[str, SpanTensor],
        metadata: Mapping[str, str],
        surroundings: Surroundings,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.source = source
        self.spans = {key: tensor.spans for key, tensor in tensors.items()}
        raw = {key: tensor.raw for key, tensor in tensors.items()}
        if not tensors:
            warnings += (tr("{name} holds no tensors.", name=source.path.name),)
        super().__init__(source.path, raw, metadata, warnings, surroundings=surroundings)

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor, memory-mapped if it is one aligned span."""
        import torch  # slow to import

        raw = dense(self, key)
        self.source.check()
        dtype: torch.dtype = getattr(torch, raw.dtype)
        pages = [self.source.pages(start, stop) for start, stop in self.spans[key]]
        flat = pages[0] if len(pages) == 1 else torch.cat([torch.empty(0).byte(), *pages])
        if flat.data_ptr() % dtype.itemsize:
            flat = flat.clone()
        return flat.view(dtype).reshape(raw.shape)

    def nbytes_outside(self) -> int:
        """Return the bytes that are not values of its tensors; see `Checkpoint.nbytes_outside`."""
        return max(0, self.source.size - sum(info.nbytes for info in self.tensors.values()))


def dense(checkpoint: Checkpoint, key: str) -> RawTensor:
    """Return the tensor under a raw key."""
    raw, name = checkpoint.raw.get(key), checkpoint.path.name
    if raw is None:
        raise CheckpointError(tr("{file} has no tensor {key!r}.", file=name, key=key))
    if raw.special is not None:
        raise CheckpointError(
            tr(
                "{file}: the values of {key!r} ({special}) are not read. Open them with the "
                "program that made the file.",
                file=name,
                key=key,
                special=tr(raw.special),
            )
        )
    return raw


def checked_nbytes(key: str, shape: Sequence[object], dtype: str) -> int:
    """Return the bytes of a tensor."""
    sizes = [size for size in shape if type(size) is int and size >= 0]
    if (
        len(sizes) < len(shape)
        or len(sizes) > MAX_DIMS
        or math.prod(filter(None, sizes)) * ELEMENT_BITS[dtype] >= 1 << 63
    ):
        raise FalseClaimError("{key!r} has an impossible shape", key=key)
    return size_in_bytes(tuple(sizes), dtype)


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


def invalid_file(path: Path, claim: FalseClaimError, program: str) -> CheckpointError:
    """Return the message that refuses a damaged file; `program` could write it again."""
    return CheckpointError(
        tr(
            "{name} cannot be opened: {problem}. Download the file again, or save it again with "
            "{program}.",
            name=path.name,
            problem=tr(claim.claim),
            program=program,
        )
    )


def in_place(
    writers: Sequence[KeyedWriter], template: Checkpoint | None, name: str
) -> SpanCheckpoint:
    """Return the template if a copy of its file can hold the tensors."""
    if isinstance(template, SpanCheckpoint) and template.format == name:
        raw = [template.raw.get(writer.key) for writer in writers]
        tensors = [RawTensor(writer.tensor.shape, writer.tensor.dtype) for writer in writers]
        if all(
            old is not None and (old.shape, old.dtype) == (new.shape, new.dtype)
            for old, new in zip(raw, tensors, strict=True)
        ):
            return template
    raise CheckpointError(
        tr(
            "A {format} file is only written as the finalized form of a file of the same format. "
            "Save as .safetensors or .npz instead.",
            format=name,
        )
    )


def copy_chunks(
    template: SpanCheckpoint,
    writers: Sequence[KeyedWriter],
    span: Span,
    checksums: dict[str, int],
    monitor: Monitor,
) -> Iterator[memoryview]:
    """Yield a span of the file of `template`, with the values of `writers` in place of the old.

    At the end, adds the CRC-32 of each tensor to `checksums`, by key.
    """
    position, end = span
    monitor.expect(end - position)
    tensors = {template.spans[writer.key]: writer.tensor for writer in writers}
    by_spans: dict[tuple[Span, ...], int] = {}
    for spans, tensor in sorted(tensors.items(), key=itemgetter(0)):
        octets = tensor.byte_chunks()
        rest = memoryview(b"")
        checksum = 0
        for start, stop in spans:
            yield from _copied(template.source, position, start, monitor)
            position = start
            while position < stop:
                rest = rest or next(octets)
                chunk, rest = rest[: stop - position], rest[stop - position :]
                checksum = zlib.crc32(chunk, checksum)
                position += len(chunk)
                yield chunk
                monitor.advance(len(chunk))
        by_spans[spans] = checksum
    yield from _copied(template.source, position, end, monitor)
    checksums |= {writer.key: by_spans[template.spans[writer.key]] for writer in writers}


def _copied(source: Source, start: int, stop: int, monitor: Monitor) -> Iterator[memoryview]:
    """Yield the bytes of a file between two positions."""
    while start < stop:
        source.check()
        chunk = source.read_at(min(stop - start, CHUNK_BYTES), start)
        if not chunk:
            raise OSError(errno.EIO, tr("the file ended early"))
        start += len(chunk)
        yield memoryview(chunk)
        monitor.advance(len(chunk))
