"""Texts about single elements. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prune_gui.audit.view_data.subject import Subject
from prune_gui.language import deferred, format_number, join_clauses, tr
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.statistics.element import Element
    from prune_gui.pruning.predicates import ElementRank
    from prune_gui.recipe.explanation import Explanation


def describe(subject: Subject, weight: Element) -> str:
    """Describe an element in one line: "[3, 17]   0.0125   pruned by step 2   score …"."""
    parts = [
        _index_text(weight.index),
        format_number(weight.value, ".6g"),
        describe_state(subject, weight.code),
    ]
    if weight.score is not None:
        score, margin = weight.score, weight.margin
        score_text = (
            tr("score {score:.4g}, no cut", score=score)
            if margin is None
            else tr("score {score:.4g}, margin {margin:.4g}", score=score, margin=margin)
        )
        if weight.code == KEPT:  # the line does not name the step yet
            step = _step(subject, weight.step)
            score_text = tr("{step}: {standing}", step=step, standing=score_text)
        parts.append(score_text)
    return "   ".join(parts)


def describe_sides(sides: Sequence[tuple[Subject, Element]]) -> str:
    """Describe an element in several states: "[3, 17]   0.0125 kept   |   0.0125 pruned by …"."""
    states = [
        f"{format_number(element.value, '.6g')} {describe_state(subject, element.code)}"
        for subject, element in sides
    ]
    return f"{_index_text(sides[0][1].index)}   {'   |   '.join(states)}" if sides else ""


def describe_state(subject: Subject, code: int) -> str:
    """Return a short text for a code: "pruned by step 2"."""
    if code in (KEPT, IN_FILE):
        return subject.title(code)
    if code == subject.draft:
        return tr("pruned by the draft")
    return tr("pruned by step {number}", number=code)


def describe_pinned(subject: Subject, explanation: Explanation) -> str:
    """Describe the score and rank of an element in every step that ranked it, one step per line."""
    code = explanation.pruned_by
    pinned = tr("Pinned {index}", index=_index_text(explanation.index))
    parts = [f"{pinned}   {format_number(explanation.value, '.6g')}   {_full_state(subject, code)}"]
    for step, element_rank in explanation.element_ranks.items():
        if step != IN_FILE and element_rank.score is not None:
            title, rank_text = subject.title(step), _rank_text(element_rank)
            parts.append(tr("{step}: {standing}", step=title, standing=rank_text))
    return "\n".join(parts)


def _index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _step(subject: Subject, number: int | None) -> str:
    return tr("the draft") if number == subject.draft else tr("step {number}", number=number)


def _full_state(subject: Subject, code: int) -> str:
    title = subject.title(code)
    return title if code in (KEPT, IN_FILE) else tr("pruned by {step}", step=title)


def _rank_text(element_rank: ElementRank) -> str:
    parts = [_score(element_rank)]
    if element_rank.unit != "entry":
        parts.insert(0, element_rank.unit)
    if element_rank.rank is not None:
        rank, ranked = element_rank.rank + 1, element_rank.ranked
        parts.append(tr("{rank:,} of {ranked:,} in order of score", rank=rank, ranked=ranked))
    return join_clauses(parts)


def _score(element_rank: ElementRank) -> str:
    """Return the score of an element or unit, and its distance from the cut."""
    score, margin = element_rank.score, element_rank.margin
    if margin is None:
        return tr("score {score:.6g}, no cut", score=score)
    message = (
        deferred("score {score:.6g}, {margin:.4g} above the cut at {cut:.6g}")
        if margin > 0
        else deferred("score {score:.6g}, {margin:.4g} below the cut at {cut:.6g}")
    )
    return tr(message, score=score, margin=abs(margin), cut=element_rank.cut)
