"""The records of zip archives of torch, NumPy and Keras, checked completely before any is used.

Readers of zip archives differ on malformed ones: which of several directories is valid, where a
name ends, where a record starts. An archive is accepted only if it is unambiguous.
"""

from __future__ import annotations

import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import BinaryIO, Final, NamedTuple

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred
from prune_gui.monitor import check_cancelled

METADATA_RECORD: Final = "prune_gui.json"
"""The record that this program adds: {"root": [...], "metadata": {...}}. torch ignores it."""
PICKLE_RECORD: Final = "data.pkl"
BYTE_ORDER: Final = "byteorder"
VERSION_RECORD: Final = "version"
SCRIPT_RECORD: Final = "constants.pkl"
"""A record that only TorchScript archives have."""

ENCRYPTED_FLAG: Final = 1
KNOWN_FLAGS: Final = ENCRYPTED_FLAG | 0b1110 | 1 << 11
"""Flags for levels of compression, sizes after the bytes, and names in UTF-8 (APPNOTE 4.4.4)."""
DOS_FOLDER_FLAG: Final = 0x10
"""The external attribute of a folder; torch does not read the values of such a record."""
SUPPORTED_COMPRESSION: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
LOCAL_MAGIC: Final = b"PK\x03\x04"
LOCAL_HEADER_BYTES: Final = 30
"""Bytes of a local header before the name; the last four are two lengths (APPNOTE 4.3.7)."""
ENTRY_MAGIC: Final = b"PK\x01\x02"
ENTRY_BYTES: Final = 46
"""Bytes of an entry of the directory before the name (APPNOTE 4.3.12)."""
END_MAGIC: Final = b"PK\x05\x06"
END: Final = struct.Struct("<4s4H2IH")
LOCATOR_MAGIC: Final = b"PK\x06\x07"
LOCATOR: Final = struct.Struct("<4sIQI")
ZIP64_MAGIC: Final = b"PK\x06\x06"
ZIP64_END: Final = struct.Struct("<4sQ2H2I4Q")
"""The end of a directory, and its ZIP64 form with its locator (APPNOTE 4.3.14 to 4.3.16)."""
MAX_COMMENT_BYTES: Final = (1 << 16) - 1
MAX_GROWTH: Final = 100
"""The limit for the compression ratio of an archive; that of zeros is about 1000."""
MAX_SMALL_BYTES: Final = 1 << 20
CHUNK_BYTES: Final = 1 << 20
ZIP_ERRORS: Final = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError),
    *(RuntimeError, ValueError, OverflowError, struct.error),
)
"""What `zipfile` raises for archives that are damaged, or that it cannot read: also for names that
are not the text that they are declared to be."""


NO_END: Final = deferred("the directory of its archive does not end where it is declared to")


@dataclass(frozen=True, slots=True)
class Record:
    """One file of the archive."""

    entry: zipfile.ZipInfo
    find_start: Callable[[], int]

    @property
    def start(self) -> int:
        """The position of its bytes in the archive."""
        return self.find_start()

    @property
    def nbytes(self) -> int:
        """The uncompressed size in bytes."""
        return self.entry.file_size

    @property
    def stored(self) -> bool:
        """Whether its bytes are not compressed."""
        return self.entry.compress_type == zipfile.ZIP_STORED


class TorchLayout:
    """The records of a torch archive by name, without the name of the folder."""

    def __init__(
        self, file: BinaryIO, size: int, read_late: Callable[[int, int], bytes] | None = None
    ) -> None:
        check_end(file, size)
        self._archive = zipfile.ZipFile(file)
        entries = self._archive.infolist()
        # torch ignores the name of the folder, and case.
        folder = entries[0].filename.partition("/")[0] + "/" if entries else ""
        self.folder = folder.removesuffix("/")
        entries_by_name = {entry.orig_filename.partition("/")[2]: entry for entry in entries}
        self.records: Mapping[str, Record] = {}
        if not {PICKLE_RECORD, SCRIPT_RECORD} & entries_by_name.keys():
            return
        if len({entry.orig_filename.lower().partition("/")[2] for entry in entries}) < len(entries):
            raise FalseClaimError("its archive has two records of the same name")
        if any(not entry.orig_filename.startswith(folder) for entry in entries):
            raise FalseClaimError("its records are not in one folder")
        check_entries(entries_by_name, size)
        starts: dict[int, Callable[[], int]]
        if read_late is None:
            known = record_starts(entries, file, size)
            starts = {offset: partial(known.__getitem__, offset) for offset in known}
        else:
            starts = {
                entry.header_offset: cache(partial(_record_start, read_late, entry, end))
                for entry, end in _with_ends(entries, size)
            }
        self.records = {
            name: Record(entry, starts[entry.header_offset])
            for name, entry in entries_by_name.items()
            if not _is_empty_folder(entry)
        }

    def read(self, name: str) -> bytes:
        """Return the bytes of a record."""
        octets = bytearray(self.records[name].nbytes)
        self.read_into(name, memoryview(octets))
        return bytes(octets)

    def check_small_records(self) -> None:
        """Check the checksums of the small records that are not storages."""
        for name, record in self.records.items():
            if not name.startswith("data/") and record.nbytes <= MAX_SMALL_BYTES:
                self.read(name)

    def read_into(self, name: str, out: memoryview) -> None:
        """Fill `out` with the first bytes of a record, and check the checksum of all its bytes."""
        try:
            fill(out, self._archive, self.records[name].entry)
        except ZIP_ERRORS as error:
            raise FalseClaimError("its record {name!r} is damaged", name=name) from error


