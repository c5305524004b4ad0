"""How a torch file is laid out, and whether it can hold what it claims; checked before loading."""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, cast

from prune_gui.checkpoint.conversion import lines_of, needs_code
from prune_gui.checkpoint.pickle_machine import OPAQUE, FalseClaimError
from prune_gui.checkpoint.pickle_scan import Scan, Storage, scan
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import later, tr

METADATA_RECORD: Final = "prune_gui.json"
"""A record that we add to torch archives: {"root": [...], "metadata": {...}}. torch ignores it."""

BYTE_ORDER: Final = "byteorder"
ENCRYPTED: Final = 1
READ_BY_TORCH: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
MAX_PICKLE_BYTES: Final = 1 << 29
LOCAL_HEADER: Final = 30
LOCAL_LENGTHS: Final = 26
"""Bytes before a record; and where among them the lengths are of what else is there."""
MAX_GROWTH: Final = 100
"""How many times its size a compressed archive may unpack to; one of zeros alone comes to 1000."""
MAX_METADATA_BYTES: Final = 1 << 26
ZIP_MAGIC: Final = b"PK"
LEGACY_PICKLES: Final = 5
"""Magic number, protocol, system, the saved object, and the keys of the storages behind it."""
LEGACY_COUNT_BYTES: Final = 8
"""Each storage starts with the number of its entries."""
LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
"""The number that each legacy torch file starts with, pickled."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known about a torch file before it is loaded.

    Attributes:
        mappable: whether the values can be mapped where they lie.
        nbytes: memory that loading takes: of all values if they cannot, or of copies of some.
        values: bytes of all storages.
        root: the path of the state dict, if we wrote the file; else None.
        metadata: what we wrote with it.
        warnings: what a person should know.
    """

    mappable: bool
    nbytes: int
    values: int
    root: tuple[str, ...] | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def inspect_layout(path: Path) -> Layout:
    """Check a torch file, or any other pickle, without loading it.

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
            tr(
                "{name} is not opened: {problem}. Get the file again, or save it again with "
                "torch.save.",
                name=path.name,
                problem=one_line(tr(problem.claim), 300),
            )
        ) from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
        raise CheckpointError(
            tr(
                "{name} is a damaged zip archive ({reason}; a partial download?). Get the file "
                "again.",
                name=path.name,
                reason=one_line(str(error), 200),
            )
        ) from error


def _inspect_zip(path: Path, file: BinaryIO) -> Layout:
    archive = zipfile.ZipFile(file)
    # All records lie in one folder, whose name does not matter; torch does not tell a from A.
    every = archive.infolist()
    records = {record.filename.partition("/")[2]: record for record in every}
    if "constants.pkl" in records:
        raise CheckpointError(
            tr(
                "{name} is a TorchScript program, not a checkpoint, and it is not run. "
                "If you trust it, save its weights:",
                name=path.name,
            ),
            lines_of(path, "torch.jit"),
        )
    if "data.pkl" not in records:
        raise CheckpointError(
            tr(
                "{name} is a zip archive, but not one that torch.save wrote. If a checkpoint is in "
                "it, unpack it first.",
                name=path.name,
            )
        )
    if len({name.lower() for name in records}) < len(every):
        raise FalseClaimError(later("its archive has two records of the same name"))
    size = path.stat().st_size
    _check_records(records, size)
    _check_places(records, file, size)

    def check(storage: Storage) -> None:
        record = records.get(f"data/{storage.key}")
        if record is None:
            raise FalseClaimError(later("its storage {key!r} is missing", key=storage.key))
        if storage.nbytes > record.file_size:
            raise FalseClaimError(
                later(
                    "its storage {key!r} claims {claimed:,} bytes and has {size:,}",
                    key=storage.key,
                    claimed=storage.nbytes,
                    size=record.file_size,
                )
            )

    if records["data.pkl"].file_size > MAX_PICKLE_BYTES:
        raise FalseClaimError(later("its pickle is too large"))
    with archive.open(records["data.pkl"]) as record:
        found = scan(cast("BinaryIO", io.BufferedReader(record)), check)  # as large as it is
    _check_code(path, found)
    order = records.get(BYTE_ORDER)
    swapped = order is not None and archive.open(order).read(9) != sys.byteorder.encode()
    stored = all(record.compress_type == zipfile.ZIP_STORED for record in every)
    mappable = stored and not swapped
    root, metadata, warnings = _own_record(archive, records.get(METADATA_RECORD))
    return Layout(
        mappable=mappable,
        nbytes=found.copied + (0 if mappable else sum(record.file_size for record in every)),
        values=sum(each.file_size for name, each in records.items() if name.startswith("data/")),
        root=root,
        metadata=metadata,
        warnings=warnings,
    )


def _check_records(records: Mapping[str, zipfile.ZipInfo], size: int) -> None:
    """Check what a zip archive of `size` bytes says of its records."""
    if min(record.header_offset for record in records.values()) != 0:
        raise FalseClaimError(later("its archive does not start with a record"))
    for name, record in records.items():
        stored = record.compress_type == zipfile.ZIP_STORED
        if record.flag_bits & ENCRYPTED:
            raise FalseClaimError(later("its archive is encrypted"))
        if record.compress_type not in READ_BY_TORCH:
            raise FalseClaimError(
                later("its record {name!r} is compressed in a way torch cannot read", name=name)
            )
        if record.header_offset + record.compress_size > size or (
            stored and record.compress_size != record.file_size
        ):
            raise FalseClaimError(
                later("its record {name!r} claims more than the file holds", name=name)
            )
    unpacked = sum(record.file_size for record in records.values())
    if unpacked > MAX_GROWTH * size:
        raise FalseClaimError(
            later(
                "its archive unpacks from {size:,} to {unpacked:,} bytes",
                size=size,
                unpacked=unpacked,
            )
        )


def _check_places(records: Mapping[str, zipfile.ZipInfo], file: BinaryIO, size: int) -> None:
    """Check that each record ends before the next begins; its own header says where it does."""
    end = size
    for record in sorted(records.values(), key=lambda record: -record.header_offset):
        file.seek(record.header_offset + LOCAL_LENGTHS)
        lengths = file.read(4)
        name, extra = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
        if record.header_offset + LOCAL_HEADER + name + extra + record.compress_size > end:
            raise FalseClaimError(later("the records of its archive overlap"))
        end = record.header_offset


def _check_code(path: Path, found: Scan) -> None:
    if found.foreign or not found.readable:
        raise needs_code(path, found)


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
    remark = tr("Its record {name} cannot be understood, and is left out.", name=METADATA_RECORD)
    return None, {}, (remark,)


def _inspect_legacy(path: Path, file: BinaryIO) -> Layout:
    storages: dict[str, int] = {}

    def note(storage: Storage) -> None:
        if not storage.typed:
            raise FalseClaimError(
                later("its dtypes are newer than its form, and torch cannot read them")
            )
        storages[storage.key] = max(storage.nbytes, storages.get(storage.key, 0))

    first = scan(file, note)
    if first.root != LEGACY_MAGIC:
        raise needs_code(path, first, plain=True)
    found = [scan(file, note) for _ in range(LEGACY_PICKLES - 1)]
    names = tuple(name for pickled in (first, *found) for name in pickled.foreign)
    # torch.load runs all of them, so that the names of all count; one may not be read to its end.
    order = sorted((first, *found), key=lambda each: (not each.foreign, each.root is not OPAQUE))
    for pickled in order:
        _check_code(path, replace(pickled, foreign=names))
    keys = found[-1].root
    if not isinstance(keys, list) or not storages.keys() <= set(filter(_is_text, keys)):
        raise FalseClaimError(later("some of its storages are missing"))
    behind = path.stat().st_size - file.tell()
    claimed = sum(LEGACY_COUNT_BYTES + nbytes for nbytes in storages.values())
    if claimed > behind:
        raise FalseClaimError(
            later(
                "its tensors claim {claimed:,} bytes, and {size:,} follow its pickle "
                "(a partial download?)",
                claimed=claimed,
                size=behind,
            )
        )
    return Layout(
        mappable=False,
        nbytes=behind + sum(pickled.copied for pickled in found),
        values=sum(storages.values()),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)
