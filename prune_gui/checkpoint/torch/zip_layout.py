"""The zip archive of a torch file: its records, checked completely before one is believed.

Readers of zip archives disagree about damaged ones: which of several directories counts, what a
name is, where a record begins. An archive is accepted only if all of them must agree.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from prune_gui.checkpoint.torch.pickle_machine import FalseClaimError
from prune_gui.language import later

METADATA_RECORD: Final = "prune_gui.json"
"""A record that we add to torch archives: {"root": [...], "metadata": {...}}. torch ignores it."""
PICKLE_RECORD: Final = "data.pkl"
BYTE_ORDER: Final = "byteorder"
VERSION_RECORD: Final = "version"
SCRIPT_RECORD: Final = "constants.pkl"
"""A record that TorchScript archives alone have."""

ENCRYPTED: Final = 1
DOS_FOLDER: Final = 0x10
"""The external attribute of a folder; torch leaves the values of such a record unwritten."""
READ_BY_TORCH: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
LOCAL_MAGIC: Final = b"PK\x03\x04"
LOCAL_HEADER: Final = 30
"""Bytes before the name of a record, of which the last four are two lengths (APPNOTE 4.3.7)."""
END_MAGIC: Final = b"PK\x05\x06"
END_BYTES: Final = 22
LOCATOR_MAGIC: Final = b"PK\x06\x07"
LOCATOR_BYTES: Final = 20
ZIP64_MAGIC: Final = b"PK\x06\x06"
ZIP64_BYTES: Final = 56
"""The end of a directory, and of one that needs 64 bits (APPNOTE 4.3.14 to 4.3.16)."""
MAX_COMMENT_BYTES: Final = (1 << 16) - 1
MAX_GROWTH: Final = 100
"""How many times its size a compressed archive may unpack to; one of zeros alone comes to 1000."""
CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One file of the archive.

    Attributes:
        entry: as its directory lists it.
        start: where its bytes begin in the archive.
    """

    entry: zipfile.ZipInfo
    start: int

    @property
    def nbytes(self) -> int:
        """Its size, unpacked."""
        return self.entry.file_size

    @property
    def stored(self) -> bool:
        """Whether its bytes lie in the archive as they are."""
        return self.entry.compress_type == zipfile.ZIP_STORED


