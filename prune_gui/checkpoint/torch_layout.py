"""How a torch file is laid out, and whether it can hold what it claims; checked before loading."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.checkpoint.pickle_scan import FalseClaimError, Storage, scan
from prune_gui.errors import CheckpointError

METADATA_RECORD: Final = "prune_gui.json"
"""A record that we add to torch archives: {"root": [...], "metadata": {...}}. torch ignores it."""

ENCRYPTED: Final = 1
MAX_PICKLE_BYTES: Final = 1 << 29
MAX_METADATA_BYTES: Final = 1 << 26
ZIP_MAGIC: Final = b"PK"
LEGACY_PICKLES: Final = 5
"""Magic number, protocol, system, the saved object, and the keys of the storages behind it."""
LEGACY_COUNT_BYTES: Final = 8
"""Each storage starts with the number of its entries."""
LEGACY_MAGIC: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How each legacy torch file starts: its magic number, pickled with protocol 2."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known about a torch file before it is loaded.

    Attributes:
        mappable: whether the values can be mapped where they lie.
        nbytes: memory that loading takes if they cannot.
        root: the path of the state dict, if we wrote the file; else None.
        metadata: what we wrote with it.
        warnings: what a person should know.
    """

    mappable: bool
    nbytes: int
    root: tuple[str, ...] | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def inspect_layout(path: Path) -> Layout:
    """Check a torch file without loading it.

    Raises:
        CheckpointError: it is no torch checkpoint, it needs code, or it claims more than it holds.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(ZIP_MAGIC)) == ZIP_MAGIC:
                return _inspect_zip(path, file)
            file.seek(0)
            return _inspect_legacy(path, file)
    except FalseClaimError as problem:
        raise CheckpointError(
            f"{path.name} is not opened: {str(problem)[:400]}. Get the file again, or save it "
            "again with torch.save."
        ) from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
        raise CheckpointError(
            f"{path.name} is a damaged zip archive ({error}). Get the file again."
        ) from error


def _inspect_zip(path: Path, file: BinaryIO) -> Layout:
    archive = zipfile.ZipFile(file)
    # All records lie in one folder, whose name does not matter.
    records = {record.filename.partition("/")[2]: record for record in archive.infolist()}
    if "constants.pkl" in records:
        raise CheckpointError(
            f"{path.name} is a TorchScript program, not a checkpoint. Where it came from, save its "
            "weights: `torch.save(torch.jit.load(path).state_dict(), 'new.pt')`."
        )
    if "data.pkl" not in records:
        raise CheckpointError(
            f"{path.name} is a zip archive, but not one that torch.save wrote. If a checkpoint is "
            "in it, unpack it first."
        )
    if len(records) < len(archive.infolist()):
        raise FalseClaimError("its archive has two records of the same name")
    if any(record.flag_bits & ENCRYPTED for record in records.values()):
        raise FalseClaimError("its archive is encrypted")
    size = path.stat().st_size
    for name, record in records.items():
        if record.header_offset + record.compress_size > size or (
            record.compress_type == zipfile.ZIP_STORED and record.compress_size != record.file_size
        ):
            raise FalseClaimError(f"its record {name!r} claims more than the file holds")

    def check(storage: Storage) -> None:
        record = records.get(f"data/{storage.key}")
        if record is None:
            raise FalseClaimError(f"its storage {storage.key!r} is missing")
        if storage.nbytes > record.file_size:
            raise FalseClaimError(
                f"its storage {storage.key!r} claims {storage.nbytes:,} bytes and has "
                f"{record.file_size:,}"
            )

    if records["data.pkl"].file_size > MAX_PICKLE_BYTES:
        raise FalseClaimError("its pickle is too large")
    scan(io.BytesIO(archive.read(records["data.pkl"])), check)
    root, metadata, warnings = _own_record(archive, records.get(METADATA_RECORD))
    return Layout(
        mappable=all(record.compress_type == zipfile.ZIP_STORED for record in records.values()),
        nbytes=sum(record.file_size for record in records.values()),
        root=root,
        metadata=metadata,
        warnings=warnings,
    )


def _own_record(
    archive: zipfile.ZipFile, record: zipfile.ZipInfo | None
) -> tuple[tuple[str, ...] | None, dict[str, str], tuple[str, ...]]:
    """Return root and metadata that we wrote, or a warning if they cannot be understood."""
    if record is None:
        return None, {}, ()
    try:
        if record.file_size <= MAX_METADATA_BYTES:
            match json.loads(archive.read(record)):
                case {"root": list() as root, "metadata": dict() as metadata} if all(
                    isinstance(text, str) for text in (*root, *metadata.values())
                ):
                    return tuple(root), metadata, ()
    except (ValueError, RecursionError):
        pass
    return None, {}, (f"Its record {METADATA_RECORD} cannot be understood, and is left out.",)


def _inspect_legacy(path: Path, file: BinaryIO) -> Layout:
    if file.read(len(LEGACY_MAGIC)) != LEGACY_MAGIC:
        raise CheckpointError(
            f"{path.name} is a Python pickle that torch.save did not write, and unpickling it "
            "could run code. Where it came from, load it and save its arrays with safetensors."
        )
    file.seek(0)
    storages: dict[str, int] = {}

    def note(storage: Storage) -> None:
        storages[storage.key] = max(storage.nbytes, storages.get(storage.key, 0))

    for _ in range(LEGACY_PICKLES):
        scan(file, note)
    behind = path.stat().st_size - file.tell()
    claimed = sum(LEGACY_COUNT_BYTES + nbytes for nbytes in storages.values())
    if claimed > behind:
        raise FalseClaimError(
            f"its tensors claim {claimed:,} bytes, and {behind:,} follow its pickle"
            " (a partial download?)"
        )
    return Layout(mappable=False, nbytes=behind)
