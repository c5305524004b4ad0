"""The format of GGUF files. A header is checked completely before any of it is used.

The format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), all numbers little-endian:
magic bytes, version, number of tensors, number of metadata entries; each entry with a key, a type
and a value; each tensor with a name, dimensions (the fastest first), a type and an offset; padding;
the data of the tensors, each at a multiple of the alignment.

A file is written with the metadata and the order of the input.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import Header, MappedCheckpoint, SpanTensor
from prune_gui.checkpoint.tensor_info import (
    MAX_ELEMENTS,
    TENSOR_TYPES,
    TYPE_NUMBERS,
    RawTensor,
    size_in_bytes,
)
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MAX_HEADER_BYTES: Final = 100_000_000
MAX_TENSORS: Final = 1 << 18
"""The limit of tensors, of which a million take seconds and a gigabyte of memory."""
MAX_ARRAY_DEPTH: Final = 8
MAX_DIMS: Final = 4
CHUNK_BYTES: Final = 1 << 20
ALIGNMENT_KEY: Final = "general.alignment"
DEFAULT_ALIGNMENT: Final = 32
PART_KEYS: Final = ("split.no", "split.count", "split.tensors.count")
"""Of `SplitPart`, in its order."""
OWN_KEYS: Final = (ALIGNMENT_KEY, *PART_KEYS)
"""Metadata that describes this file alone."""
ARCHITECTURE_KEY: Final = "general.architecture"
CONFIG_KEYS: Final = {
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "embedding_length": "hidden_size",
}
"""Numbers of the metadata below the name of the architecture, and their keys in a HF config."""

U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")
BOOL: Final = 7
STRING: Final = 8
ARRAY: Final = 9
NUMBERS: Final = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: U32,
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    BOOL: struct.Struct("<?"),
    10: U64,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
"""The types of metadata values of fixed size, by their number in a file."""


class Entry(NamedTuple):
    """One entry of the metadata: the bytes from its key to the end of its value, type and value.

    The value is None for an array, and for text that is not UTF-8.
    """

    start: int
    stop: int
    kind: int
    value: str | int | float | None


class SplitPart(NamedTuple):
    """The place of a file among the parts of a split one; -1 is what the file does not say.

    The number is from 0; `tensors` is the number of those in all parts.
    """

    number: int
    parts: int
    tensors: int


class GgufHeader(NamedTuple):
    """The content of a header; the last dimension of a shape is contiguous, as in torch.

    The data of each tensor starts at a multiple of the alignment, in bytes. The part is None if the
    file is whole.
    """

    header: Header
    version: int
    alignment: int
    entries: dict[str, Entry]
    part: SplitPart | None


def read_header(file: BinaryIO, size: int, name: str) -> GgufHeader:
    """Read and check the header of a file of `size` bytes; `name` is for messages."""
    reader = _Reader(file, size)
    version = _version(reader)
    tensor_count, entry_count = reader.number(U64), reader.number(U64)
    entries = _entries(reader, entry_count)
    alignment = _alignment(entries)
    found = _tensors(reader, tensor_count, alignment)
    start = padded(reader.position, alignment)
    tensors: dict[str, SpanTensor] = {}
    for key, (raw, offset) in found.items():
        first = start + offset
        span = first, first + size_in_bytes(raw.shape, raw.dtype)
        tensors[key] = SpanTensor(raw, (span,))
    nbytes_after = size - padded(_checked_end(tensors, size, start), alignment)
    remarks: tuple[str, ...] = ()
    if tensors and nbytes_after > 0:
        remark = tr(
            "{name} has {nbytes:,} bytes after its tensors. They are not kept when you save.",
            name=name,
            nbytes=nbytes_after,
        )
        remarks = (remark,)
    metadata = {
        key: _text(entry.value)
        for key, entry in entries.items()
        if entry.value is not None and key not in OWN_KEYS
    }
    found_part = (entries[key].value if key in entries else -1 for key in PART_KEYS)
    part = SplitPart(*(value if type(value) is int else -1 for value in found_part))
    header = Header(tensors, metadata, remarks)
    return GgufHeader(header, version, alignment, entries, part if part.parts > 1 else None)


def padded(position: int, alignment: int) -> int:
    """Return the next multiple of the alignment."""
    return position + -position % alignment


class _Reader:
    """Reads a header from the start of a file; nothing beyond the file is asked for."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._read = bytearray()
        self.position = 0

    def take(self, nbytes: int) -> int:
        """Move over some bytes, and return the position where they start."""
        start = self.position
        self.position += nbytes
        if self.position > len(self._read):
            self._read_up_to(self.position)
        return start

    def number(self, kind: struct.Struct) -> Any:  # noqa: ANN401 - int, float or bool
        """Read a number."""
        return kind.unpack_from(self._read, self.take(kind.size))[0]

    def octets(self) -> bytes:
        """Read a string, as bytes."""
        length = self.number(U64)
        start = self.take(length)
        return bytes(self._read[start : self.position])

    def text(self) -> str:
        """Read a string, which has to be UTF-8."""
        octets = self.octets()
        try:
            return octets.decode()
        except UnicodeDecodeError:
            raise FalseClaimError("the name {name!r} is not UTF-8 text", name=octets[:80]) from None

    def skip_strings(self, count: int) -> None:
        """Move over strings, of which there may be a million."""
        self.check_count(count, U64.size)
        octets, position = self._read, self.position
        for _ in range(count):
            if position + U64.size > len(octets):
                self._read_up_to(position + U64.size)
            position += U64.size + U64.unpack_from(octets, position)[0]
        self.take(position - self.position)

    def check_count(self, count: int, min_nbytes: int) -> None:
        """Check that the file can hold `count` values of at least `min_nbytes` each."""
        if count * min_nbytes > self._size - self.position:
            raise FalseClaimError(
                "its header declares {count:,} values at byte {position:,}, and the file has "
                "{size:,} bytes (a partial download?)",
                count=count,
                position=self.position,
                size=self._size,
            )

    def _read_up_to(self, stop: int) -> None:
        if stop > self._size:
            raise FalseClaimError(
                "its header goes on to byte {stop:,}, and the file has {size:,} (a partial "
                "download?)",
                stop=stop,
                size=self._size,
            )
        if stop > MAX_HEADER_BYTES:
            raise FalseClaimError(
                "its header is over the limit of {limit:,} bytes", limit=MAX_HEADER_BYTES
            )
        self._read += self._file.read(max(stop - len(self._read), CHUNK_BYTES))
        if len(self._read) < stop:
            raise FalseClaimError("the file ended early")


