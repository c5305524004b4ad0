"""What is said about single entries. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.gui.views.subject import Subject
from prune_gui.language import clauses, later, number, tr
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.statistics.element import Element
    from prune_gui.pruning.predicates import ElementRank
    from prune_gui.recipe.explanation import Explanation


def describe(subject: Subject, weight: Element) -> str:
    """Say what became of an entry, in a line: "[3, 17]   0.0125   pruned by step 2   score …"."""
    said = [_place(weight.index), number(weight.value, ".6g"), fate(subject, weight.code)]
    if weight.score is not None:
        score, margin = weight.score, weight.margin
        element_rank = (
            tr("score {score:.4g}, no cut", score=score)
            if margin is None
            else tr("score {score:.4g}, margin {margin:.4g}", score=score, margin=margin)
        )
        if weight.code == KEPT:  # by any of the steps
            step = _step(subject, weight.step)
            element_rank = tr("{step}: {standing}", step=step, standing=element_rank)
        said.append(element_rank)
    return "   ".join(said)


def fate(subject: Subject, code: int) -> str:
    """Say in few words what became of entries of a code: "pruned by step 2"."""
    if code in (KEPT, IN_FILE):
        return subject.title(code)
    if code == subject.draft:
        return tr("pruned by the draft")
    return tr("pruned by step {number}", number=code)


def describe_pinned(subject: Subject, found: Explanation) -> str:
    """Say how an entry stood in every step that looked at it."""
    place = tr("Pinned {index}", index=_place(found.index))
    said = [f"{place}   {number(found.value, '.6g')}   {_whole_fate(subject, found.pruned_by)}"]
    for step, element_rank in found.element_ranks.items():
        if step != IN_FILE and element_rank.score is not None:
            title, told = subject.title(step), _standing(element_rank)
            said.append(tr("{step}: {standing}", step=title, standing=told))
    return "\n".join(said)


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _step(subject: Subject, number: int | None) -> str:
    return tr("the draft") if number == subject.draft else tr("step {number}", number=number)


def _whole_fate(subject: Subject, code: int) -> str:
    title = subject.title(code)
    return title if code in (KEPT, IN_FILE) else tr("pruned by {step}", step=title)


def _standing(element_rank: ElementRank) -> str:
    said = [_score(element_rank)]
    if element_rank.unit != "entry":
        said.insert(0, element_rank.unit)
    if element_rank.rank is not None:
        rank, ranked = element_rank.rank + 1, element_rank.ranked
        said.append(tr("{rank:,} of {ranked:,} in order of score", rank=rank, ranked=ranked))
    return clauses(said)


def _score(element_rank: ElementRank) -> str:
    """Say by which score something stood, and how far from the cut."""
    score, margin = element_rank.score, element_rank.margin
    if margin is None:
        return tr("score {score:.6g}, no cut", score=score)
    message = (
        later("score {score:.6g}, {margin:.4g} above the cut at {cut:.6g}")
        if margin > 0
        else later("score {score:.6g}, {margin:.4g} below the cut at {cut:.6g}")
    )
    return tr(message, score=score, margin=abs(margin), cut=element_rank.cut)
