"""The size of a zip archive that `zipfile` writes."""

from __future__ import annotations

from collections.abc import Iterable

from prune_gui.checkpoint.torch.archive import (
    DIRECTORY_HEADER_BYTES,
    END_BYTES,
    MAX_PLAIN_BYTES,
    MAX_PLAIN_RECORDS,
    ZIP64_END_BYTES,
    ZIP64_EXTRA_BYTES,
)
from prune_gui.checkpoint.torch.zip_layout import LOCAL_HEADER_BYTES


def zip_nbytes(records: Iterable[tuple[str, int]], unlisted_nbytes: int = 0) -> int:
    """Return the bytes of an archive.

    Args:
        records: the name of each record, and its bytes in the archive.
        unlisted_nbytes: bytes between the last record and the directory.
    """
    end = directory = count = 0
    for name, nbytes in records:
        name_nbytes = len(name.encode())
        large, far = nbytes > MAX_PLAIN_BYTES, end > MAX_PLAIN_BYTES
        zip64_nbytes = 4 * (far or large) + 8 * far + 16 * large
        directory += DIRECTORY_HEADER_BYTES + name_nbytes + zip64_nbytes
        end += LOCAL_HEADER_BYTES + name_nbytes + large * ZIP64_EXTRA_BYTES + nbytes
        count += 1
    end += unlisted_nbytes
    large = max(end, directory) > MAX_PLAIN_BYTES or count > MAX_PLAIN_RECORDS
    return end + directory + END_BYTES + large * ZIP64_END_BYTES