def _version(reader: _Reader) -> int:
    if U32.pack(reader.number(U32)) != MAGIC:
        raise FalseClaimError("it does not begin with {magic}", magic=MAGIC.decode())
    version: int = reader.number(U32)
    if version in VERSIONS:
        return version
    if version & 0xFFFF == 0:
        raise FalseClaimError("its numbers are big-endian, which is not supported")
    raise FalseClaimError("its version {version:,} of the format is not supported", version=version)


def _entries(reader: _Reader, count: int) -> dict[str, Entry]:
    reader.check_count(count, U64.size + U32.size + 1)
    entries: dict[str, Entry] = {}
    for _ in range(count):
        start, key, kind = reader.position, reader.text(), reader.number(U32)
        if key in entries:
            raise FalseClaimError("the metadata {key!r} appears more than once", key=key)
        value = _value(reader, key, kind)
        entries[key] = Entry(start, reader.position, kind, value)
    return entries


def _value(reader: _Reader, key: str, kind: int) -> str | int | float | None:
    if kind in NUMBERS:
        number: int | float = reader.number(NUMBERS[kind])
        return number
    if kind == STRING:
        with suppress(UnicodeDecodeError):
            return reader.octets().decode()
        return None
    _skip(reader, key, kind, 1, 0)
    return None


def _skip(reader: _Reader, key: str, kind: int, count: int, depth: int) -> None:
    """Move over values of a type; those of arrays are a type and a number of values each."""
    if kind in NUMBERS:
        reader.take(count * NUMBERS[kind].size)
    elif kind == STRING:
        reader.skip_strings(count)
    elif kind != ARRAY:
        raise FalseClaimError(
            "the metadata {key!r} has the unknown type {kind:,}", key=key, kind=kind
        )
    elif depth == MAX_ARRAY_DEPTH:
        raise FalseClaimError("the metadata {key!r} is nested too deeply", key=key)
    else:
        reader.check_count(count, U32.size + U64.size)
        for _ in range(count):
            _skip(reader, key, reader.number(U32), reader.number(U64), depth + 1)


