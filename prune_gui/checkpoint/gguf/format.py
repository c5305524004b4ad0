"""The format of GGUF files: a file is written with the metadata and the order of the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.gguf.header import (
    MAGIC,
    STRING,
    U32,
    U64,
    GgufHeader,
    padded,
    read_header,
)
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import MappedCheckpoint
from prune_gui.checkpoint.tensor_info import TYPE_NUMBERS
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred
from prune_gui.monitor import Monitor

ARCHITECTURE_KEY: Final = "general.architecture"
CONFIG_KEYS: Final = {
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "embedding_length": "hidden_size",
}
"""Numbers of the metadata below the name of the architecture, and their keys in a HF config."""


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
    entries = _entries(template, octets, content.texts(checksums))
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


def _entries(template: GgufCheckpoint, octets: bytes, metadata: Mapping[str, str]) -> list[bytes]:
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
