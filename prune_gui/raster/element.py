"""One element of a parameter: its value, its scores, and the step that pruned it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prune_gui.raster.slice_layout import ParameterLayout
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.statistics import values
from prune_gui.statistics.score_blocks import element_ranks_of


@dataclass(frozen=True, slots=True)
class StepScore:
    """The score of one element in one step.

    Attributes:
        step: the number of the step.
        score: the score of the element or of its unit; None if the step does not rank it.
        cut: the score of the last pruned unit; None if the step prunes none.
    """

    step: int
    score: float | None = None
    cut: float | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a parameter.

    Attributes:
        index: its index, one number per dimension.
        value: its value; see `values.shown`.
        code: the step that pruned it; 0: kept, 255: pruned in the file.
        scores: its score in every step, up to the one that pruned it.
    """

    index: tuple[int, ...]
    value: float
    code: int
    scores: tuple[StepScore, ...] = ()


def element_at(
    resolution: Resolution, name: str, layout: ParameterLayout, row: int, column: int
) -> Element:
    """Return the element at (row, column) of a parameter's layout."""
    flat, index = layout.flat(row, column), layout.index(row, column)
    value = float(values.span_of(resolution, name, flat, flat + 1))
    code = int(resolution.pruned_by_within(name, flat, flat + 1)[0])
    return Element(index, value, code, tuple(_scores(resolution, name, flat, code)))


def _scores(resolution: Resolution, name: str, flat: int, code: int) -> Iterator[StepScore]:
    """Yield the score of an element in every step, up to the one that pruned it."""
    for applied in resolution.layers.get(name, ()):
        if applied.step == IN_FILE:
            continue
        read = element_ranks_of(applied.predicate)
        block = read(flat, flat + 1) if read is not None else None
        if block is None or not block.ranked[0]:
            yield StepScore(applied.step)
        else:
            cut = float(block.cuts[0]) if block.cut[0] else None
            yield StepScore(applied.step, float(block.scores[0]), cut)
        if applied.step == code:
            return