def _alignment(entries: dict[str, Entry]) -> int:
    if ALIGNMENT_KEY not in entries:
        return DEFAULT_ALIGNMENT
    _, _, kind, value = entries[ALIGNMENT_KEY]
    if NUMBERS.get(kind) is not U32 or not isinstance(value, int) or value.bit_count() != 1:
        raise FalseClaimError(
            "its alignment {value} is not a 32-bit power of two", value=str(value)[:80]
        )
    return value


def _tensors(reader: _Reader, count: int, alignment: int) -> dict[str, tuple[RawTensor, int]]:
    reader.check_count(count, 2 * (U64.size + U32.size))
    if count > MAX_TENSORS:
        raise FalseClaimError(
            "its header declares {count:,} tensors; the limit is {limit:,}",
            count=count,
            limit=MAX_TENSORS,
        )
    found: dict[str, tuple[RawTensor, int]] = {}
    for _ in range(count):
        key = reader.text()
        raw, offset = _tensor(reader, key), reader.number(U64)
        if key in found:
            raise FalseClaimError("the tensor {key!r} appears more than once", key=key)
        if offset % alignment:
            raise FalseClaimError(
                "{key!r} starts at byte {offset:,} of the data, which is no multiple of the "
                "alignment {alignment:,}",
                key=key,
                offset=offset,
                alignment=alignment,
            )
        found[key] = raw, offset
    return found


def _tensor(reader: _Reader, key: str) -> RawTensor:
    dims = reader.number(U32)
    if dims > MAX_DIMS:
        raise FalseClaimError(
            "{key!r} has {dims:,} dimensions; the limit is {limit}",
            key=key,
            dims=dims,
            limit=MAX_DIMS,
        )
    shape = tuple(reader.number(U64) for _ in range(dims))[::-1]
    number = reader.number(U32)
    tensor_type = TENSOR_TYPES.get(number)
    if tensor_type is None:
        raise FalseClaimError("{key!r} has the unknown type {kind:,}", key=key, kind=number)
    row = shape[-1] if shape else 1
    if math.prod(filter(None, shape)) > MAX_ELEMENTS or row % tensor_type.block_elements:
        raise FalseClaimError(
            "{key!r} has the impossible shape {shape} for the type {dtype}",
            key=key,
            shape=list(shape),
            dtype=tensor_type.dtype,
        )
    return RawTensor(shape, tensor_type.dtype)


def _checked_end(tensors: Mapping[str, SpanTensor], size: int, start: int) -> int:
    """Check that the tensors are in the file and do not overlap; return the end of the last one."""
    end = start
    spans = sorted((tensor.spans, key) for key, tensor in tensors.items())
    for ((first, stop),), key in spans:
        if first < end:
            raise FalseClaimError("{key!r} overlaps the tensor before it", key=key)
        end = stop
    if spans and end > size:
        raise FalseClaimError(
            "its tensors end at byte {stop:,}, and the file at byte {size:,} (a partial download?)",
            stop=end,
            size=size,
        )
    return end


