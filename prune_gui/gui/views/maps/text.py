"""Texts about single elements. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prune_gui.language import format_number, tr
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT, ZERO
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.pruning.predicates import ElementRank
    from prune_gui.raster.element import Element
    from prune_gui.recipe.explanation import Explanation

NO_NUMBER: Final = "\N{EN DASH}"
PENDING: Final = "\N{HORIZONTAL ELLIPSIS}"
"""In place of a number that is not computed yet."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """Texts about an element in one step that touches its parameter.

    Attributes:
        step: name of the step, the unit that it ranked if that is no single element, and the
            factors of its row and column if these are part of the score.
        score: the score of the element or of its unit.
        cut: the highest score that the step prunes.
        rank: the position in order of score, from 1.
    """

    step: str
    score: str = NO_NUMBER
    cut: str = NO_NUMBER
    rank: str = NO_NUMBER


@dataclass(frozen=True, slots=True)
class ElementText:
    """Texts about an element.

    Attributes:
        index: its index: "[3, 17]".
        value: its value in the file.
        state: whether it is kept, or what pruned it.
        rows: one per step, in the order of the recipe.
    """

    index: str
    value: str
    state: str
    rows: tuple[StepRow, ...]


def describe(subject: Subject, weight: Element) -> ElementText:
    """Describe an element without its ranks, which take long to compute."""
    scores = {found.step: found for found in weight.scores}

    def row(step: int) -> StepRow:
        found = scores.get(step)
        if found is None or found.score is None:
            return StepRow(subject.title(step))
        return StepRow(subject.title(step), _number(found.score), _number(found.cut), PENDING)

    return _element_text(subject, weight.index, weight.value, weight.code, row)


def describe_ranks(subject: Subject, explanation: Explanation) -> ElementText:
    """Describe an element with its rank in every step up to the one that pruned it."""
    ranks = explanation.element_ranks

    def row(step: int) -> StepRow:
        return _rank_row(subject.title(step), ranks.get(step))

    return _element_text(subject, explanation.index, explanation.value, explanation.pruned_by, row)


def describe_sides(sides: Sequence[tuple[Subject, Element]]) -> str:
    """Describe an element in several states: "[3, 17]   0.0125 kept   |   0.0125 pruned by …"."""
    states = [
        f"{format_number(element.value, '.6g')} {describe_state(subject, element.code)}"
        for subject, element in sides
    ]
    return f"{_index_text(sides[0][1].index)}   {'   |   '.join(states)}" if sides else ""


def describe_state(subject: Subject, code: int) -> str:
    """Return a short text for a code: "pruned by step 2"."""
    if code in (KEPT, IN_FILE, ZERO):
        return subject.title(code)
    if code == subject.draft:
        return tr("pruned by the draft")
    return tr("pruned by step {number}", number=code)


def _element_text(
    subject: Subject,
    index: tuple[int, ...],
    value: float,
    code: int,
    row: Callable[[int], StepRow],
) -> ElementText:
    steps = (applied.step for applied in subject.resolution.layers.get(subject.name, ()))
    return ElementText(
        _index_text(index),
        format_number(value, ".6g"),
        describe_state(subject, ZERO if code == KEPT and value == 0 else code),
        tuple(row(step) for step in steps if step != IN_FILE),
    )


def _rank_row(title: str, element_rank: ElementRank | None) -> StepRow:
    if element_rank is None:
        return StepRow(title)
    rank_text = NO_NUMBER
    if element_rank.rank is not None:
        rank, ranked = element_rank.rank + 1, element_rank.ranked
        rank_text = tr("{rank:,} of {ranked:,}", rank=rank, ranked=ranked)
    if element_rank.unit != "entry":
        title = tr("{step}, {unit}", step=title, unit=element_rank.unit)
    if element_rank.factors is not None:
        row, column = map(_number, element_rank.factors)
        title = tr(
            "{step}, row factor {row}, column factor {column}", step=title, row=row, column=column
        )
    return StepRow(title, _number(element_rank.score), _number(element_rank.cut), rank_text)


def _index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _number(value: float | None) -> str:
    return NO_NUMBER if value is None else format_number(value, ".6g")
