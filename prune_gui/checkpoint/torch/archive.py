"""The zip archive that torch.load reads, written as a stream.

Records are stored uncompressed, and their values begin at multiples of 64 bytes, as those of
torch.save do: then torch.load(mmap=True) gives tensors that are aligned for any instruction.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from prune_gui.checkpoint.byte_chunks import PIECE_BYTES
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.monitor import Monitor

FOLDER: Final = "archive"
"""The folder inside the zip file; torch.save uses this name when it writes to an open file."""
ALIGNMENT: Final = 64
PADDING_TAG: Final = b"FB"
"""How torch.save marks what it fills up with, which readers skip; two bytes of length follow."""
LARGEST_PLAIN: Final = (1 << 31) - 1
ZIP64_BYTES: Final = 20
"""Bytes of a record that a plain header can tell; and how much longer is one that tells more."""
MOST_PLAIN: Final = (1 << 16) - 1
DIRECTORY_HEADER: Final = 46
END_BYTES: Final = 22
ZIP64_END_BYTES: Final = 76
"""Records that a plain directory can count, and the sizes of its parts (PKWARE's APPNOTE, 4.3)."""


class TorchArchive:
    """An archive that is being written, record by record. A context manager.

    On leaving, its directory is written, and all is flushed to the disk.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._archive = zipfile.ZipFile(self._file, "w")

    def add(self, name: str, octets: bytes) -> None:
        """Write a small record."""
        self.stream(name, len(octets), [memoryview(octets)])

    def stream(self, name: str, nbytes: int, pieces: Iterable[memoryview]) -> int:
        """Write a record of so many bytes, and return its CRC-32."""
        # A ZipInfo has no date of today: the same input gives the same bytes on any day.
        record = zipfile.ZipInfo(f"{FOLDER}/{name}")
        _, padding = _header(self._file.tell(), name, nbytes)
        record.extra = PADDING_TAG + padding.to_bytes(2, "little") + b"Z" * padding
        with self._archive.open(record, "w", force_zip64=nbytes > LARGEST_PLAIN) as file:
            for piece in pieces:
                file.write(piece)
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
    """Return how large an archive of records of these names and numbers of bytes will be."""
    end, directory, count = 0, 0, 0
    for name, nbytes in records:
        header, padding = _header(end, name, nbytes)
        far, large = end > LARGEST_PLAIN, nbytes > LARGEST_PLAIN
        told_at_length = 4 * (far or large) + 8 * far + 16 * large
        names = len(FOLDER) + 1 + len(name)
        directory += DIRECTORY_HEADER + names + told_at_length + len(PADDING_TAG) + 2 + padding
        end += header + padding + nbytes
        count += 1
    large = max(end, directory) > LARGEST_PLAIN or count > MOST_PLAIN
    return end + directory + END_BYTES + large * ZIP64_END_BYTES


def _header(at: int, name: str, nbytes: int) -> tuple[int, int]:
    """Return the length of the header of a record that begins at `at`, and what to fill up."""
    large = nbytes > LARGEST_PLAIN
    names = len(FOLDER) + 1 + len(name)
    header = LOCAL_HEADER + names + large * ZIP64_BYTES + len(PADDING_TAG) + 2
    return header, -(at + header) % ALIGNMENT


def damaged_record(path: Path, monitor: Monitor, names: Iterable[str] | None = None) -> str | None:
    """Return the name of the first record of an archive that disagrees with its checksum, if any.

    Args:
        path: of the archive.
        monitor: counts the bytes that were read.
        names: of the records to look at, as `TorchArchive` was given them; None looks at all.

    Raises:
        OSError: the file cannot be read.
        Cancelled: the monitor says so.
    """
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if names is not None:
            records = [archive.getinfo(f"{FOLDER}/{name}") for name in names]
        monitor.expect(sum(record.file_size for record in records))
        for record in records:
            try:
                with archive.open(record) as file:
                    while piece := file.read(PIECE_BYTES):
                        monitor.advance(len(piece))
            except (zipfile.BadZipFile, zlib.error, EOFError):
                return record.filename.partition("/")[2]
    return None