class RecordChecks:
    """Compares records with their checksums, each once. Thread-safe."""

    def __init__(self, archive: zipfile.ZipFile, source: Source) -> None:
        self._archive, self._source = archive, source
        self._lock = threading.Lock()
        self._checked: set[int] = set()

    def check(self, entry: zipfile.ZipInfo) -> None:
        """Read a record completely, unless it was checked before."""
        self._source.check()
        with self._lock:
            if entry.header_offset in self._checked:
                return
            with zip_errors(self._source):
                for _ in record_chunks(self._archive, entry):
                    check_cancelled()
            self._checked.add(entry.header_offset)


def damaged_zip_error(name: str, error: Exception) -> CheckpointError:
    """Return the refusal of the file `name`, which the reader of zip archives cannot read."""
    return CheckpointError(
        "{name} is a damaged zip archive ({reason}; a partial download?). Download the file again.",
        name=name,
        reason=one_line(str(error), 200),
    )


def check_end(file: BinaryIO, size: int) -> None:
    """Check that the directory is followed by the end records, and these by the end of the file."""
    reach = min(size, END.size + MAX_COMMENT_BYTES)
    file.seek(size - reach)
    tail = file.read(reach)
    end_start = tail.rfind(END_MAGIC)
    if end_start < 0 or len(tail) - end_start < END.size:
        raise zipfile.BadZipFile("File is not a zip file")
    _, *disks, on_disk, entries, nbytes, offset, comment = END.unpack_from(tail, end_start)
    surplus = len(tail) - end_start - END.size - comment
    if surplus < 0:
        raise zipfile.BadZipFile("its end is not at the end of the file")
    if surplus:
        raise FalseClaimError(
            "it is larger than its archive declares (bytes after its end: {nbytes:,})",
            nbytes=surplus,
        )
    end_offset = size - reach + end_start
    wide_bytes = LOCATOR.size + ZIP64_END.size
    file.seek(max(0, end_offset - wide_bytes))
    before = file.read(wide_bytes)
    if end_offset >= wide_bytes and before.startswith(LOCATOR_MAGIC, ZIP64_END.size):
        end_offset -= wide_bytes
        _, *located = LOCATOR.unpack_from(before, ZIP64_END.size)
        magic, rest, _, _, disk, first_disk, *wide = ZIP64_END.unpack_from(before)
        right = (
            magic == ZIP64_MAGIC
            and rest == ZIP64_END.size - 12
            and located == [0, end_offset, 1]
            and disk == first_disk == 0
        )
        if not right or not _agree((on_disk, entries, nbytes, offset), wide):
            raise FalseClaimError("its archive has two directories that differ")
        on_disk, entries, nbytes, offset = wide
    if any(disks) or on_disk != entries or offset + nbytes != end_offset:
        raise FalseClaimError(NO_END)
    file.seek(offset)
    directory = file.read(nbytes)
    position = 0
    for _ in range(entries):
        if not directory.startswith(ENTRY_MAGIC, position):
            raise FalseClaimError(NO_END)
        position += ENTRY_BYTES + sum(_number(directory, position + at, 2) for at in (28, 30, 32))
    if position != nbytes:
        raise FalseClaimError(NO_END)


def _agree(narrow: Sequence[int], wide: Sequence[int]) -> bool:
    """Return whether fields of 16 and 32 bits equal those of 64 bits, or defer to them."""
    limits = (1 << 16) - 1, (1 << 16) - 1, (1 << 32) - 1, (1 << 32) - 1
    return all(
        narrow_field in (wide_field, limit)
        for narrow_field, wide_field, limit in zip(narrow, wide, limits, strict=True)
    )


def _number(octets: bytes, offset: int, nbytes: int) -> int:
    return int.from_bytes(octets[offset : offset + nbytes], "little")


def _is_empty_folder(entry: zipfile.ZipInfo) -> bool:
    """Return whether an entry is only a folder, as written by programs that pack folders."""
    return entry.orig_filename.endswith("/") and entry.file_size == entry.compress_size == 0


