"""Texts for steps, amounts, counts and results, as the window shows them."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.language import deferred, join_clauses, tr, trn
from prune_gui.number_formats import percent, sparsity
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.channels import format_ranges
from prune_gui.pruning.methods.n_m import NM

if TYPE_CHECKING:
    from prune_gui.recipe import Outcome, Resolution, Step

ALWAYS_SHOWN_FIELDS: Final[tuple[str, ...]] = (
    "scope",
    "dim",
    "amount",
    "value",
    "m",
    "height",
    "channels",
)
"""Fields that are shown first, even if they have their default values."""
MAX_CHANNEL_LIST_CHARS: Final = 40
"""A longer list of channels is left out; only the number of channels is shown."""
MAX_TARGETS: Final = 5000
"""Limit of the text of a step's patterns, in characters."""
MAX_NOTES: Final = 3
"""Number of remarks about single targets that are shown; the others are only counted."""
TOOL_TIP_LINE_CHARS: Final = 80
"""Maximum line length of a tool tip."""
UNITS: Final = {
    "entry": deferred("entries"),
    "channel": deferred("channels"),
    "block": deferred("blocks"),
}
"""Units of an amount, as shown in a combo box."""
VALUE_TEXTS: Final = {
    "scope": {"local": deferred("local"), "global": deferred("global"), "row": deferred("row")},
    "amount_of": {"total": deferred("of all"), "reach": deferred("reached in all")},
    "relative_to": {"std": deferred("in standard deviations")},
    "take": {"zeros": deferred("its zeros")},
    "tail": {"keep": deferred("tail keep")},
    "flatten": {"False": deferred("flatten False")},
}
"""Texts of field values that are clear without the name of their field."""
NAMED_FIELDS: Final = {
    "dim": deferred("dim {value}"),
    "n": deferred("n {value}"),
    "seed": deferred("seed {value}"),
}
"""Texts of field values with the name of the field. Fields of plug-ins use their own names."""


def units(unit: str, count: int) -> str:
    """Return a number of units: "1,200 entries"."""
    match unit:
        case "channel":
            return trn("{count:,} channel", "{count:,} channels", count)
        case "block":
            return trn("{count:,} block", "{count:,} blocks", count)
        case _:
            return trn("{count:,} entry", "{count:,} entries", count)


def steps(count: int) -> str:
    """Return a number of steps: "3 steps"."""
    return trn("{count:,} step", "{count:,} steps", count)


def parameters(method: Method) -> str:
    """Return the main and the non-default field values of a method: "global, 50 %"."""
    fields = type(method).model_fields
    shown_fields = [name for name in ALWAYS_SHOWN_FIELDS if name in fields]
    shown_fields += [
        name
        for name, field in fields.items()
        if name not in ALWAYS_SHOWN_FIELDS and getattr(method, name) != field.default
    ]
    texts = (_parameter(method, name, getattr(method, name)) for name in shown_fields)
    return join_clauses(texts)


def title(step: Step) -> str:
    """Return a step in one line: "L1 unstructured, local, 50 %"."""
    return one_line(join_clauses((tr(step.method.title), parameters(step.method))))


def targets(step: Step) -> str:
    """Return the patterns of a step in one line, as they are typed."""
    return one_line(", ".join(step.targets), MAX_TARGETS)


def wrapped(text: str) -> str:
    """Return a text with line breaks between words. Qt does not wrap plain-text tool tips."""
    return textwrap.fill(text, TOOL_TIP_LINE_CHARS, break_long_words=False, break_on_hyphens=False)


def outcome(resolution: Resolution, number: int) -> str:
    """Return how much step `number` prunes: "zeroes 5,308,416 of 10,616,832 (50.0 %)"."""
    if not resolution.recipe.steps[number - 1].enabled:
        return tr("switched off")
    return tr("zeroes {pruned:,} of {total:,} ({share})", **_zeroed(resolution, number))


def prospect(resolution: Resolution, number: int) -> str:
    """Return how much step `number` would prune, and the sparsity of its targets afterwards."""
    if not resolution.recipe.steps[number - 1].enabled:
        return tr("Switched off.")
    zeroed = _zeroed(resolution, number)
    pruned_in_targets, total = resolution.of_targets(number)
    if pruned_in_targets == zeroed["pruned"]:
        return tr("Zeroes {pruned:,} of {total:,} ({share}).", **zeroed)
    return tr(
        "Zeroes {pruned:,} of {total:,} ({share}). "
        "With the other steps, {all_share} of the targets are pruned.",
        all_share=sparsity(pruned_in_targets, total),
        **zeroed,
    )


def _zeroed(resolution: Resolution, number: int) -> dict[str, object]:
    """Return the counts and the share of the elements that step `number` prunes."""
    pruned, total = resolution.outcomes[number - 1].total
    return {"pruned": pruned, "total": total, "share": sparsity(pruned, total)}


def notes(result: Outcome) -> list[str]:
    """Return the remarks on a step; remarks with equal text are merged into one."""
    by_text: dict[str, list[str]] = {}
    for name, note in result.notes.items():
        by_text.setdefault(note, []).append(name)
    lines = [_note(text, names) for text, names in by_text.items()]
    if len(lines) <= MAX_NOTES:
        return lines
    return [*lines[:MAX_NOTES], tr("and {more:,} more", more=len(lines) - MAX_NOTES)]


def short_notes(result: Outcome) -> list[str]:
    """Return the most frequent remarks on a step, each with the number of its targets."""
    counts = Counter(result.notes.values()).most_common(MAX_NOTES)
    return [
        tr(
            "{note}: {targets}",
            note=one_line(note),
            targets=trn("{count:,} target", "{count:,} targets", count),
        )
        for note, count in counts
    ]


def _note(text: str, names: list[str]) -> str:
    first, more, text = one_line(names[0]), len(names) - 1, one_line(text)
    if not more:
        return tr("{name}: {note}", name=first, note=text)
    return tr("{name} and {more:,} more: {note}", name=first, more=more, note=text)


def _parameter(method: Method, field: str, value: object) -> str:
    match field, value:
        case "amount", float(share):
            return percent(share)
        case "amount", int(count):
            return units(method.unit, count)
        case "m", int(m) if isinstance(method, NM):
            return f"{method.n}:{m}"
        case "height", int(height) if isinstance(method, Block):
            return f"{height} x {method.width}"
        case "n", _ if isinstance(method, NM):
            return ""  # shown with m
        case "width", _ if isinstance(method, Block):
            return ""  # shown with the height
        case "channels", tuple(channels):
            text, listing = units("channel", len(channels)), ranges(channels)
            if len(listing) > MAX_CHANNEL_LIST_CHARS:
                return text
            return tr("{count}: {channels}", count=text, channels=listing)
        case "value", float(value):
            return tr("below {value}", value=value)
        case (("importance" | "mask"), str(path)):
            return _file_name(path)
        case "moved_from", str(path):
            return tr("moved from {file}", file=_file_name(path))
        case _ if message := VALUE_TEXTS.get(field, {}).get(str(value)):
            return tr(message)
        case "max_sparsity", float(share):
            return tr("≤ {share}", share=percent(share))
        case _ if field in NAMED_FIELDS:
            return tr(NAMED_FIELDS[field], value=value)
        case _:
            return f"{field} {value}"


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def ranges(channels: object) -> str:
    """Return channels as ranges, "3, 7, 12-15"; any other value as `str`."""
    if not isinstance(channels, tuple):
        return str(channels)
    return format_ranges(channels)
