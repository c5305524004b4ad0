"""What an edit changed in a step, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prune_gui.language import listed, tr
from prune_gui.pruning.methods.fields import text_of

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Step

MAX_CHANGES: Final = 2
"""Changes that are named; the others are counted."""


def describe_change(before: Step, after: Step) -> str:
    """Return what differs between two versions of a step: "60 % → 70 %"; "" if nothing does."""
    changes = []
    old, new = before.method, after.method
    if type(old) is not type(new):
        changes.append(_arrow(tr(old.title), tr(new.title)))
    else:
        names = type(new).model_fields
        texts = [(_value_text(old, name), _value_text(new, name)) for name in names]
        changes += [_arrow(*pair) for pair in texts if pair[0] != pair[1]]
    if before.targets != after.targets:
        changes.append(tr("other targets"))
    return listed(changes, limit=MAX_CHANGES)


def _arrow(before: str, after: str) -> str:
    return tr("{before} → {after}", before=before, after=after)


def _value_text(method: Method, name: str) -> str:
    """Return the value of a field in words."""
    value, text = getattr(method, name), text_of(type(method).model_fields[name])
    if value is None:
        return tr("none")
    if str(value) in text.choices and str(value) not in text.values:
        return tr(text.choices[str(value)])
    return text.in_title(method, name, value)