def check_entries(entries: Mapping[str, zipfile.ZipInfo], size: int) -> None:
    """Check the directory entries of an archive of `size` bytes."""
    if min(entry.header_offset for entry in entries.values()) != 0:
        raise FalseClaimError("its archive does not start with a record")
    for name, entry in entries.items():
        stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.flag_bits & ENCRYPTED_FLAG:
            raise FalseClaimError("its archive is encrypted")
        if (
            entry.compress_type not in SUPPORTED_COMPRESSION
            or entry.flag_bits & ~KNOWN_FLAGS
            or entry.volume
        ):
            raise FalseClaimError(
                "its record {name!r} is compressed in a way torch cannot read", name=name
            )
        folder = entry.external_attr & DOS_FOLDER_FLAG or entry.orig_filename.endswith("/")
        if folder and not _is_empty_folder(entry):
            raise FalseClaimError("its record {name!r} is marked as a folder", name=name)
        if entry.header_offset + entry.compress_size > size or (
            stored and entry.compress_size != entry.file_size
        ):
            raise FalseClaimError("its record {name!r} is declared larger than the file", name=name)
    unpacked = sum(entry.file_size for entry in entries.values())
    if unpacked > MAX_GROWTH * size:
        raise FalseClaimError(
            "its archive unpacks from {size:,} to {unpacked:,} bytes", size=size, unpacked=unpacked
        )


def record_starts(entries: Sequence[zipfile.ZipInfo], file: BinaryIO, size: int) -> dict[int, int]:
    """Return the position of the bytes of each record, by the position of its local header."""

    def read(nbytes: int, offset: int) -> bytes:
        file.seek(offset)
        return file.read(nbytes)

    pairs = _with_ends(entries, size)
    return {entry.header_offset: _record_start(read, entry, end) for entry, end in pairs}


def _with_ends(
    entries: Sequence[zipfile.ZipInfo], size: int
) -> Iterator[tuple[zipfile.ZipInfo, int]]:
    """Yield entries in the order of their records, last first, and where each record must end."""
    end = size
    for entry in sorted(entries, key=lambda entry: -entry.header_offset):
        yield entry, end
        end = entry.header_offset


def _record_start(read: Callable[[int, int], bytes], entry: zipfile.ZipInfo, end: int) -> int:
    header = read(LOCAL_HEADER_BYTES, entry.header_offset)
    name_nbytes, extra_nbytes = _number(header, 26, 2), _number(header, 28, 2)
    start = entry.header_offset + LOCAL_HEADER_BYTES + name_nbytes + extra_nbytes
    if not header.startswith(LOCAL_MAGIC) or start + entry.compress_size > end:
        raise FalseClaimError("the records of its archive overlap")
    if _number(header, 8, 2) != entry.compress_type or _number(header, 6, 2) & ENCRYPTED_FLAG:
        raise FalseClaimError(
            "its record {name!r} has two descriptions that differ",
            name=entry.orig_filename.partition("/")[2] or entry.orig_filename,
        )
    return start


class OpenArchive(NamedTuple):
    """An archive whose directory is checked: the entries by name.

    `starts` has the position of the content of each record, by that of its header.
    """

    zip: zipfile.ZipFile
    entries: dict[str, zipfile.ZipInfo]
    starts: dict[int, int]
    checks: RecordChecks


def record_names(start: bytes, file: BinaryIO) -> list[str]:
    """Return the names of the records of an archive; [] for another file."""
    try:
        return zipfile.ZipFile(file).namelist() if start.startswith(b"PK\x03\x04") else []
    except ZIP_ERRORS:
        return []


@contextmanager
def zip_errors(source: Source) -> Iterator[None]:
    """Convert what the reader of archives raises to a refusal of the file."""
    try:
        yield
    except ZIP_ERRORS as error:
        raise damaged_zip_error(source.path.name, error) from error


def open_archive(source: Source) -> OpenArchive:
    """Open an archive, and check its directory."""
    file = source.open_again()
    with zip_errors(source):
        check_end(file, source.size)
        archive = zipfile.ZipFile(file)
        listed = archive.infolist()
        entries = {entry.orig_filename: entry for entry in listed}
        if len(entries) < len(listed):
            raise FalseClaimError("its archive has two records of the same name")
        if entries:
            check_entries(entries, source.size)
        starts = record_starts(listed, file, source.size)
    return OpenArchive(archive, entries, starts, RecordChecks(archive, source))


def record_chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a record."""
    with archive.open(entry) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def fill(out: memoryview, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, start: int = 0) -> None:
    """Fill `out` with a record from `start` on, and check all of it; raises `ZIP_ERRORS`."""
    with archive.open(entry) as file:
        file.read(start)
        done = 0
        while chunk := file.read(CHUNK_BYTES):
            part = chunk[: max(0, len(out) - done)]
            out[done : done + len(part)] = part
            done += len(chunk)
    if start + done != entry.file_size:
        raise zipfile.BadZipFile("a record ends early")
