"""Texts about single elements. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import format_number, tr
from prune_gui.raster.parameter_layouts import GAP
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.pruning.predicates import ElementRank
    from prune_gui.raster.parameter_layouts import ParameterLayout
    from prune_gui.recipe.outcome import Explanation
    from prune_gui.statistics.element_values import Element, Measure


NO_NUMBER: Final = "\N{EN DASH}"
PENDING: Final = "\N{HORIZONTAL ELLIPSIS}"  # in place of a number that is not computed yet


@dataclass(frozen=True, slots=True)
class StepRow:
    """Texts about an element in one step that touches its parameter. Ranks count from 1."""

    step: str
    score: str = NO_NUMBER
    cut: str = NO_NUMBER
    rank: str = NO_NUMBER


@dataclass(frozen=True, slots=True)
class ElementText:
    """Texts about an element: its index, "[3, 17]", value and state, and a row per step."""

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

    def row(step: int) -> StepRow:
        return _rank_row(subject.title(step), explanation.element_ranks.get(step))

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


def step_rows(subject: Subject) -> tuple[StepRow, ...]:
    """Return a row without numbers for each step that touches a parameter."""
    return tuple(StepRow(subject.title(step)) for step in _steps(subject))


def _steps(subject: Subject) -> list[int]:
    applied_steps = subject.resolution.layers.get(subject.name, ())
    return [applied.step for applied in applied_steps if applied.step != IN_FILE]


def _element_text(
    subject: Subject, index: tuple[int, ...], value: float, code: int, row: Callable[[int], StepRow]
) -> ElementText:
    return ElementText(
        _index_text(index),
        format_number(value, ".6g"),
        describe_state(subject, ZERO if code == KEPT and value == 0 else code),
        tuple(map(row, _steps(subject))),
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


Texts = np.ndarray[tuple[int, ...], np.dtype[np.str_]]
MAX_CHARACTERS = 7  # maximum length of a text
MAX_SPAN_ELEMENTS = 1 << 16
"""Maximum span of flat indices that is read at once for the elements of one row."""


def short(value: float) -> str:
    """Return a number as a short text: "0.0312", "-1.5", "3e-07"."""
    if value == 0 or not np.isfinite(value):
        return format_number(value, "g")
    for digits in (3, 2, 1):
        if len(text := format_number(value, f".{digits}g")) <= MAX_CHARACTERS:
            break
    return text


def texts(measure: Measure, layout: ParameterLayout, rows: range, columns: range) -> Texts:
    """Return str (rows, columns), a text per element; "" where there is no element or no number."""
    result = np.full((len(rows), len(columns)), "", f"U{MAX_CHARACTERS}")
    column_offsets = layout.offsets(1, columns)
    filled = np.flatnonzero(column_offsets != GAP)
    for i, offset in enumerate(layout.offsets(0, rows)):
        if offset != GAP and filled.size:
            result[i, filled] = _row_texts(measure, offset + column_offsets[filled])
    return result


def _row_texts(measure: Measure, flat: NDArray[np.int64]) -> list[str]:
    """Return the texts of elements, given by ascending flat indices."""
    first, span_length = int(flat[0]), int(flat[-1] - flat[0]) + 1
    if span_length > MAX_SPAN_ELEMENTS:
        return [text for index in flat for text in _row_texts(measure, index[None])]
    numbers, known_mask = measure(first, first + span_length)
    return [
        short(float(numbers[i])) if known_mask.size == 0 or known_mask[i] else ""
        for i in flat - first
    ]
