"""Lists of channels as texts of numbers and ranges: "3, 7, 12-15"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from prune_gui.language import tr

MAX_CHANNELS: Final = 1 << 20
"""Maximum number of channels in a step; more are most likely a typing error."""
MAX_DIGITS: Final = 18
"""Maximum number of digits of a channel index."""


def parse_ranges(given: object) -> object:
    """Parse a text like "3, 7, 12-15" to a tuple of channels; return other values unchanged."""
    if not isinstance(given, str):
        return given
    channels: list[int] = []
    for part in filter(None, map(str.strip, given.split(","))):
        first, dash, last = (word.strip() for word in part.partition("-"))
        numbers = (first, last) if dash else (first,)
        if not all(number.isascii() and number.isdigit() for number in numbers) or (
            len(part) > 2 * MAX_DIGITS
        ):
            raise ValueError(
                tr(
                    "{part!r} is not a list of channels; write numbers and ranges: 3, 7, 12-15",
                    part=part,
                )
            )
        start, stop = int(first), int(numbers[-1]) + 1
        if start >= stop:
            raise ValueError(tr("the range {part} holds no channels", part=part))
        if len(channels) + stop - start > MAX_CHANNELS:
            raise ValueError(tr("the range {part} holds too many channels", part=part))
        channels += range(start, stop)
    return tuple(channels)


def format_ranges(channels: Sequence[int]) -> str:
    """Return a text of channels and ranges of channels: "3, 7, 12-15"."""
    parts: list[str] = []
    for _, run in groupby(enumerate(channels), key=lambda pair: pair[1] - pair[0]):
        chunk = [channel for _, channel in run]
        parts += [f"{chunk[0]}-{chunk[-1]}"] if len(chunk) > 2 else map(str, chunk)
    return ", ".join(parts)
