"""A number per element of a parameter: its value, score, margin to the cut, or weight delta.

Also all of these of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from prune_gui.errors import RecipeError
from prune_gui.pruning.arrays import Flags, Values
from prune_gui.pruning.selection.scores import WeightDelta
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles, weight_reader
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.statistics import weight_values
from prune_gui.statistics.element_scores import (
    ALL,
    ElementRanks,
    ScoreBlock,
    element_ranks_of,
)
from prune_gui.statistics.weight_values import Reader

Measure = Callable[[int, int], tuple[Values, Flags]]
"""From start and stop to a number per element of [start, stop), float32 or float64, and flags for
the elements that have one (`ALL`: every element)."""


def weights(resolution: Resolution, name: str, span: tuple[int, int] | None = None) -> Measure:
    """Return a reader of the values that views show; `span`: only these will be read."""
    if span is None:
        return _of_all(weight_values.shown(resolution, name))
    first, read = span[0], weight_values.reader_of(weight_values.span_of(resolution, name, *span))
    return _of_all(lambda start, stop: read(start - first, stop - first))


def _of_all(read: Reader) -> Measure:
    return lambda start, stop: (read(start, stop), ALL)


def sizes(resolution: Resolution, name: str, span: tuple[int, int] | None = None) -> Measure:
    """Return a reader of the absolute values of `weights`."""
    return absolute(weights(resolution, name, span))


def sampled_weights(resolution: Resolution, name: str) -> Measure:
    """Return a reader of the values, which reads only what it returns; see `weights`."""
    return lambda start, stop: weights(resolution, name, (start, stop))(start, stop)


def squares(resolution: Resolution, name: str) -> Measure:
    """Return a reader of the squared values in the file, float64; inf where they overflow."""
    read = weight_values.reader(resolution.checkpoint, name)

    def square(start: int, stop: int) -> Values:
        with np.errstate(over="ignore"):
            return np.square(read(start, stop), dtype=np.float64)

    return _of_all(square)


def kept_squares(resolution: Resolution, name: str) -> Measure:
    """Return a reader of the squared values, float64, with 0 for pruned elements."""
    measure, applied_steps = squares(resolution, name), resolution.layers.get(name, ())
    return _of_all(
        lambda start, stop: np.where(
            stack.kept(applied_steps, start, stop), measure(start, stop)[0], 0.0
        )
    )


def absolute(measure: Measure) -> Measure:
    """Return a reader of the absolute values of another reader."""

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        numbers, defined = measure(start, stop)
        return np.abs(numbers), defined

    return read


def scores(resolution: Resolution, name: str, step: int) -> Measure:
    """Return a reader of the scores of a step; elements that earlier steps pruned have none.

    In a structured step, an element has the score of its unit: its channel or its block.
    """
    ranked = _ranked(resolution, name, step)

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        block = ranked(start, stop)
        return block.scores, _flags_or_all(block.ranked)

    return read


def margins(resolution: Resolution, name: str, step: int) -> Measure:
    """Return a reader of the scores minus the cut of a step: at most 0 where it prunes.

    Where there is no cut, as in a row in which nothing is pruned, there is no margin.
    """
    ranked = _ranked(resolution, name, step)

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        block = ranked(start, stop)
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            margin = np.subtract(block.scores, block.cuts, out=block.scores)
        return margin, _flags_or_all(block.ranked & block.cut)

    return read


def difference(resolution: Resolution, name: str, other: AuxiliaryFiles, path: str) -> Measure:
    """Return a reader of the values in the file minus those in another file, which `other` opens.

    Raises:
        RecipeError: the other file cannot be opened, or has no parameter of that name and shape.
    """
    checkpoint = resolution.checkpoint
    info = checkpoint.tensors[name]
    delta = WeightDelta(weight_reader(checkpoint, info), other.entries(path, info, "weights"))
    return _of_all(lambda start, stop: delta.part(start, stop).numpy())


def corrections(resolution: Resolution, name: str) -> Measure:
    """Return a reader of the values of `weights` minus those in the file."""
    corrected = weight_values.reader_of(resolution.values(name))
    read = weight_values.reader(resolution.checkpoint, name)

    def change(start: int, stop: int) -> Values:
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            return corrected(start, stop) - read(start, stop)

    return _of_all(change)


def ranking_steps(resolution: Resolution, name: str) -> tuple[int, ...]:
    """Return the numbers of the steps that rank a parameter by a score, in order."""
    return tuple(
        applied.step
        for applied in resolution.layers.get(name, ())
        if 0 < applied.step <= len(resolution.outcomes)
        and element_ranks_of(applied.predicate) is not None
    )


def _flags_or_all(flags: Flags) -> Flags:
    return ALL if flags.all() else flags


def _ranked(resolution: Resolution, name: str, step: int) -> ElementRanks:
    """Return a reader of the scores of a step, with elements pruned by earlier steps unranked."""
    applied_steps = resolution.layers.get(name, ())
    earlier_steps = tuple(takewhile(lambda applied: applied.step != step, applied_steps))
    own = applied_steps[len(earlier_steps) : len(earlier_steps) + 1]
    ranks = element_ranks_of(own[0].predicate) if own else None
    if ranks is None:
        raise RecipeError(
            "Step {number} has no score for {name}. Choose a step that ranks it.",
            number=step,
            name=name,
        )

    def read(start: int, stop: int) -> ScoreBlock:
        block, remaining = ranks(start, stop), stack.kept(earlier_steps, start, stop)
        return replace(block, ranked=block.ranked & remaining)

    return read if earlier_steps else ranks


@dataclass(frozen=True, slots=True)
class StepScore:
    """The score of an element in a step, and the cut of the step; None where it has none."""

    step: int
    score: float | None = None
    cut: float | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a parameter, with its scores up to the step that pruned it."""

    index: tuple[int, ...]
    value: float
    code: int
    scores: tuple[StepScore, ...] = ()


def element_at(resolution: Resolution, name: str, flat: int) -> Element:
    """Return the element of a parameter at a flat index."""
    shape = resolution.checkpoint.tensors[name].shape
    index = tuple(map(int, np.unravel_index(flat, shape)))
    value = float(weight_values.span_of(resolution, name, flat, flat + 1))
    code = int(resolution.pruned_by_within(name, flat, flat + 1)[0])
    return Element(index, value, code, tuple(_scores(resolution, name, flat, code)))


def _scores(resolution: Resolution, name: str, flat: int, code: int) -> Iterator[StepScore]:
    """Yield the score of an element in every step, up to the one that pruned it."""
    for applied in resolution.layers.get(name, ()):
        if applied.step == IN_FILE:
            continue
        ranks = element_ranks_of(applied.predicate)
        block = ranks(flat, flat + 1) if ranks is not None else None
        score = cut = None
        if block is not None and block.ranked[0]:
            score, cut = float(block.scores[0]), float(block.cuts[0]) if block.cut[0] else None
        yield StepScore(applied.step, score, cut)
        if applied.step == code:
            return