def _text(value: str | int | float | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


class GgufCheckpoint(MappedCheckpoint):
    """A GGUF file. Tensors of a quantized type are read as flat uint8, see `PACKED_DTYPES`."""

    format = "gguf"

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        source.file.seek(0)
        self.gguf_header: GgufHeader = read_header(source.file, source.size, source.path.name)
        values = {key: entry.value for key, entry in self.gguf_header.entries.items()}
        architecture = values.get(ARCHITECTURE_KEY)
        found = {name: values.get(f"{architecture}.{key}") for key, name in CONFIG_KEYS.items()}
        sizes = {name: size for name, size in found.items() if type(size) is int and size > 0}
        surroundings = replace(surroundings, hf_config={**surroundings.hf_config, **sizes})
        self.is_part = self.gguf_header.part is not None
        super().__init__(source, self.gguf_header.header, surroundings)

    @property
    def other_objects(self) -> tuple[str, ...]:
        """The keys of the metadata that are no text, such as the arrays of the tokenizer."""
        entries = self.gguf_header.entries
        return tuple(key for key, entry in entries.items() if entry.value is None)


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    """Write a file: the metadata of the template keeps its types and order; more text follows."""
    original = _template(content)
    header_of = partial(_header_bytes, content, original, _octets(original))
    alignment = original.gguf_header.alignment
    return write_plain(path, content, header_of, monitor, alignment=alignment)


def _file_nbytes(content: FileContent) -> int:
    original = _template(content)
    header = _header_bytes(content, original, _octets(original), None)
    return padded(len(header), original.gguf_header.alignment) + _data_nbytes(content)


def _data_nbytes(content: FileContent) -> int:
    alignment = _template(content).gguf_header.alignment
    return sum(padded(writer.tensor.nbytes, alignment) for writer in content.writers)


def _template(content: FileContent) -> GgufCheckpoint:
    template = content.template
    keys = tuple(writer.key for writer in content.writers)
    if isinstance(template, GgufCheckpoint) and template.keys == keys:
        return template
    raise CheckpointError(
        "GGUF can hold only the finalized form of a GGUF file, divided into files as the "
        "input: parts are saved to a folder. Choose that, or save as .safetensors or .pt."
    )


def _header_bytes(
    content: FileContent,
    template: GgufCheckpoint,
    octets: bytes,
    checksums: Mapping[str, int] | None,
) -> bytes:
    """Return the bytes of a file before its data, without padding at the end; see `_octets`."""
    header = template.gguf_header
    entries = _entry_octets(template, octets, content.texts(checksums))
    n_tensors = len(content.writers)
    parts = [MAGIC, U32.pack(header.version), U64.pack(n_tensors), U64.pack(len(entries))]
    parts += entries
    position = 0
    for writer in content.writers:
        dims = writer.tensor.shape[::-1]
        parts += [_string(writer.key), U32.pack(len(dims)), *map(U64.pack, dims)]
        parts += [U32.pack(TYPE_NUMBERS[writer.tensor.dtype]), U64.pack(position)]
        position += padded(writer.tensor.nbytes, header.alignment)
    return b"".join(parts)


def _octets(template: GgufCheckpoint) -> bytes:
    """Return the bytes up to the end of the metadata; the file may be closed afterwards."""
    end = max((entry.stop for entry in template.gguf_header.entries.values()), default=0)
    octets: bytes = template.source.pages(0, end).numpy().tobytes()
    template.check()
    return octets


def _entry_octets(
    template: GgufCheckpoint, octets: bytes, metadata: Mapping[str, str]
) -> list[bytes]:
    """Return the metadata entries: those of `template` unless their text changes, then others."""
    entries = template.gguf_header.entries
    kept = {
        key: octets[entry.start : entry.stop]
        for key, entry in entries.items()
        if metadata.get(key) == template.metadata.get(key)
    }
    added = [
        _string(key) + U32.pack(STRING) + _string(text)
        for key, text in metadata.items()
        if key not in kept
    ]
    return [*kept.values(), *added]


def _string(text: str) -> bytes:
    octets = text.encode()
    return U64.pack(len(octets)) + octets


GGUF: Final = FileFormat(
    name=GgufCheckpoint.format,
    suffixes=(".gguf",),
    shard_suffix=".gguf",
    recognizes=lambda start, _: start.startswith(MAGIC),
    program="gguf",
    refusal=deferred(
        "{name} cannot be opened as a GGUF file: {problem}. Download the file again, or "
        "convert the model again."
    ),
    open=GgufCheckpoint,
    write=_write,
    file_nbytes=_file_nbytes,
    data_nbytes=_data_nbytes,
    load_code=(
        '{{t.name: w.view(torch.bfloat16) if t.tensor_type.name == "BF16" else w '
        "for t in GGUFReader({path}).tensors for w in [torch.from_numpy(t.data.copy())]}}"
    ),
    load_import="from gguf import GGUFReader  # pip install gguf",
    opens_without_torch=True,
    holds_quantized=True,
)
