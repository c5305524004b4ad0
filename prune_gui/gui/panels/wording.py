"""Steps and what they come to, in the words of the window."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.n_m import NM

if TYPE_CHECKING:
    from prune_gui.recipe import Outcome, Resolution, Step

ALWAYS: Final[tuple[str, ...]] = ("scope", "dim", "amount", "value", "m", "height", "channels")
"""The parameters named first, be they as usual or not."""
LISTED: Final = 40
"""How long a list of channels may be to be shown."""
NOTES: Final = 3
"""How many remarks about single targets are shown before the rest is only counted."""


def percent(share: float) -> str:
    """Return a share in [0, 1] as a person writes it: 0.5 is "50 %", 1 / 3 is "33.3333 %"."""
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + " %"


def sparsity(pruned: int, total: int) -> str:
    """Return a share of entries with one decimal: 0.0 % is none at all, 100.0 % is all of them."""
    share = pruned / total if total else 0.0
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def short_count(number: int) -> str:
    """Return a large number in short: 22,713,728 is "22.7 M"."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return str(number)


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
    return ", ".join(filter(None, texts))


def title(step: Step) -> str:
    """Return a step in a line: "L1 unstructured, local, 50 %"."""
    return ", ".join(filter(None, (step.method.title, parameters(step.method))))


def targets(step: Step) -> str:
    """Return the patterns of a step in a line."""
    return ", ".join(step.targets)


def outcome(resolution: Resolution, number: int) -> str:
    """Return what step `number` zeroes: "zeroes 5,308,416 of 10,616,832 (50.0 %)"."""
    if not resolution.recipe.steps[number - 1].enabled:
        return "switched off"
    done = resolution.outcomes[number - 1]
    pruned = sum(done.pruned.values())
    total = sum(resolution.counts[name][1] for name in done.pruned)
    return f"zeroes {pruned:,} of {total:,} ({sparsity(pruned, total)})"


def prospect(resolution: Resolution, number: int) -> str:
    """Return what step `number` would zero, and how sparse its targets would then be."""
    text = outcome(resolution, number)
    before = resolution.outcomes[number - 1].pruned
    counts = [resolution.counts[name] for name in before]
    after = sum(pruned for pruned, _ in counts)
    sentence = f"{text[:1].upper()}{text[1:]}."
    if after == sum(before.values()):
        return sentence
    share = sparsity(after, sum(total for _, total in counts))
    return f"{sentence} With the other steps, {share} of the targets are pruned."


def notes(done: Outcome) -> list[str]:
    """Return the remarks on a step, those of equal words as one."""
    by_text: dict[str, list[str]] = {}
    for name, note in done.notes.items():
        by_text.setdefault(note, []).append(name)
    lines = [_note(text, names) for text, names in by_text.items()]
    return lines if len(lines) <= NOTES else [*lines[:NOTES], f"and {len(lines) - NOTES} more"]


def _note(text: str, names: list[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {text}"


def _parameter(method: Method, field: str, value: object) -> str:
    match field, value:
        case "amount", float(share):
            return percent(share)
        case "amount", int(units):
            return f"{units:,} {plural(method.unit, units)}"
        case "scope", str(scope):
            return scope
        case "amount_of", "total":
            return "of all"
        case "amount_of", "reach":
            return "reached in all"
        case "value", float(value):
            return f"below {value}"
        case "relative_to", "std":
            return "in standard deviations"
        case "take", _:
            return "its zeros" if value == "zeros" else ""
        case "m", int(m) if isinstance(method, NM):
            return f"{method.n}:{m}"
        case "height", int(height) if isinstance(method, Block):
            return f"{height} x {method.width}"
        case "n", _ if isinstance(method, NM):
            return ""  # said with m
        case "width", _ if isinstance(method, Block):
            return ""  # said with the height
        case "channels", tuple(channels):
            text = f"{len(channels):,} {plural('channel', len(channels))}"
            listed = ranges(channels)
            return f"{text}: {listed}" if len(listed) <= LISTED else text
        case (("importance" | "mask"), str(path)):
            return path.replace("\\", "/").rpartition("/")[2]
        case _:
            return f"{field} {value}"


def plural(unit: str, number: int) -> str:
    """Return the name of a unit in the number that goes with `number`."""
    if number == 1:
        return unit
    return "entries" if unit == "entry" else f"{unit}s"


def ranges(channels: object) -> str:
    """Return channels as a person writes them, "3, 7, 12-15"; a text as it is."""
    if not isinstance(channels, tuple):
        return str(channels)
    parts: list[str] = []
    for _, run in groupby(enumerate(channels), key=lambda pair: pair[1] - pair[0]):
        some = [channel for _, channel in run]
        parts += [f"{some[0]}-{some[-1]}"] if len(some) > 2 else map(str, some)
    return ", ".join(parts)
