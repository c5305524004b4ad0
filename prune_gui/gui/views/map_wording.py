"""What is said about single entries. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.gui.views.subject import Subject
from prune_gui.recipe.codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.entry import Weight
    from prune_gui.pruning.predicates import Standing
    from prune_gui.recipe.explanation import Explanation


def describe(subject: Subject, weight: Weight) -> str:
    """Say what became of an entry: "[3, 17]  0.0125  pruned by step 2: L1 unstructured"."""
    said = [_place(weight.index), f"{weight.value:.6g}", _fate(subject, weight.code)]
    if weight.score is not None:
        margin = "no cut" if weight.margin is None else f"margin {weight.margin:.4g}"
        said.append(f"score {weight.score:.4g}, {margin}")
    return "   ".join(said)


def describe_pinned(subject: Subject, found: Explanation) -> str:
    """Say how an entry stood in every step that looked at it."""
    said = [f"Pinned {_place(found.index)}   {found.value:.6g}   {_fate(subject, found.pruned_by)}"]
    for step, standing in found.standings.items():
        if step != IN_FILE and standing.score is not None:
            said.append(f"{subject.title(step)}: {_standing(standing)}")
    return "\n".join(said)


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _fate(subject: Subject, code: int) -> str:
    title = subject.title(code)
    return title if code in (KEPT, IN_FILE) else f"pruned by {title}"


def _standing(standing: Standing) -> str:
    said = f"score {standing.score:.6g}, "
    if standing.margin is None:
        said += "no cut"
    else:
        side = "above" if standing.margin > 0 else "below"
        said += f"{abs(standing.margin):.4g} {side} the cut at {standing.cut:.6g}"
    if standing.unit != "entry":
        said = f"{standing.unit}, {said}"
    if standing.rank is None:
        return said
    return f"{said}, {standing.rank + 1:,} of {standing.ranked:,} in order of score"
