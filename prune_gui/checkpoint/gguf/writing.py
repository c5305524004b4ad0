"""Writing GGUF files: the metadata and the order of the input, with new values of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.gguf.header import MAGIC, STRING, U32, U64, padded
from prune_gui.checkpoint.gguf.reading import GgufCheckpoint
from prune_gui.checkpoint.gguf.types import TYPE_NUMBERS
from prune_gui.checkpoint.write.checksums import with_checksums
from prune_gui.checkpoint.write.entries import KeyedWriter, WrittenFile
from prune_gui.checkpoint.write.metadata import Metadata
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor


def write_gguf(
    path: Path,
    writers: Sequence[KeyedWriter],
    template: Checkpoint | None,
    metadata: Metadata,
    monitor: Monitor,
) -> WrittenFile:
    """Write the file at `path`; see `write_plain`.

    The metadata of `template` keeps its types and its order. Further metadata follows as text.
    """
    original = checked_template(writers, template)
    return write_plain(
        path,
        writers,
        partial(_header_bytes, writers, original, _octets(original), metadata),
        monitor,
        alignment=original.gguf_header.alignment,
    )


def gguf_nbytes(
    writers: Sequence[KeyedWriter], template: Checkpoint | None, metadata: Metadata
) -> int:
    """Return the bytes of the file that `write_gguf` would write."""
    original = checked_template(writers, template)
    header = _header_bytes(writers, original, _octets(original), metadata, None)
    return padded(len(header), original.gguf_header.alignment) + data_nbytes(writers, original)


def data_nbytes(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> int:
    """Return the bytes of the padded data."""
    alignment = checked_template(writers, template).gguf_header.alignment
    return sum(padded(writer.tensor.nbytes, alignment) for writer in writers)


def checked_template(writers: Sequence[KeyedWriter], template: Checkpoint | None) -> GgufCheckpoint:
    """Return the file that is written anew, with the same tensors."""
    if isinstance(template, GgufCheckpoint) and template.keys == tuple(
        writer.key for writer in writers
    ):
        return template
    raise CheckpointError(
        tr(
            "GGUF can hold only the finalized form of a GGUF file, divided into files as the "
            "input: parts are saved to a folder. Choose that, or save as .safetensors or .pt."
        )
    )


def _header_bytes(
    writers: Sequence[KeyedWriter],
    template: GgufCheckpoint,
    octets: bytes,
    metadata: Metadata,
    checksums: Mapping[str, int] | None,
) -> bytes:
    """Return the bytes of a file before its data, without padding at the end; see `_octets`."""
    header = template.gguf_header
    texts = with_checksums(metadata, (writer.key for writer in writers), checksums)
    entries = _entries(template, octets, texts)
    parts = [MAGIC, U32.pack(header.version), U64.pack(len(writers)), U64.pack(len(entries))]
    parts += entries
    position = 0
    for writer in writers:
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
