"""What the program knows of a file format, in one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.base import FileCheckpoint, Surroundings
from prune_gui.checkpoint.refusal import INVALID
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.monitor import Monitor

HEAD_BYTES: Final = 512
"""Bytes at the start of a file that suffice to recognize its format."""

Recognize = Callable[[bytes, BinaryIO], bool]
"""Takes the first HEAD_BYTES bytes of a file that is not empty, and the file."""
Open = Callable[[Source, str | None, Surroundings], FileCheckpoint]
"""Reads the headers of a file; raises FalseClaimError or CheckpointError if it breaks a rule of the
format. The text names a state dict, None for the largest one; it is None unless `has_states`."""
Write = Callable[[Path, FileContent, Monitor], WrittenFile]
"""Writes a new file at a path, and flushes it; the monitor counts bytes. Raises CheckpointError if
a tensor cannot be stored, and Cancelled."""
DamagedRecord = Callable[[Path | BinaryIO, Monitor, Iterable[str] | None], str | None]
"""Returns the name of the first part of a file that does not match the checksum that the format
itself has for it, or None. Takes the names of the parts to check, None for all."""


def _no_records(_path: Path | BinaryIO, _monitor: Monitor, _names: Iterable[str] | None) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format of checkpoint files.

    Attributes:
        name: the value of `Checkpoint.format`.
        suffixes: the suffixes of its files in lower case, the usual one first.
        shard_suffix: the suffix of shards; an index is called `*{shard_suffix}.index.json`.
        shard_stem: how the names of new shards and of their index begin.
        preferred_name: a regular expression for the names of the files that `find_checkpoint`
            prefers over other files of this format; the case is ignored.
        recognizes_loosely: whether `recognizes` accepts files of other formats too, such as any
            zip archive. The other formats are asked first.
        program: the program that writes such files, in the `refusal` of a damaged one.
        write_compressed: writes a smaller file with compressed values, which programs cannot map
            into memory. None if the format has no such files.
        open_headers: opens a file that `write_compressed` wrote, without memory for its values;
            `damaged_record` checks these. None if `open` needs no such memory.
        file_nbytes: returns the size of the file that `write` would write.
        data_nbytes: returns about this size without preparing the file.
        load_code: a Python expression that reads the file at `{path}` as a dictionary; of a file
            with several state dicts, as the dictionary that `Checkpoint.root` leads into. Other
            braces are doubled, as for `str.format`.
        load_import: the import that `load_code` needs besides torch.
        has_states: whether a file can hold several state dicts.
        opens_without_torch: whether `open` is quick because it does not import torch.
        holds_metadata: whether files have a place for metadata.
        special_refusal: a message for `tr` that refuses the special tensor `{key}` (`{special}`) in
            a file `{name}`. "" if the format holds the special tensors of its own files.
        holds_quantized: whether a file can hold tensors of `QUANTIZED_TYPES`.
    """

    name: str
    suffixes: tuple[str, ...]
    shard_suffix: str
    shard_stem: str = "model"
    preferred_name: str = ""
    recognizes: Recognize
    recognizes_loosely: bool = False
    program: str
    refusal: str = INVALID
    open: Open
    write: Write
    write_compressed: Write | None = None
    open_headers: Callable[[Path], FileCheckpoint] | None = None
    file_nbytes: Callable[[FileContent], int]
    data_nbytes: Callable[[FileContent], int] = attrgetter("nbytes")
    load_code: str
    load_import: str = ""
    has_states: bool = False
    opens_without_torch: bool = False
    holds_metadata: bool = True
    special_refusal: str = ""
    holds_quantized: bool = False
    damaged_record: DamagedRecord = _no_records
