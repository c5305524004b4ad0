"""What a new file holds: tensors in order, and metadata.

Fingerprints and checksums in the metadata are known only after the values are written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.parameters import MASK_SUFFIX, ORIGINAL_SUFFIX
from prune_gui.checkpoint.source import CHUNK_BYTES, FINGERPRINT_PREFIX, byte_chunks
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES, size_in_bytes
from prune_gui.executor import current_executor
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks

if TYPE_CHECKING:
    import torch


ANY_FINGERPRINT: Final = f"{FINGERPRINT_PREFIX}{'0' * 64}"
"""A fingerprint of the usual length."""
OWN_PREFIX: Final = "prune_gui."
"""Begins the metadata that tell how this program made a file."""
CHECKSUMS_KEY: Final = f"{OWN_PREFIX}crc32"
"""Metadata: a JSON object with the CRC-32 of each tensor's bytes, as eight hexadecimal digits.

CRC-32 detects accidental damage. It is also computed for the comparison with the written file, at
about twice the speed of SHA-256. No digest in the file itself can detect deliberate changes.
"""
CHECKSUM: Final = re.compile(r"[0-9a-f]{8}")
MAX_RECORD_CHARS: Final = 1 << 24
"""The limit for the record: 300,000 tensors with names of 40 characters. Headers have a limit."""


@dataclass(frozen=True, slots=True)
class LateText:
    """A text that is computed while the values are written; the placeholder has as many bytes.

    `result` waits for it, or raises the error of its computation.
    """

    placeholder: str
    result: Callable[[], str]


Metadata = Mapping[str, str | LateText]
"""The texts to write by key."""


@contextmanager
def fingerprint_beside(
    checkpoint: Checkpoint, monitor: Monitor, *, at_once: bool = False
) -> Iterator[str | LateText]:
    """Yield the fingerprint of a checkpoint, which another thread computes during the block.

    It is computed before the block if it is wanted `at_once`, or on an executor, whose workers
    cannot wait for it. The computation is cancelled if the block ends before it.
    """
    if at_once or current_executor() is not None:
        yield checkpoint.fingerprint(monitor)
        return
    left = Event()
    stoppable = monitor.stopped_by(left)

    def fingerprint() -> str:
        with stoppable.in_charge():
            return checkpoint.fingerprint(stoppable)

    with ThreadPoolExecutor(1, "prune-gui-fingerprint") as pool:
        future = pool.submit(fingerprint)
        try:
            yield LateText(ANY_FINGERPRINT, future.result)
        finally:
            left.set()


def with_checksums(
    metadata: Metadata, keys: Iterable[str], checksums: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return metadata with late texts, and with the checksums if it has the key `CHECKSUMS_KEY`.

    Without `checksums`, placeholders and zeros of the same number of bytes are filled in.
    """
    texts: dict[str, str] = {}
    for key, text in metadata.items():
        if isinstance(text, LateText):
            text = text.placeholder if checksums is None else text.result()
        texts[key] = text
    if CHECKSUMS_KEY not in metadata:
        return texts
    digits = {key: f"{checksums[key] if checksums else 0:08x}" for key in keys}
    record = json.dumps(digits, ensure_ascii=False, separators=(",", ":"))
    return {**texts, CHECKSUMS_KEY: record if len(record) <= MAX_RECORD_CHARS else ""}


