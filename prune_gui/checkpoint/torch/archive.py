"""Writing the zip archive that torch.load reads, as a stream.

Records are stored uncompressed, and their values start at multiples of 64 bytes, as in torch.save.
torch.load(mmap=True) then returns tensors that are aligned for any SIMD instruction.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from prune_gui.checkpoint.byte_chunks import CHUNK_BYTES
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.monitor import Monitor

FOLDER: Final = "archive"
"""The folder inside the zip file; torch.save uses this name when it writes to an open file."""
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


class TorchArchive:
    """An archive that is written record by record. A context manager.

    On exit, the directory is written, and the file is flushed to the disk.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._archive = zipfile.ZipFile(self._file, "w")

    def add(self, name: str, octets: bytes) -> None:
        """Write a small record."""
        self.stream(name, len(octets), [memoryview(octets)])

    def stream(self, name: str, nbytes: int, chunks: Iterable[memoryview]) -> int:
        """Write a record of `nbytes` bytes, and return its CRC-32."""
        # A plain ZipInfo has a constant date, so that the same input gives the same bytes.
        record = zipfile.ZipInfo(f"{FOLDER}/{name}")
        _, padding = _header(self._file.tell(), name, nbytes)
        record.extra = PADDING_TAG + padding.to_bytes(2, "little") + b"Z" * padding
        with self._archive.open(record, "w", force_zip64=nbytes > MAX_PLAIN_BYTES) as file:
            for chunk in chunks:
                file.write(chunk)
        return record.CRC

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


def archive_nbytes(records: Iterable[tuple[str, int]]) -> int:
    """Return the bytes of an archive with these records, given as (name, bytes)."""
    end, directory, count = 0, 0, 0
    for name, nbytes in records:
        header, padding = _header(end, name, nbytes)
        far, large = end > MAX_PLAIN_BYTES, nbytes > MAX_PLAIN_BYTES
        zip64_nbytes = 4 * (far or large) + 8 * far + 16 * large
        name_nbytes = len(FOLDER) + 1 + len(name)
        directory += (
            DIRECTORY_HEADER_BYTES + name_nbytes + zip64_nbytes + len(PADDING_TAG) + 2 + padding
        )
        end += header + padding + nbytes
        count += 1
    large = max(end, directory) > MAX_PLAIN_BYTES or count > MAX_PLAIN_RECORDS
    return end + directory + END_BYTES + large * ZIP64_END_BYTES


def _header(offset: int, name: str, nbytes: int) -> tuple[int, int]:
    """Return the bytes of the local header of a record at `offset`, and those of its padding."""
    large = nbytes > MAX_PLAIN_BYTES
    name_nbytes = len(FOLDER) + 1 + len(name)
    header = LOCAL_HEADER_BYTES + name_nbytes + large * ZIP64_EXTRA_BYTES + len(PADDING_TAG) + 2
    return header, -(offset + header) % ALIGNMENT


def damaged_record(path: Path, monitor: Monitor, names: Iterable[str] | None = None) -> str | None:
    """Return the name of the first record of an archive that does not match its CRC-32, or None.

    Legacy torch files are no archives, and have no checksums.

    Args:
        path: the path of the torch file.
        monitor: counts the bytes that are read.
        names: the names of the records to check, as passed to `TorchArchive`; None checks all.

    Raises:
        OSError: the file cannot be read.
        Cancelled: the user cancels.
    """
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if names is not None:
            records = [archive.getinfo(f"{FOLDER}/{name}") for name in names]
        monitor.expect(sum(record.file_size for record in records))
        for record in records:
            try:
                with archive.open(record) as file:
                    while chunk := file.read(CHUNK_BYTES):
                        monitor.advance(len(chunk))
            except (zipfile.BadZipFile, zlib.error, EOFError):
                return record.filename.partition("/")[2]
    return None
