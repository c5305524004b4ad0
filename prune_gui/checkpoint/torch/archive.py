"""Writing the zip archive that torch.load reads, as a stream.

Records are stored uncompressed, and their values start at multiples of 64 bytes, as in torch.save.
torch.load with mmap=True then returns tensors that are aligned for any SIMD instruction. On
request, a record is compressed with deflate (RFC 1951), which torch.load reads without mmap: as in
pigz, each chunk by itself, up to a byte boundary, so that the chunks after each other are one
stream. The bytes do not depend on the number of threads.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self, TypeVar

from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint.source import CHUNK_BYTES
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES, MAX_GROWTH
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.plain_files import prefetch
from prune_gui.monitor import Monitor

FOLDER: Final = "archive"
"""The usual folder inside the zip file, as torch.save names it when it writes to an open file."""
VALUES_FOLDER: Final = "data/"
"""How the names of the records with storages begin."""
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
DEFLATE_CHUNK_BYTES: Final = 1 << 20
"""Uncompressed bytes per chunk."""
TRIAL_BYTES: Final = 1 << 15
"""The window of deflate: bytes of a chunk on which the two settings are compared."""
LEVEL: Final = 4
"""The level for repeating values, and for the search of the best Huffman codes."""
MEMORY_LEVEL: Final = 9
"""The largest one: a Huffman code then covers the most values."""
MIN_GAIN: Final = 0.9
"""`LEVEL` without Z_RLE is used if its result is at most this share of that with Z_RLE."""
EMPTY_BLOCK: Final = b"\0\0\0\xff\xff"
LAST_BLOCK: Final = b"\3\0"
"""An empty stored block at a byte boundary, and the empty block that ends a stream (RFC 1951, 3.2).
"""
Owner = TypeVar("Owner")
Item = TypeVar("Item")


class NewRecord(NamedTuple):
    """A record to write: `chunks` returns its `nbytes` bytes."""

    name: str
    nbytes: int
    chunks: Callable[[], Iterable[memoryview]]
    has_values: bool = True  # of tensors, so that compressing it may be worth it
    tensor: str = ""  # whose values are all of it
    compressed: zipfile.ZipInfo | None = None  # the record of an archive that is copied as it is
    is_kept: bool = False  # it has bytes of the input that no checksum of a tensor covers


class TorchArchive:
    """An archive that is written record by record, and flushed to the disk on exit."""

    def __init__(self, path: Path, folder: str = FOLDER) -> None:
        self._folder = folder
        self._file: BinaryIO = path.open("wb")
        self._archive = zipfile.ZipFile(self._file, "w")

    def add(self, name: str, octets: bytes) -> None:
        """Write a small record."""
        self.stream(name, len(octets), [memoryview(octets)])

    def write(
        self, records: Sequence[NewRecord], monitor: Monitor, *, compressed: bool
    ) -> Iterator[tuple[NewRecord, int]]:
        """Write records, and yield each with its CRC-32; `monitor` counts their bytes."""
        groups = groupby(records, lambda each: compressed and each.has_values)
        for is_deflated, group in groups:
            write = self._write_deflated if is_deflated else self._write_stored
            yield from write(list(group), monitor)

    def _write_stored(
        self, records: Sequence[NewRecord], monitor: Monitor
    ) -> Iterator[tuple[NewRecord, int]]:
        with closing(_prepared(records)) as prepared:
            for record, group in groupby(prepared, itemgetter(0)):
                chunks = _counted((chunk for _, chunk in group), monitor, len)
                if record.compressed is not None:
                    self.copy(record.name, record.compressed, chunks)
                    yield record, record.compressed.CRC
                else:
                    yield record, self.stream(record.name, record.nbytes, chunks)

    def _write_deflated(
        self, records: Sequence[NewRecord], monitor: Monitor
    ) -> Iterator[tuple[NewRecord, int]]:
        from torch import get_num_threads  # slow to import

        with (
            closing(_prepared(records)) as prepared,
            closing(deflated_chunks(prepared, get_num_threads())) as deflated,
        ):
            for record, group in groupby(deflated, itemgetter(0)):
                pairs = ((chunk, blocks) for _, chunk, blocks in group if chunk)
                counted = _counted(pairs, monitor, lambda pair: len(pair[0]))
                checksum = self.deflate(record.name, record.nbytes, counted)
                if checksum is None:  # the bytes were counted
                    chunks = _counted(record.chunks(), monitor, lambda _: 0)
                    checksum = self.stream(record.name, record.nbytes, chunks)
                yield record, checksum

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
        """Write a compressed record, and return its CRC-32; None if it is not smaller."""
        record = zipfile.ZipInfo(f"{self._folder}/{name}")
        record.compress_type, record.external_attr = zipfile.ZIP_DEFLATED, FILE_MODE
        record.CRC, record.header_offset = 0, self._file.tell()
        large = nbytes > MAX_PLAIN_BYTES
        self._file.write(record.FileHeader(large))  # again below, with the sizes
        start = self._file.tell()
        checksum = 0
        for octets, compressed in chunks:
            checksum = crc32(octets, checksum)
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
        """Write the compressed bytes of a record of another archive."""
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
        record = zipfile.ZipInfo(f"{self._folder}/{name}")
        record.extra = padding(_header_end(self._file.tell(), record.filename, nbytes))
        return record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._file:
            self._archive.close()
            if error is None:
                flush(self._file)


def _prepared(records: Sequence[NewRecord]) -> Generator[tuple[NewRecord, memoryview]]:
    """Yield all chunks of all records in order; large ones are computed in advance."""
    chunks = (
        (record, chunk)
        for record in records
        for chunk in (record.chunks() if record.nbytes else [memoryview(b"")])
    )
    # For small records, a thread would cost more time than it saves.
    is_large = any(record.nbytes > CHUNK_BYTES for record in records)
    return prefetch(chunks) if is_large else chunks


def _counted(
    items: Iterable[Item], monitor: Monitor, nbytes: Callable[[Item], int]
) -> Iterator[Item]:
    for item in items:
        yield item
        monitor.advance(nbytes(item))


def archive_nbytes(
    records: Iterable[tuple[str, int]],
    extra_field: Callable[[int], bytes] = lambda _: b"",
    unlisted_nbytes: int = 0,
) -> int:
    """Return the bytes of an archive that `zipfile` writes, given as (path, bytes) of its records.

    The extra field follows a local header that would end at a position. Other bytes may be between
    the last record and the directory.
    """
    end = directory = count = 0
    for path, nbytes in records:
        far, large = end > MAX_PLAIN_BYTES, nbytes > MAX_PLAIN_BYTES
        zip64_nbytes = 4 * (far or large) + 8 * far + 16 * large
        header_end = _header_end(end, path, nbytes)
        extra_nbytes = len(extra_field(header_end))
        directory += DIRECTORY_HEADER_BYTES + len(path.encode()) + zip64_nbytes + extra_nbytes
        end = header_end + extra_nbytes + nbytes
        count += 1
    end += unlisted_nbytes
    large = max(end, directory) > MAX_PLAIN_BYTES or count > MAX_PLAIN_RECORDS
    return end + directory + END_BYTES + large * ZIP64_END_BYTES


def _header_end(offset: int, path: str, nbytes: int) -> int:
    zip64_nbytes = ZIP64_EXTRA_BYTES if nbytes > MAX_PLAIN_BYTES else 0
    return offset + LOCAL_HEADER_BYTES + len(path.encode()) + zip64_nbytes


def padding(header_end: int) -> bytes:
    """Return the extra field after a local header with which values are aligned."""
    nbytes = -(header_end + len(PADDING_TAG) + 2) % ALIGNMENT
    return PADDING_TAG + nbytes.to_bytes(2, "little") + b"Z" * nbytes


def damaged_record(
    path: Path | BinaryIO, monitor: Monitor, names: Iterable[str] | None = None
) -> str | None:
    """Return the first record of an archive that does not match its CRC-32, or None."""
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


def deflated(octets: memoryview) -> bytes:
    """Return a chunk as deflate blocks that end at a byte boundary, none of them the last one.

    Mantissas of weights do not repeat, so that searching for matches costs time and gains nothing.
    Z_RLE finds only runs, which includes zeros. Masks and pruned channels repeat, and get `LEVEL`.
    Shares of the size and speeds of one thread, of the weights of MiniLM:

    =================  ==============  ==============  ==============
    values             Z_RLE           level 4         level 6
    =================  ==============  ==============  ==============
    float32, 50 % 0    53 %, 115 MB/s  54 %, 38 MB/s   53 %, 16 MB/s
    float32, 70 % 0    34 %, 150 MB/s  35 %, 55 MB/s   34 %, 22 MB/s
    float32, 90 % 0    13 %, 277 MB/s  13 %, 111 MB/s  13 %, 59 MB/s
    mask of 50 %       15 %, 134 MB/s  7 %, 90 MB/s    6 %, 23 MB/s
    =================  ==============  ==============  ==============

    Empty blocks limit the ratio to `MAX_GROWTH`: readers refuse archives that unpack to much more.
    """
    trial = octets[:TRIAL_BYTES]
    repeats = len(_blocks(trial, zlib.Z_DEFAULT_STRATEGY)) <= MIN_GAIN * len(
        _blocks(trial, zlib.Z_RLE)
    )
    blocks = _blocks(octets, zlib.Z_DEFAULT_STRATEGY if repeats else zlib.Z_RLE)
    missing = -(-len(octets) // MAX_GROWTH) - len(blocks)
    return blocks + EMPTY_BLOCK * max(0, -(-missing // len(EMPTY_BLOCK)))


def _blocks(octets: memoryview, strategy: int) -> bytes:
    deflater = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, MEMORY_LEVEL, strategy)
    return deflater.compress(octets) + deflater.flush(zlib.Z_SYNC_FLUSH)


def deflated_chunks(
    chunks: Iterable[tuple[Owner, memoryview]], threads: int
) -> Generator[tuple[Owner, memoryview, bytes]]:
    """Yield (owner, chunk, `deflated` chunk) in order. Close it, so that its threads end."""
    pending: deque[tuple[Owner, memoryview, Future[bytes]]] = deque()
    with ThreadPoolExecutor(threads, "prune-gui-deflate") as pool:
        try:
            for owner, chunk in chunks:
                for start in range(0, max(1, len(chunk)), DEFLATE_CHUNK_BYTES):
                    part = chunk[start : start + DEFLATE_CHUNK_BYTES]
                    pending.append((owner, part, pool.submit(deflated, part)))
                    if len(pending) > 2 * threads:
                        yield _finished(pending.popleft())
            while pending:
                yield _finished(pending.popleft())
        finally:
            pool.shutdown(cancel_futures=True)


def _finished(item: tuple[Owner, memoryview, Future[bytes]]) -> tuple[Owner, memoryview, bytes]:
    owner, chunk, future = item
    return owner, chunk, future.result()
