"""Channels picked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, field_serializer

from prune_gui.errors import RecipeError
from prune_gui.language import later, tr, trn
from prune_gui.pruning.methods.base import Decision, Dim, Method, Target
from prune_gui.pruning.methods.structured import CHANNELS_OF_ONE, dimension, remaining_channels

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor

MOST: Final = 1 << 20
"""Channels that a step may name: more are a slip of the finger."""
MAX_DIGITS: Final = 18
"""Of the number of a channel."""
LISTED: Final = 100
"""Channels up to which a recipe file has a list of them; of more it has a text of ranges."""


def _listed(given: object) -> object:
    """Return the numbers that a text like "3, 7, 12-15" names; anything else as it is."""
    if not isinstance(given, str):
        return given
    found: list[int] = []
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
        if len(found) + stop - start > MOST:
            raise ValueError(tr("the range {part} holds too many channels", part=part))
        found += range(start, stop)
    return tuple(found)


def in_ranges(channels: Sequence[int]) -> str:
    """Return channels as a person writes them: "3, 7, 12-15"."""
    parts: list[str] = []
    for _, run in groupby(enumerate(channels), key=lambda pair: pair[1] - pair[0]):
        some = [channel for _, channel in run]
        parts += [f"{some[0]}-{some[-1]}"] if len(some) > 2 else map(str, some)
    return ", ".join(parts)


def _each_once(channels: tuple[int, ...]) -> tuple[int, ...]:
    if not channels:
        raise ValueError(tr("name at least one channel; the first is 0"))
    if min(channels) < 0:
        raise ValueError(tr("channels count from 0; {channel} is none", channel=min(channels)))
    [(most_named, times)] = Counter(channels).most_common(1)
    if times > 1:
        raise ValueError(tr("channel {channel} is named more than once", channel=most_named))
    return channels


class Channels(Method):
    """Prune exactly the channels listed, of every target, whatever they weigh."""

    name: ClassVar[str] = "channels"
    title: ClassVar[str] = later("Channels")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "channel"

    channels: Annotated[
        tuple[StrictInt, ...],
        BeforeValidator(_listed),
        Field(max_length=MOST),
        AfterValidator(_each_once),
        Field(description=later("Which channels, from 0: a list, or a text like 3, 7, 12-15.")),
    ]
    dim: Dim = 0

    @field_serializer("channels", when_used="json")
    def _written(self, channels: tuple[int, ...]) -> list[int] | str:
        return list(channels) if len(channels) <= LISTED else in_ranges(channels)

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the channels of each target that are listed."""
        decisions = []
        for target in targets:
            monitor.advance()
            decisions.append(self._decide(target))
        return decisions

    def _decide(self, target: Target) -> Decision:
        import numpy as np

        from prune_gui.pruning.lazy import Lazy
        from prune_gui.pruning.predicates import ChannelCut, PrunedChannels

        dim = dimension(target, self.dim, least=1, flat=CHANNELS_OF_ONE)
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
        there = remaining_channels(target, dim)
        pruned = np.zeros(size, np.bool_)
        pruned[list(self.channels)] = True
        chosen = Lazy.known(PrunedChannels(pruned, None, there))
        return Decision(ChannelCut(target.shape, dim, chosen), int(there[pruned].sum()))