def checksums_in(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the checksums that metadata records, by key; ValueError if the record is invalid."""
    record = metadata.get(CHECKSUMS_KEY)
    if not record:
        return {}
    try:
        checksums = json.loads(record)
    except RecursionError as error:
        raise ValueError(record) from error
    if not isinstance(checksums, dict) or not all(
        isinstance(digits, str) and CHECKSUM.fullmatch(digits) for digits in checksums.values()
    ):
        raise ValueError(record)
    return {key: int(digits, 16) for key, digits in checksums.items()}


Value = TypeVar("Value")
Spans = Iterable[tuple[int, int]]
"""Spans (start, stop) of a flat tensor, in elements; in bytes if the dtype is packed."""
Values = Callable[[Spans], Iterator["torch.Tensor"]]


@dataclass(frozen=True, slots=True)
class TensorWriter:
    """One tensor to write, also under the aliases if the name is that of a tied parameter.

    Attributes:
        chunks: returns the values as flat CPU tensors of this dtype (uint8 for packed dtypes), in
            row-major order. May be called more than once.
        values: returns the values of any spans in the same way, also on several threads at once;
            None if the whole can only be computed in order.
        moments: tensors of an optimizer in the opened torch file that are replaced together with
            this one, each with what to write in its place.
        keys: all keys in the file, each with the key of the opened file that it replaces, if these
            are not the name and the aliases of the same parameter; the name is the first.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Callable[[], Iterator[torch.Tensor]]
    moments: tuple[tuple[torch.Tensor, TensorWriter], ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    values: Values | None = None

    @classmethod
    def of(
        cls,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        values: Values,
        keys: tuple[tuple[str, str], ...] = (),
    ) -> TensorWriter:
        """Return a tensor whose values can be computed span by span."""
        whole = cls(name, dtype, shape, lambda: iter(()), keys=keys, values=values)
        return replace(whole, chunks=partial(_all_chunks, values, whole.units))

    @property
    def units(self) -> int:
        """The length of the flat tensor that `values` divides; see `Spans`."""
        return self.nbytes if self.dtype in PACKED_DTYPES else math.prod(self.shape)

    def parts(self) -> Iterator[tuple[int, TensorWriter]]:
        """Yield writers of consecutive parts that can be written in any order, and their offsets.

        A part has at most 4 MiB; the offset is in bytes.
        """
        if self.values is None or self.nbytes <= CHUNK_BYTES or self.dtype in PACKED_DTYPES:
            yield 0, self
            return
        itemsize = self.nbytes // self.units
        for start, stop in chunks(self.units, CHUNK_BYTES // itemsize):
            part = partial(self.values, [(start, stop)])
            yield start * itemsize, replace(self, shape=(stop - start,), chunks=part)

    @property
    def replaced(self) -> str:
        """The key of the opened file that the name replaces."""
        return self.keys[0][1] if self.keys else self.name

    @property
    def nbytes(self) -> int:
        """Total bytes of all chunks."""
        return size_in_bytes(self.shape, self.dtype)

    def byte_chunks(self) -> Iterator[memoryview]:
        """Yield the bytes of all chunks, at most 4 MiB at a time."""
        done = 0
        stored = "uint8" if self.dtype in PACKED_DTYPES else self.dtype
        for chunk in self.chunks():
            if str(chunk.dtype) != f"torch.{stored}":
                raise ValueError(f"a chunk of {self.name!r} is {chunk.dtype}, not {stored}")
            for octets in byte_chunks(chunk):
                done += len(octets)
                if done > self.nbytes:
                    break
                yield octets
        if done != self.nbytes:
            raise ValueError(f"the chunks of {self.name!r} do not have {self.nbytes} bytes")

    def checked(self, check: Callable[[], None]) -> TensorWriter:
        """Return a copy that calls `check` before and after each chunk is produced and used."""

        def checked(chunks: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
            check()
            for chunk in chunks:
                check()
                yield chunk
                check()

        values = self.values
        return replace(
            self,
            chunks=lambda: checked(self.chunks()),
            values=values and (lambda spans: checked(values(spans))),
        )


def _all_chunks(values: Values, units: int) -> Iterator[torch.Tensor]:
    return values(chunks(units))


@dataclass(frozen=True, slots=True)
class KeyedWriter:
    """A tensor under a key of the new file; it replaces an old one, at a position there."""

    position: int
    key: str
    tensor: TensorWriter
    replaced: str


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a new file holds; a template keeps its other objects where the format can hold them."""

    writers: Sequence[KeyedWriter]
    template: Checkpoint | None
    metadata: Metadata

    @property
    def tensors(self) -> dict[str, TensorWriter]:
        """The tensors by name; tied ones are under several keys."""
        return {writer.tensor.name: writer.tensor for writer in self.writers}

    @property
    def nbytes(self) -> int:
        """The bytes of all values."""
        return sum(writer.tensor.nbytes for writer in self.writers)

    def checked(self, check: Callable[[], None]) -> FileContent:
        """Return a copy with a check around each chunk; see `TensorWriter.checked`."""
        writers = [replace(each, tensor=each.tensor.checked(check)) for each in self.writers]
        return replace(self, writers=writers)

    def texts(self, checksums: Mapping[str, int] | None = None) -> dict[str, str]:
        """Return the metadata; see `with_checksums`."""
        return with_checksums(self.metadata, [writer.key for writer in self.writers], checksums)


class WrittenFile(NamedTuple):
    """The result of writing a file.

    Attributes:
        checksums: the CRC-32 of each tensor by key.
        kept: the parts of the file with values that are kept from the input; see `DamagedRecord`.
        whole: the CRC-32 of the whole file if it is of a kind that has no place for metadata.
        finish: writes the checksums and the late texts in place of their placeholders (see
            `with_checksums`). None if the file is complete.
    """

    checksums: dict[str, int]
    kept: Sequence[str] = ()
    whole: int | None = None
    finish: Callable[[], None] | None = None


def keyed_writers(
    tensors: Sequence[TensorWriter], template: Checkpoint | None
) -> list[KeyedWriter]:
    """Return the tensors under all of their keys, aliases included, in the order of `template`.

    A tensor that replaces none of `template` follows the tensor before it in `tensors`.
    """
    names = {tensor.name for tensor in tensors}
    if len(names) < len(tensors):
        raise ValueError("two tensors have the same name")
    positions = {key: index for index, key in enumerate(template.keys)} if template else {}
    writers: list[KeyedWriter] = []
    position = -1
    for tensor in tensors:
        aliases = [name for name in _aliases(tensor.name, template) if name not in names]
        keys = tensor.keys or [(key, key) for key in (tensor.name, *aliases)]
        position = lookup_source(tensor.replaced, positions, default=position)
        writers.extend(
            KeyedWriter(lookup_source(old, positions, default=position), key, tensor, old)
            for key, old in keys
        )
    writers.sort(key=lambda writer: writer.position)
    return writers


def _aliases(name: str, template: Checkpoint | None) -> list[str]:
    if template is None:
        return []
    if name in template.tensors:
        return list(template.tensors[name].aliases)
    for suffix in (ORIGINAL_SUFFIX, MASK_SUFFIX):
        info = template.tensors.get(name.removesuffix(suffix))
        if name.endswith(suffix) and info is not None:
            return [alias + suffix for alias in info.aliases]
    return []


def lookup_source(key: str, mapping: Mapping[str, Value], *, default: Value) -> Value:
    """Return the value in `mapping` of the old tensor that becomes `key`, or `default`.

    The old tensor has the same key, or it is the parameter or the original or mask of the pair.
    """
    candidates = (
        key,
        key.removesuffix(ORIGINAL_SUFFIX),
        key.removesuffix(MASK_SUFFIX),
        key + ORIGINAL_SUFFIX,
        key + MASK_SUFFIX,
    )
    return next((mapping[name] for name in candidates if name in mapping), default)
