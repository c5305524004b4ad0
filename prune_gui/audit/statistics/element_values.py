"""A number for every entry of a parameter: its value, its score, its distance from a cut, ..."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prune_gui.audit.statistics import values
from prune_gui.audit.statistics.score_blocks import (
    ALL,
    ElementRanks,
    Flags,
    ScoreBlock,
    element_ranks_of,
)
from prune_gui.audit.statistics.values import Values
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.selection.scores import WeightDelta
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles, file_entries

Measure = Callable[[int, int], tuple[Values, Flags]]
"""From flat indices [start, stop) to a number per entry, float32 or float64, and where there is one
(`ALL`: everywhere)."""


def weights(resolution: Resolution, name: str) -> Measure:
    """Return what reads the values in the file."""
    read = values.reader(resolution.checkpoint, name)
    return lambda start, stop: (read(start, stop), ALL)


def sizes(resolution: Resolution, name: str) -> Measure:
    """Return what reads the absolute values of those in the file."""
    return absolute(weights(resolution, name))


def absolute(measure: Measure) -> Measure:
    """Return what reads the distance from zero of other numbers."""

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        numbers, there = measure(start, stop)
        return np.abs(numbers), there

    return read


def scores(resolution: Resolution, name: str, step: int) -> Measure:
    """Return what reads by what a step ranked the entries; those pruned before it were not ranked.

    An entry that goes as a part of something has the score of that: of its channel, or its block.

    Raises:
        RecipeError: the step does not rank this parameter.
    """
    ranked = _ranked(resolution, name, step)

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        found = ranked(start, stop)
        return found.scores, _where(found.ranked)

    return read


def margins(resolution: Resolution, name: str, step: int) -> Measure:
    """Return what reads how far scores lie above the cut of a step: at most 0 where it prunes.

    Without a cut, as in a row of which nothing goes, there is no margin.

    Raises:
        RecipeError: the step does not rank this parameter.
    """
    ranked = _ranked(resolution, name, step)

    def read(start: int, stop: int) -> tuple[Values, Flags]:
        found = ranked(start, stop)
        with np.errstate(invalid="ignore"):  # infinity less infinity
            margin = np.subtract(found.scores, found.cuts, out=found.scores)
        return margin, _where(found.ranked & found.cut)

    return read


def difference(resolution: Resolution, name: str, other: AuxiliaryFiles, path: str) -> Measure:
    """Return what reads how far the values in the file lie above those of another file.

    Args:
        resolution: of the one file.
        name: of the parameter, in both.
        other: opens the other file, and keeps it open.
        path: of the other file.

    Raises:
        RecipeError: the other file cannot be opened, or has no such parameter of that shape.
    """
    checkpoint = resolution.checkpoint
    info = checkpoint.tensors[name]
    origin = other.entries(path, info, "weights")
    moved = WeightDelta(file_entries(checkpoint, info), origin)
    return lambda start, stop: (moved.part(start, stop).numpy(), ALL)


def ranking_steps(resolution: Resolution, name: str) -> tuple[int, ...]:
    """Return the numbers of the steps that rank a parameter by a score, in order."""
    layers = resolution.layers.get(name, ())
    return tuple(
        layer.step
        for layer in layers
        if 0 < layer.step <= len(resolution.outcomes)
        and element_ranks_of(layer.predicate) is not None
    )


def _where(flags: Flags) -> Flags:
    return ALL if flags.all() else flags


def _ranked(resolution: Resolution, name: str, step: int) -> ElementRanks:
    """Return what reads how entries stood in a step, those left out that were gone by then."""
    layers = resolution.layers.get(name, ())
    place = next((i for i, layer in enumerate(layers) if layer.step == step), None)
    look = None if place is None else element_ranks_of(layers[place].predicate)
    if place is None or look is None:
        raise RecipeError(
            tr(
                "Step {number} has no score for {name}. Choose a step that ranks it.",
                number=step,
                name=name,
            )
        )
    before, known = layers[:place], look

    def read(start: int, stop: int) -> ScoreBlock:
        found = known(start, stop)
        there = stack.kept(before, start, stop)
        return replace(found, ranked=found.ranked & there)

    return read if before else known
