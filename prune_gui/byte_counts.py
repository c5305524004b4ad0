"""Byte counts as text: parsing and formatting."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from prune_gui.language import format_number, tr, trn

SIZE_PATTERN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([KMGT]?)(i?)B", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Return the number of bytes that a text such as 500MB, 5GB or 2GiB denotes."""
    match = SIZE_PATTERN.fullmatch(text)
    size = 0
    if match is not None:
        digits, power, is_binary = match.groups()
        base = 1024 if is_binary else 1000
        size = int(Decimal(digits) * base ** " KMGT".index(power.upper() or " "))
    if not size:
        raise ValueError(tr("{text!r} is not a size such as 500MB, 5GB or 2GiB.", text=text))
    return size


def short_bytes(count: int) -> str:
    """Return a byte count with about three significant digits: 7,642,181,920 is "7.64 GB"."""
    for power, unit in ((15, "PB"), (12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 999.5 * 10 ** (power - 3):
            return f"{format_number(count / 10**power, '.3g')} {unit}"
    return trn("{count} byte", "{count} bytes", count)
