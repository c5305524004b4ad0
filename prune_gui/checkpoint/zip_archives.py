"""The records of zip archives of NumPy and Keras."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import CHUNK_BYTES, Source
from prune_gui.checkpoint.torch.zip_layout import (
    ZIP_ERRORS,
    RecordChecks,
    check_end,
    check_entries,
    damaged_zip_error,
    record_starts,
)


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
