"""Texts for steps, amounts, counts and results, as the window shows them."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.language import join_clauses, join_items, merged, tr, trn
from prune_gui.number_formats import sparsity
from prune_gui.pruning.methods.fields import text_of
from prune_gui.recipe.amounts import has_amount

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution, Step

MAX_TARGETS: Final = 5000
"""Limit of the text of a step's patterns, in characters."""
MAX_NOTES: Final = 3
"""Number of remarks about single targets that are shown; the others are only counted."""
TOOL_TIP_LINE_CHARS: Final = 80
"""Maximum line length of a tool tip."""
LONG_WORD: Final = re.compile(r"[^\s/\\-]{65,}")
"""What Qt does not divide, and would cut off or make a window wider for; a SHA-256 is shorter."""
BREAK: Final = "\N{ZERO WIDTH SPACE}"
"""Where a word may be continued on the next line."""


def steps(count: int) -> str:
    """Return a number of steps: "3 steps"."""
    return trn("{count:,} step", "{count:,} steps", count)


def title(step: Step) -> str:
    """Return a step in one line: "L1 unstructured, local, 50 %"."""
    return one_line(join_clauses((tr(step.method.title), step.method.options_text())))


def title_without_amount(step: Step) -> str:
    """Return a step in one line, without its amount: "L1 unstructured, local"."""
    options = step.method.options_text(without=("amount",))
    return one_line(join_clauses((tr(step.method.title), options)))


def amount(step: Step) -> str:
    """Return the amount of a step: "50 %"; "" if its method has none."""
    if not has_amount(step.method):
        return ""
    field = type(step.method).model_fields["amount"]
    return text_of(field).in_title(step.method, "amount", dict(step.method)["amount"])


def targets(step: Step) -> str:
    """Return the patterns of a step in one line, as they are typed."""
    return one_line(", ".join(step.targets), MAX_TARGETS)


def wrapped(text: str) -> str:
    """Return a text with line breaks between words. Qt does not wrap plain-text tool tips."""
    return textwrap.fill(text, TOOL_TIP_LINE_CHARS, break_long_words=False, break_on_hyphens=False)


def breakable(text: str) -> str:
    """Return a text whose long words, such as names of files, are continued on the next line."""

    def divided(word: re.Match[str]) -> str:
        return re.sub(r"[_.]|[^_.]{40}", rf"\g<0>{BREAK}", word[0])

    return LONG_WORD.sub(divided, text)


def outcome(resolution: Resolution, number: int) -> str:
    """Return how much step `number` prunes: "zeroes 5,308,416 of 10,616,832 (50.0 %)"."""
    step = resolution.recipe.steps[number - 1]
    if not step.enabled:
        return tr("switched off")
    if step.method.corrects:
        return trn(
            "corrects {count:,} parameter",
            "corrects {count:,} parameters",
            len(resolution.outcomes[number - 1].pruned),
        )
    return tr("zeroes {pruned:,} of {total:,} ({share})", **_zeroed(resolution, number))


def prospect(resolution: Resolution, number: int) -> str:
    """Return how much step `number` would prune, and the sparsity of its targets afterwards."""
    step = resolution.recipe.steps[number - 1]
    if not step.enabled:
        return tr("Switched off.")
    if step.method.corrects:
        return trn(
            "Corrects {count:,} parameter; prunes nothing.",
            "Corrects {count:,} parameters; prunes nothing.",
            len(resolution.outcomes[number - 1].pruned),
        )
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


def idle_reason(resolution: Resolution, number: int) -> str:
    """Return that step `number` prunes nothing, and why; "" if it does, or is not meant to."""
    step, outcome = resolution.recipe.steps[number - 1], resolution.outcomes[number - 1]
    method = step.method
    if outcome.total[0] or not step.enabled or method.corrects or method.name == "identity":
        return ""
    pruned, total = resolution.of_targets(number)
    earlier = [
        str(other)
        for other, one in enumerate(resolution.outcomes[: number - 1], start=1)
        if any(one.pruned.get(name) for name in outcome.pruned)
    ]
    if has_amount(method) and not method.own_amounts:
        of_remaining = getattr(method, "amount_of", "remaining") == "remaining"
        if not dict(method)["amount"]:
            return tr("Prunes nothing: the amount is 0.")
        if of_remaining and pruned < total:
            return tr("Prunes nothing: the amount is less than one unit of each target.")
    if earlier:
        return trn(
            "Prunes nothing: step {steps} already did.",
            "Prunes nothing: steps {steps} already did.",
            len(earlier),
            steps=join_items(earlier),
        )
    if pruned:
        return tr("Prunes nothing: it is already pruned in the file.")
    return tr("Prunes nothing: nothing in the targets meets its condition.")


def _zeroed(resolution: Resolution, number: int) -> dict[str, object]:
    """Return the counts and the share of the elements that step `number` prunes."""
    pruned, total = resolution.outcomes[number - 1].total
    return {"pruned": pruned, "total": total, "share": sparsity(pruned, total)}


def notes(notes_of: Mapping[str, str]) -> list[str]:
    """Return notes on targets, which are by name; notes with equal text are merged into one."""
    lines = [_note(text, names) for names, text in merged(notes_of)]
    if len(lines) <= MAX_NOTES:
        return lines
    return [*lines[:MAX_NOTES], tr("and {more:,} more", more=len(lines) - MAX_NOTES)]


def short_notes(notes_of: Mapping[str, str]) -> list[str]:
    """Return the note on the step, and the most frequent ones on targets with their number."""
    of_step = [one_line(notes_of[""])] if "" in notes_of else []
    counts = Counter(note for name, note in notes_of.items() if name).most_common(MAX_NOTES)
    return of_step + [
        tr(
            "{note}: {targets}",
            note=one_line(note),
            targets=trn("{count:,} target", "{count:,} targets", count),
        )
        for note, count in counts
    ]


def _note(text: str, names: list[str]) -> str:
    first, more, text = one_line(names[0]), len(names) - 1, one_line(text)
    if not first:
        return text
    if not more:
        return tr("{name}: {note}", name=first, note=text)
    return tr("{name} and {more:,} more: {note}", name=first, more=more, note=text)
