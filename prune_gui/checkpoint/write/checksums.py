"""Checksums of the tensors of a file, recorded in its metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from prune_gui.checkpoint.write.metadata import LateText, Metadata

CHECKSUMS_KEY: Final = "prune_gui.crc32"
"""Metadata: a JSON object with the CRC-32 of each tensor's bytes, as eight hexadecimal digits.

CRC-32 detects accidental damage. It is also computed for the comparison with the written file, at
about twice the speed of SHA-256. No digest in the file itself can detect deliberate changes.
"""
CHECKSUM: Final = re.compile(r"[0-9a-f]{8}")
MAX_RECORD_CHARS: Final = 1 << 24
"""The limit for the record: 300,000 tensors with names of 40 characters. Headers have a limit."""


def with_checksums(
    metadata: Metadata, keys: Iterable[str], checksums: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return metadata with late texts, and with the checksums if it has the key `CHECKSUMS_KEY`.

    Args:
        checksums: the checksums by key. None does not wait for late texts, and fills in their
            placeholders and zeros, which take the same number of bytes.
    """
    texts = {
        key: text.text(wait=checksums is not None) if isinstance(text, LateText) else text
        for key, text in metadata.items()
    }
    if CHECKSUMS_KEY not in metadata:
        return texts
    digits = {key: f"{checksums[key] if checksums else 0:08x}" for key in keys}
    record = json.dumps(digits, ensure_ascii=False, separators=(",", ":"))
    return {**texts, CHECKSUMS_KEY: record if len(record) <= MAX_RECORD_CHARS else ""}


def checksums_in(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the checksums that metadata records, by key; {} if there are none.

    Raises:
        ValueError: the record is invalid.
    """
    record = metadata.get(CHECKSUMS_KEY)
    if not record:
        return {}
    try:
        checksums = json.loads(record)
    except RecursionError as error:
        raise ValueError(record) from error
    if not isinstance(checksums, dict) or not all(map(_is_checksum, checksums.values())):
        raise ValueError(record)
    return {key: int(digits, 16) for key, digits in checksums.items()}


def _is_checksum(digits: object) -> bool:
    return isinstance(digits, str) and CHECKSUM.fullmatch(digits) is not None
