"""Steps and what they come to, in the words of the window."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.language import clauses, later, number, tr, trn
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.channels import in_ranges
from prune_gui.pruning.methods.n_m import NM

if TYPE_CHECKING:
    from prune_gui.recipe import Outcome, Resolution, Step

ALWAYS: Final[tuple[str, ...]] = ("scope", "dim", "amount", "value", "m", "height", "channels")
"""The parameters named first, be they as usual or not."""
LISTED: Final = 40
"""How long a list of channels may be to be shown."""
MAX_TARGETS: Final = 5000
"""Characters of the patterns of a step."""
NOTES: Final = 3
"""How many remarks about single targets are shown before the rest is only counted."""
WIDE: Final = 80
"""How many letters a line of a tool tip may have."""
UNITS: Final = {
    "entry": later("entries"),
    "channel": later("channels"),
    "block": later("blocks"),
}
"""What an amount counts, as a choice."""
VALUES: Final = {
    "scope": {"local": later("local"), "global": later("global"), "row": later("row")},
    "amount_of": {"total": later("of all"), "reach": later("reached in all")},
    "relative_to": {"std": later("in standard deviations")},
    "take": {"zeros": later("its zeros")},
    "tail": {"keep": later("tail keep")},
    "flatten": {"False": later("flatten False")},
}
"""Values of parameters that say by themselves what they are values of."""
TIMES: Final = "\N{MULTIPLICATION SIGN}"
"""Stands between the sizes of a shape."""
NAMED: Final = {
    "dim": later("dim {value}"),
    "n": later("n {value}"),
    "seed": later("seed {value}"),
}
"""How the values of other parameters are introduced; those of plug-ins by their names."""


def percent(share: float) -> str:
    """Return a share in [0, 1] as a person writes it: 0.5 is "50 %", 1 / 3 is "33.3333 %"."""
    return tr("{percent:g} %", percent=round(share * 100, 4))


def sparsity(pruned: int, total: int) -> str:
    """Return a share of entries with one decimal: 0.0 % is none at all, 100.0 % is all of them."""
    share = pruned / total if total else 0.0
    if 0 < share < 0.0005:
        return tr("< {percent:.1f} %", percent=0.1)
    if 0.9995 <= share < 1:
        return tr("> {percent:.1f} %", percent=99.9)
    return tr("{percent:.1f} %", percent=100 * share)


def short_count(count: int) -> str:
    """Return a large number in short: 22,713,728 is "22.7 M"."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{number(count / size, '.1f')} {letter}"
    return str(count)


def duration(seconds: float) -> str:
    """Return a time as a person says it, rounded up: "40 s", "3 min", "2 h"."""
    if seconds <= 90:
        return tr("{count:,} s", count=math.ceil(seconds))
    if seconds <= 90 * 60:
        return tr("{count:,} min", count=math.ceil(seconds / 60))
    return tr("{count:,} h", count=math.ceil(seconds / 3600))


def units(unit: str, count: int) -> str:
    """Return how many units an amount is: "1,200 entries"."""
    match unit:
        case "channel":
            return trn("{count:,} channel", "{count:,} channels", count)
        case "block":
            return trn("{count:,} block", "{count:,} blocks", count)
        case _:
            return trn("{count:,} entry", "{count:,} entries", count)


def steps(count: int) -> str:
    """Return how many steps there are: "3 steps"."""
    return trn("{count:,} step", "{count:,} steps", count)


def parameters(method: Method) -> str:
    """Return what sets a method apart, shortly: "global, 50 %"."""
    fields = type(method).model_fields
    telling = [name for name in ALWAYS if name in fields]
    telling += [
        name
        for name, field in fields.items()
        if name not in ALWAYS and getattr(method, name) != field.default
    ]
    texts = (_parameter(method, name, getattr(method, name)) for name in telling)
    return clauses(texts)


def title(step: Step) -> str:
    """Return a step in a line: "L1 unstructured, local, 50 %"."""
    return one_line(clauses((tr(step.method.title), parameters(step.method))))


def targets(step: Step) -> str:
    """Return the patterns of a step in a line, as they are typed."""
    return one_line(", ".join(step.targets), MAX_TARGETS)


def wrapped(text: str) -> str:
    """Return a text in lines for a tool tip, which does not wrap them itself; words stay whole."""
    return textwrap.fill(text, WIDE, break_long_words=False, break_on_hyphens=False)


def outcome(resolution: Resolution, number: int) -> str:
    """Return what step `number` zeroes: "zeroes 5,308,416 of 10,616,832 (50.0 %)"."""
    if not resolution.recipe.steps[number - 1].enabled:
        return tr("switched off")
    return tr("zeroes {pruned:,} of {total:,} ({share})", **_zeroed(resolution, number))


def prospect(resolution: Resolution, number: int) -> str:
    """Return what step `number` would zero, and how sparse its targets would then be."""
    if not resolution.recipe.steps[number - 1].enabled:
        return tr("Switched off.")
    zeroed = _zeroed(resolution, number)
    after, total = resolution.of_targets(number)
    if after == zeroed["pruned"]:
        return tr("Zeroes {pruned:,} of {total:,} ({share}).", **zeroed)
    return tr(
        "Zeroes {pruned:,} of {total:,} ({share}). "
        "With the other steps, {all_share} of the targets are pruned.",
        all_share=sparsity(after, total),
        **zeroed,
    )


def _zeroed(resolution: Resolution, number: int) -> dict[str, object]:
    """Return how many entries step `number` zeroes, of how many, and what share that is."""
    pruned, total = resolution.outcomes[number - 1].total
    return {"pruned": pruned, "total": total, "share": sparsity(pruned, total)}


def notes(done: Outcome) -> list[str]:
    """Return the remarks on a step, those of equal words as one."""
    by_text: dict[str, list[str]] = {}
    for name, note in done.notes.items():
        by_text.setdefault(note, []).append(name)
    lines = [_note(text, names) for text, names in by_text.items()]
    if len(lines) <= NOTES:
        return lines
    return [*lines[:NOTES], tr("and {more:,} more", more=len(lines) - NOTES)]


def short_notes(done: Outcome) -> list[str]:
    """Return the commonest remarks on a step, each with how many targets it is about."""
    counts = Counter(done.notes.values()).most_common(NOTES)
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
            return ""  # said with m
        case "width", _ if isinstance(method, Block):
            return ""  # said with the height
        case "channels", tuple(channels):
            text, listing = units("channel", len(channels)), ranges(channels)
            if len(listing) > LISTED:
                return text
            return tr("{count}: {channels}", count=text, channels=listing)
        case "value", float(value):
            return tr("below {value}", value=value)
        case (("importance" | "mask"), str(path)):
            return _file_name(path)
        case "moved_from", str(path):
            return tr("moved from {file}", file=_file_name(path))
        case _ if known := VALUES.get(field, {}).get(str(value)):
            return tr(known)
        case "max_sparsity", float(share):
            return tr("≤ {share}", share=percent(share))
        case _ if field in NAMED:
            return tr(NAMED[field], value=value)
        case _:
            return f"{field} {value}"


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def ranges(channels: object) -> str:
    """Return channels as a person writes them, "3, 7, 12-15"; a text as it is."""
    if not isinstance(channels, tuple):
        return str(channels)
    return in_ranges(channels)