class TorchLayout:
    """The records of a torch archive.

    Args:
        file: the archive; stays the caller's.
        size: of the file, in bytes.

    Attributes:
        records: by their names within the one folder that holds them all.

    Raises:
        FalseClaimError: the archive breaks a rule, or says different things to different readers.
        zipfile.BadZipFile: its directory is damaged.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        _check_end(file, size)
        self._archive = zipfile.ZipFile(file)
        entries = self._archive.infolist()
        # The name of the folder does not matter to torch, nor does case.
        folder = entries[0].filename.partition("/")[0] + "/" if entries else ""
        named = {entry.orig_filename.partition("/")[2]: entry for entry in entries}
        self.records: Mapping[str, Record] = {}
        if not {PICKLE_RECORD, SCRIPT_RECORD} & named.keys():
            return
        if len({entry.orig_filename.lower().partition("/")[2] for entry in entries}) < len(entries):
            raise FalseClaimError(later("its archive has two records of the same name"))
        if any(not entry.orig_filename.startswith(folder) for entry in entries):
            raise FalseClaimError(later("its records do not lie in one folder"))
        _check_entries(named, size)
        starts = _starts(entries, file, size)
        self.records = {
            name: Record(entry, starts[entry.header_offset])
            for name, entry in named.items()
            if not _is_empty_folder(entry)
        }

    def read(self, name: str) -> bytes:
        """Return what a record holds.

        Raises:
            FalseClaimError: it does not unpack to what the directory says.
        """
        octets = bytearray(self.records[name].nbytes)
        self.read_into(name, memoryview(octets))
        return bytes(octets)

    def read_into(self, name: str, out: memoryview) -> None:
        """Fill `out` with the first bytes of a record, and compare all of it with its checksum.

        Raises:
            FalseClaimError: it does not unpack to what the directory says.
        """
        record = self.records[name]
        done = 0
        try:
            with self._archive.open(record.entry) as file:
                while chunk := file.read(CHUNK_BYTES):
                    part = chunk[: max(0, len(out) - done)]
                    out[done : done + len(part)] = part
                    done += len(chunk)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise FalseClaimError(later("its record {name!r} is damaged", name=name)) from error
        if done != record.nbytes:
            raise FalseClaimError(later("its record {name!r} is damaged", name=name))


def _check_end(file: BinaryIO, size: int) -> None:
    """Check that the directory ends where the records of its end begin, and the file behind those.

    Then there is one directory, wherever a reader looks for it.
    """
    reach = min(size, END_BYTES + MAX_COMMENT_BYTES)
    file.seek(size - reach)
    tail = file.read(reach)
    found = tail.rfind(END_MAGIC)
    if found < 0 or len(tail) - found < END_BYTES:
        raise zipfile.BadZipFile("File is not a zip file")
    end = tail[found:]
    if found + END_BYTES + _number(end, 20, 2) != len(tail):
        raise zipfile.BadZipFile("its end is not at the end of the file")
    at = size - reach + found
    numbers = _number(end, 8, 2), _number(end, 10, 2), _number(end, 12, 4), _number(end, 16, 4)
    disks = _number(end, 4, 2), _number(end, 6, 2)
    file.seek(max(0, at - LOCATOR_BYTES))
    locator = file.read(LOCATOR_BYTES)
    if at >= LOCATOR_BYTES + ZIP64_BYTES and locator.startswith(LOCATOR_MAGIC):
        at -= LOCATOR_BYTES + ZIP64_BYTES
        file.seek(at)
        zip64 = file.read(ZIP64_BYTES)
        right = (
            zip64.startswith(ZIP64_MAGIC)
            and _number(zip64, 4, 8) == ZIP64_BYTES - 12
            and _number(locator, 8, 8) == at
            and (_number(locator, 4, 4), _number(locator, 16, 4)) == (0, 1)
            and _number(zip64, 16, 8) == 0
        )
        wide = (
            *(_number(zip64, 24, 8), _number(zip64, 32, 8)),
            *(_number(zip64, 40, 8), _number(zip64, 48, 8)),
        )
        if not right or not _agree(numbers, wide):
            raise FalseClaimError(later("its archive has two directories that differ"))
        numbers = wide
    here, entries, nbytes, offset = numbers
    if any(disks) or here != entries or offset + nbytes != at:
        raise FalseClaimError(later("its archive has a directory that does not end where it says"))


def _agree(narrow: Sequence[int], wide: Sequence[int]) -> bool:
    """Tell whether fields of 16 and 32 bits say what those of 64 do, or leave it to them."""
    limits = (1 << 16) - 1, (1 << 16) - 1, (1 << 32) - 1, (1 << 32) - 1
    return all(
        one in (other, limit) for one, other, limit in zip(narrow, wide, limits, strict=True)
    )


def _number(octets: bytes, at: int, nbytes: int) -> int:
    return int.from_bytes(octets[at : at + nbytes], "little")


def _is_empty_folder(entry: zipfile.ZipInfo) -> bool:
    """Tell an entry for a folder and nothing else, as programs that pack folders write them."""
    return entry.orig_filename.endswith("/") and entry.file_size == entry.compress_size == 0


def _check_entries(entries: Mapping[str, zipfile.ZipInfo], size: int) -> None:
    """Check what the directory of an archive of `size` bytes says of its records."""
    if min(entry.header_offset for entry in entries.values()) != 0:
        raise FalseClaimError(later("its archive does not start with a record"))
    for name, entry in entries.items():
        stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.flag_bits & ENCRYPTED:
            raise FalseClaimError(later("its archive is encrypted"))
        if entry.compress_type not in READ_BY_TORCH:
            raise FalseClaimError(
                later("its record {name!r} is compressed in a way torch cannot read", name=name)
            )
        folder = entry.external_attr & DOS_FOLDER or entry.orig_filename.endswith("/")
        if folder and not _is_empty_folder(entry):
            raise FalseClaimError(later("its record {name!r} is marked as a folder", name=name))
        if entry.header_offset + entry.compress_size > size or (
            stored and entry.compress_size != entry.file_size
        ):
            raise FalseClaimError(
                later("its record {name!r} claims more than the file holds", name=name)
            )
    unpacked = sum(entry.file_size for entry in entries.values())
    if unpacked > MAX_GROWTH * size:
        raise FalseClaimError(
            later(
                "its archive unpacks from {size:,} to {unpacked:,} bytes",
                size=size,
                unpacked=unpacked,
            )
        )


def _starts(entries: Sequence[zipfile.ZipInfo], file: BinaryIO, size: int) -> dict[int, int]:
    """Return where the bytes of each record begin, by where its own header does.

    Raises:
        FalseClaimError: two records overlap, or a header says something else than the directory.
    """
    starts: dict[int, int] = {}
    end = size
    for entry in sorted(entries, key=lambda entry: -entry.header_offset):
        file.seek(entry.header_offset)
        header = file.read(LOCAL_HEADER)
        name_nbytes, extra_nbytes = _number(header, 26, 2), _number(header, 28, 2)
        start = entry.header_offset + LOCAL_HEADER + name_nbytes + extra_nbytes
        if not header.startswith(LOCAL_MAGIC) or start + entry.compress_size > end:
            raise FalseClaimError(later("the records of its archive overlap"))
        if _number(header, 8, 2) != entry.compress_type or _number(header, 6, 2) & ENCRYPTED:
            raise FalseClaimError(
                later(
                    "its record {name!r} is described in two ways",
                    name=entry.orig_filename.partition("/")[2],
                )
            )
        starts[entry.header_offset] = start
        end = entry.header_offset
    return starts
