"""Pruning of a given list of channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, field_serializer

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr, trn
from prune_gui.pruning.methods.base import Decision, Dim, Method, Target
from prune_gui.pruning.methods.structured import CHANNELS_OF_ONE, dimension, remaining_channels

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor

MAX_CHANNELS: Final = 1 << 20
"""Maximum number of channels in a step; more are most likely a typing error."""
MAX_DIGITS: Final = 18
"""Maximum number of digits of a channel index."""
MAX_LIST_LENGTH: Final = 100
"""Maximum length of a list of channels in a recipe file; longer ones are written as ranges."""


def _parse_channels(given: object) -> object:
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
                    "{part!r} names no channels; write numbers and ranges: 3, 7, 12-15",
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


def _check_channels(channels: tuple[int, ...]) -> tuple[int, ...]:
    if not channels:
        raise ValueError(tr("name at least one channel; the first is 0"))
    if min(channels) < 0:
        raise ValueError(tr("channels count from 0; {channel} is none", channel=min(channels)))
    [(most_frequent, frequency)] = Counter(channels).most_common(1)
    if frequency > 1:
        raise ValueError(tr("channel {channel} is named more than once", channel=most_frequent))
    return channels


class Channels(Method):
    """Prune exactly the channels listed, of every target, whatever they weigh."""

    name: ClassVar[str] = "channels"
    title: ClassVar[str] = deferred("Channels")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "channel"

    channels: Annotated[
        tuple[StrictInt, ...],
        BeforeValidator(_parse_channels),
        Field(max_length=MAX_CHANNELS),
        AfterValidator(_check_channels),
        Field(description=deferred("Which channels, from 0: a list, or a text like 3, 7, 12-15.")),
    ]
    dim: Dim = 0

    @field_serializer("channels", when_used="json")
    def _serialize_channels(self, channels: tuple[int, ...]) -> list[int] | str:
        return list(channels) if len(channels) <= MAX_LIST_LENGTH else format_ranges(channels)

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the listed channels of each target."""
        decisions = []
        for target in targets:
            monitor.advance()
            decisions.append(self._decide(target))
        return decisions

    def _decide(self, target: Target) -> Decision:
        import numpy as np

        from prune_gui.pruning.lazy import Lazy
        from prune_gui.pruning.predicates import ChannelCut, PrunedUnits

        dim = dimension(target, self.dim, min_dims=1, flat=CHANNELS_OF_ONE)
        size, last = target.shape[dim], max(self.channels)
        if last >= size:
            raise RecipeError(
                trn(
                    "{name} has {count:,} channel along dimension {dim}; channel {channel} is none "
                    "of them. Use 0 to {last}, or leave it out of the targets.",
                    "{name} has {count:,} channels along dimension {dim}; channel {channel} is "
                    "none of them. Use 0 to {last}, or leave it out of the targets.",
                    size,
                    name=target.name,
                    dim=dim,
                    channel=last,
                    last=size - 1,
                )
            )
        remaining = remaining_channels(target, dim)
        pruned = np.zeros(size, np.bool_)
        pruned[list(self.channels)] = True
        chosen = Lazy.of_value(PrunedUnits(pruned, None, remaining))
        return Decision(ChannelCut(target.shape, dim, chosen), int(remaining[pruned].sum()))
