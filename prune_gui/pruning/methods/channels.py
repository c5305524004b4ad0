"""Pruning of a given list of channels, and lists as texts of numbers and ranges: "3, 7, 12-15"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, predicates
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.fields import Dim, FieldText, count_in_words, torch_dim

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning channels needs at least one dimension. Leave it out of the "
    "targets, or use an unstructured method."
)
MAX_CHANNELS: Final = 1 << 20
"""Maximum number of channels in a step; more are most likely a typing error."""
MAX_DIGITS: Final = 18
"""Maximum number of digits of a channel index."""


RANGE: Final = re.compile(r"(\d+)\s*(?:-\s*(\d+))?", re.ASCII)


def parse_ranges(given: object) -> object:
    """Parse a text like "3, 7, 12-15" to a tuple of channels; return other values unchanged."""
    if not isinstance(given, str):
        return given
    channels: list[int] = []
    for part in filter(None, map(str.strip, given.split(","))):
        found = RANGE.fullmatch(part)
        if not found or len(part) > 2 * MAX_DIGITS:
            raise ValueError(
                tr(
                    "{part!r} is not a list of channels; write numbers and ranges: 3, 7, 12-15",
                    part=part,
                )
            )
        start, stop = int(found[1]), int(found[2] or found[1]) + 1
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


MAX_LIST_LENGTH: Final = 100
"""Maximum length of a list of channels in a recipe file; longer ones are written as ranges."""
SCRIPT_WIDTH: Final = 96
"""Maximum length of the lines of a list of channels in a script, in characters."""
MAX_TITLE_LENGTH: Final = 40
"""Maximum length of a list of channels in the title of a step; of a longer one only the number is
shown."""


def validate_list(channels: tuple[int, ...]) -> tuple[int, ...]:
    """Return a list of channels or units, checked for a validator of pydantic."""
    if not channels:
        raise ValueError(tr("list at least one channel; the first is 0"))
    if min(channels) < 0:
        raise ValueError(
            tr("channel indices start at 0; {channel} is invalid", channel=min(channels))
        )
    [(most_frequent, frequency)] = Counter(channels).most_common(1)
    if frequency > 1:
        raise ValueError(tr("channel {channel} is named more than once", channel=most_frequent))
    return channels


def listing_text(method: Any, channels: Sequence[int]) -> str:  # noqa: ANN401 - any method
    """Return a list of channels or units for the title of a step."""
    count, listing = count_in_words(method.unit, len(channels)), format_ranges(channels)
    if len(listing) > MAX_TITLE_LENGTH:
        return count
    return tr("{count}: {channels}", count=count, channels=listing)


def _written(channels: tuple[int, ...]) -> list[int] | str:
    return list(channels) if len(channels) <= MAX_LIST_LENGTH else format_ranges(channels)


UnitList = Annotated[
    tuple[StrictInt, ...],
    BeforeValidator(parse_ranges),
    Field(max_length=MAX_CHANNELS),
    AfterValidator(validate_list),
    PlainSerializer(_written, when_used="json"),
]
"""A list of channels or units, from 0; also as a text such as "3, 7, 12-15"."""


class Channels(Method):
    """Prune exactly the listed channels of every target, regardless of their norms."""

    name = "channels"
    title = deferred("Channels")
    unit = "channel"
    method_group = "manual"

    channels: Annotated[
        UnitList,
        Field(
            description=deferred("Channel indices, from 0: a list, or a text such as 3, 7, 12-15.")
        ),
        FieldText(label=deferred("Channels"), position=2, show=listing_text),
    ]
    dim: Dim = "output"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        return [self._decide(target) for target in monitor.each(targets)]

    def _decide(self, target: Target) -> Decision:
        dim = decisions.dimension(target, self.dim, min_dims=1, flat=FLAT)
        size, last = target.shape[dim], max(self.channels)
        if last >= size:
            raise RecipeError(
                trn(
                    "{name} has {count:,} channel along dimension {dim}; channel {channel} does "
                    "not exist. Use 0 to {last}, or leave it out of the targets.",
                    "{name} has {count:,} channels along dimension {dim}; channel {channel} does "
                    "not exist. Use 0 to {last}, or leave it out of the targets.",
                    size,
                    name=target.name,
                    dim=dim,
                    channel=last,
                    last=size - 1,
                )
            )
        remaining = decisions.remaining_channels(target, dim)
        units = predicates.PrunedUnits.listed(self.channels, remaining)
        cut = predicates.ChannelCut(target.shape, dim, Lazy.of_value(units))
        return decisions.Decision(cut, int(remaining[units.pruned].sum()))

    @property
    def listed_channels(self) -> tuple[int, ...]:
        return self.channels

    def torch_lines(self, names: str) -> list[str]:
        from pprint import pformat  # not needed to show the window

        return [
            f"channels = {pformat(list(self.channels), width=SCRIPT_WIDTH, compact=True)}",
            f"for name in {names}:",
            f"    mask = without_channels(state[name], {torch_dim(self.dim)}, channels)",
            "    prune.custom_from_mask(*parameters[name], mask=mask)",
        ]
