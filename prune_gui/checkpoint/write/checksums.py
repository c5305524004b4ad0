"""Checksums of the tensors of a file, recorded in its metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

CHECKSUMS: Final = "prune_gui.crc32"
"""Metadata: a JSON object with the CRC-32 of each tensor's bytes, as eight hexadecimal digits.

CRC-32 tells accidental damage. It is computed for the comparison with the written file anyway, at
about twice the speed of SHA-256. Against somebody who means to deceive, no digest inside of the
file itself would help.
"""
DIGITS: Final = re.compile(r"[0-9a-f]{8}")
MAX_BYTES: Final = 1 << 24
"""Of the record; 300,000 tensors with names of 40 characters. More would not fit into headers."""


def with_checksums(
    metadata: Mapping[str, str], keys: Iterable[str], checksums: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return metadata with the checksums filled in, if it has a place for them.

    Args:
        metadata: of a file. If `CHECKSUMS` is a key of it, its value is replaced.
        keys: of the tensors, in order.
        checksums: by key; None fills in zeros, which take as many bytes.
    """
    if CHECKSUMS not in metadata:
        return dict(metadata)
    digits = {key: f"{checksums[key] if checksums else 0:08x}" for key in keys}
    record = json.dumps(digits, ensure_ascii=False, separators=(",", ":"))
    return {**metadata, CHECKSUMS: record if len(record) <= MAX_BYTES else ""}


def checksums_in(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the checksums that metadata records, by key; {} if there are none.

    Raises:
        ValueError: what is recorded makes no sense.
    """
    record = metadata.get(CHECKSUMS)
    if not record:
        return {}
    try:
        found = json.loads(record)
    except RecursionError as error:
        raise ValueError(record) from error
    if not isinstance(found, dict) or not all(map(_is_checksum, found.values())):
        raise ValueError(record)
    return {key: int(digits, 16) for key, digits in found.items()}


def _is_checksum(digits: object) -> bool:
    return isinstance(digits, str) and DIGITS.fullmatch(digits) is not None
