"""Reading GGUF files: the header at opening, values memory-mapped on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.gguf.header import Entry, GgufHeader, read_header
from prune_gui.checkpoint.mapped import MappedCheckpoint
from prune_gui.checkpoint.source import Source

ARCHITECTURE_KEY: Final = "general.architecture"
CONFIG_KEYS: Final = {
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "embedding_length": "hidden_size",
}
"""Numbers of the metadata below the name of the architecture, and their keys in a HF config."""


class GgufCheckpoint(MappedCheckpoint):
    """A GGUF file.

    Tensors of a quantized type are read as flat uint8, see `PACKED_DTYPES`.

    Attributes:
        gguf_header: the header of the file.
    """

    format = "gguf"

    def __init__(self, source: Source, surroundings: Surroundings) -> None:
        """Read and check the header."""
        source.file.seek(0)
        self.gguf_header: GgufHeader = read_header(source.file, source.size, source.path.name)
        entries = self.gguf_header.entries
        config = {**surroundings.hf_config, **_hf_config(entries)}
        surroundings = replace(surroundings, hf_config=config)
        self.is_part = self.gguf_header.part is not None
        super().__init__(source, self.gguf_header.header, surroundings)

    @property
    def other_objects(self) -> tuple[str, ...]:
        """The keys of the metadata that are no text, such as the arrays of the tokenizer."""
        entries = self.gguf_header.entries
        return tuple(key for key, entry in entries.items() if entry.value is None)

    @staticmethod
    def _spans_in(file: BinaryIO, size: int, name: str) -> Mapping[str, tuple[int, int]]:
        return read_header(file, size, name).header.spans


def _hf_config(entries: Mapping[str, Entry]) -> dict[str, int]:
    """Return the numbers of the metadata that a config.json would have."""
    if ARCHITECTURE_KEY not in entries:
        return {}
    architecture = entries[ARCHITECTURE_KEY].value
    found = {
        name: entries[f"{architecture}.{key}"].value
        for key, name in CONFIG_KEYS.items()
        if f"{architecture}.{key}" in entries
    }
    return {name: value for name, value in found.items() if type(value) is int and value > 0}
