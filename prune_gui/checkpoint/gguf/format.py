"""The format of GGUF files."""

from __future__ import annotations

from typing import BinaryIO, Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.gguf.header import MAGIC
from prune_gui.checkpoint.gguf.reading import GgufCheckpoint
from prune_gui.checkpoint.gguf.writing import data_nbytes, gguf_nbytes, write_gguf
from prune_gui.checkpoint.source import Source


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    return start.startswith(MAGIC)


def _open(source: Source, _: str | None, surroundings: Surroundings) -> GgufCheckpoint:
    return GgufCheckpoint(source, surroundings)


GGUF: Final = FileFormat(
    name=GgufCheckpoint.format,
    suffixes=(".gguf",),
    shard_suffix=".gguf",
    recognizes=_recognizes,
    open=_open,
    write=write_gguf,
    file_nbytes=gguf_nbytes,
    data_nbytes=data_nbytes,
    load_code=(
        '{{t.name: w.view(torch.bfloat16) if t.tensor_type.name == "BF16" else w '
        "for t in GGUFReader({path}).tensors for w in [torch.from_numpy(t.data.copy())]}}"
    ),
    load_import="from gguf import GGUFReader  # pip install gguf",
    opens_without_torch=True,
    holds_quantized=True,
)
