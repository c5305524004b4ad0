"""Shares, counts, durations and bytes as text, in the format of the user's locale."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from prune_gui.language import format_number, tr, trn

SHAPE_SEPARATOR: Final = "\N{MULTIPLICATION SIGN}"
"""Separator between the sizes of a shape."""
SIZE_PATTERN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([KMGT]?)(i?)B", re.IGNORECASE)


def percent(share: float) -> str:
    """Return a share in [0, 1] in percent, up to 4 decimals: 0.5 is "50 %", 1/3 "33.3333 %"."""
    return tr("{percent:g} %", percent=round(share * 100, 4))


def sparsity(pruned: int, total: int) -> str:
    """Return the share of pruned elements with one decimal.

    "0.0 %" means exactly none, and "100.0 %" exactly all; other shares are not rounded to them.
    """
    return sparsity_share(pruned / total if total else 0.0)


def sparsity_share(share: float) -> str:
    """Return a sparsity in [0, 1] as `sparsity` does."""
    if 0 < share < 0.0005:
        return tr("< {percent:.1f} %", percent=0.1)
    if 0.9995 <= share < 1:
        return tr("> {percent:.1f} %", percent=99.9)
    return tr("{percent:.1f} %", percent=100 * share)


def short_count(count: int) -> str:
    """Return a number with a unit prefix: 22,713,728 is "22.7 M"."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{format_number(count / size, '.1f')} {letter}"
    return str(count)


def shape_text(sizes: Sequence[int]) -> str:
    """Return the shape of a tensor, such as "30,522 x 384" with a multiplication sign."""
    return f" {SHAPE_SEPARATOR} ".join(map(format_number, sizes)) or tr("a single number")


def duration(seconds: float) -> str:
    """Return a time in s, min or h, rounded up: "40 s", "3 min", "2 h"."""
    if seconds <= 90:
        return tr("{count:,} s", count=math.ceil(seconds))
    if seconds <= 90 * 60:
        return tr("{count:,} min", count=math.ceil(seconds / 60))
    return tr("{count:,} h", count=math.ceil(seconds / 3600))


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
