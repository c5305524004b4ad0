"""Writing the zip archive that torch.load reads, as a stream.

Records are stored uncompressed, and their values start at multiples of 64 bytes, as in torch.save.
torch.load with mmap=True then returns tensors that are aligned for any SIMD instruction. On
request, a record is compressed; torch.load without mmap reads it.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from prune_gui.checkpoint.source import CHUNK_BYTES
from prune_gui.checkpoint.torch.deflate import LAST_BLOCK
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.monitor import Monitor

FOLDER: Final = "archive"
"""The usual folder inside the zip file, as torch.save names it when it writes to an open file."""
ALIGNMENT: Final = 64
PADDING_TAG: Final = b"FB"
"""Id of the extra field that torch.save uses as padding; two bytes of length follow."""
MAX_PLAIN_BYTES: Final = (1 << 31) - 1
ZIP64_EXTRA_BYTES: Final = 20
"""The limit for records without ZIP64 fields, and the bytes that these add to a local header."""
MAX_PLAIN_RECORDS: Final = (1 << 16) - 1
DIRECTORY_HEADER_BYTES: Final = 46
END_BYTES: Final = 22
ZIP64_END_BYTES: Final = 76
"""Records that a directory without ZIP64 can count, and the sizes of its headers (APPNOTE 4.3)."""
MAX_DEFLATED_SHARE: Final = 0.95
"""A record that compression makes less than 5 % smaller is stored, which is faster to read."""
FILE_MODE: Final = 0o600 << 16
"""The external attributes that `zipfile` gives to records by default."""


class TorchArchive:
    """An archive that is written record by record. A context manager.

    On exit, the directory is written, and the file is flushed to the disk.
    """

    def __init__(self, path: Path, folder: str = FOLDER) -> None:
        self._folder = folder
        self._file: BinaryIO = path.open("wb")
        self._archive = zipfile.ZipFile(self._file, "w")

    def add(self, name: str, octets: bytes) -> None:
        """Write a small record."""
        self.stream(name, len(octets), [memoryview(octets)])

    def stream(self, name: str, nbytes: int, chunks: Iterable[memoryview]) -> int:
        """Write a record of `nbytes` bytes, and return its CRC-32."""
        # A plain ZipInfo has a constant date, so that the same input gives the same bytes.
        record = self._record(name, nbytes)
        with self._archive.open(record, "w", force_zip64=nbytes > MAX_PLAIN_BYTES) as file:
            for chunk in chunks:
                file.write(chunk)
        return record.CRC

    def deflate(
        self, name: str, nbytes: int, chunks: Iterable[tuple[memoryview, bytes]]
    ) -> int | None:
        """Write a compressed record of `nbytes` bytes, and return its CRC-32.

        Returns None, and writes nothing, if this does not make the record smaller.

        Args:
            nbytes: the number of bytes before compression.
            chunks: the bytes, and the same bytes as `deflated` returns them.
        """
        record = zipfile.ZipInfo(f"{self._folder}/{name}")
        record.compress_type, record.external_attr = zipfile.ZIP_DEFLATED, FILE_MODE
        record.CRC, record.header_offset = 0, self._file.tell()
        large = nbytes > MAX_PLAIN_BYTES
        self._file.write(record.FileHeader(large))  # again below, with the sizes
        start = self._file.tell()
        checksum = 0
        for octets, compressed in chunks:
            checksum = zlib.crc32(octets, checksum)
            self._file.write(compressed)
        self._file.write(LAST_BLOCK)
        end = self._file.tell()
        self._file.seek(record.header_offset)
        if end - start > MAX_DEFLATED_SHARE * nbytes:
            self._file.truncate()
            return None
        record.CRC, record.file_size, record.compress_size = checksum, nbytes, end - start
        self._file.write(record.FileHeader(large))
        self._file.seek(end)
        self._append(record)
        return checksum

    def copy(self, name: str, entry: zipfile.ZipInfo, octets: Iterable[memoryview]) -> None:
        """Write a record of another archive as it is compressed there.

        Args:
            octets: its compressed bytes.
        """
        record = self._record(name, entry.file_size)
        record.compress_type = entry.compress_type
        record.CRC, record.file_size = entry.CRC, entry.file_size
        record.compress_size, record.header_offset = entry.compress_size, self._file.tell()
        self._file.write(record.FileHeader(zip64=entry.file_size > MAX_PLAIN_BYTES))
        self._file.writelines(octets)
        self._append(record)

    def _append(self, record: zipfile.ZipInfo) -> None:
        """Add a record to the directory that was written up to the current position."""
        # zipfile does the same for a folder; it cannot write bytes that are already compressed.
        self._archive.filelist.append(record)
        self._archive.NameToInfo[record.filename] = record
        self._archive.start_dir = self._file.tell()

    def _record(self, name: str, nbytes: int) -> zipfile.ZipInfo:
        """Return the entry of a record that starts here."""
        record = zipfile.ZipInfo(f"{self._folder}/{name}")
        _, padding = _header(self._file.tell(), record.filename, nbytes)
        record.extra = PADDING_TAG + padding.to_bytes(2, "little") + b"Z" * padding
        return record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            self._archive.close()
            if error is None:
                flush(self._file)


def archive_nbytes(records: Iterable[tuple[str, int]], folder: str = FOLDER) -> int:
    """Return the bytes of an archive with these records, given as (name, bytes)."""
    end, directory, count = 0, 0, 0
    for name, nbytes in records:
        path = f"{folder}/{name}"
        header, padding = _header(end, path, nbytes)
        far, large = end > MAX_PLAIN_BYTES, nbytes > MAX_PLAIN_BYTES
        zip64_nbytes = 4 * (far or large) + 8 * far + 16 * large
        extra_nbytes = zip64_nbytes + len(PADDING_TAG) + 2 + padding
        directory += DIRECTORY_HEADER_BYTES + len(path.encode()) + extra_nbytes
        end += header + padding + nbytes
        count += 1
    large = max(end, directory) > MAX_PLAIN_BYTES or count > MAX_PLAIN_RECORDS
    return end + directory + END_BYTES + large * ZIP64_END_BYTES


def _header(offset: int, path: str, nbytes: int) -> tuple[int, int]:
    """Return the bytes of the local header of a record at `offset`, and those of its padding."""
    large = nbytes > MAX_PLAIN_BYTES
    name_nbytes = len(path.encode())
    header = LOCAL_HEADER_BYTES + name_nbytes + large * ZIP64_EXTRA_BYTES + len(PADDING_TAG) + 2
    return header, -(offset + header) % ALIGNMENT


def damaged_record(
    path: Path | BinaryIO, monitor: Monitor, names: Iterable[str] | None = None
) -> str | None:
    """Return the name of the first record of an archive that does not match its CRC-32, or None.

    Legacy torch files are no archives, and have no checksums.

    Args:
        monitor: counts the bytes that are read.
    """
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if names is not None:
            by_name = {record.filename.partition("/")[2]: record for record in records}
            records = [by_name[name] for name in names]
        monitor.expect(sum(record.file_size for record in records))
        for record in records:
            try:
                with archive.open(record) as file:
                    while chunk := file.read(CHUNK_BYTES):
                        monitor.advance(len(chunk))
            except (zipfile.BadZipFile, zlib.error, EOFError):
                return record.filename.partition("/")[2]
    return None
