"""What a report is about: a checkpoint with its zeros, and the steps that made them if known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prune_gui.checkpoint import Checkpoint
from prune_gui.comparison import comparison
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.recipe import Recipe, Resolution, initial_resolution, stack
from prune_gui.recipe.provenance import Provenance
from prune_gui.statistics.spreading import map_parameters


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint to report on.

    Attributes:
        checkpoint: the open file.
        result: prunes exactly the elements that are zero in the result.
        origin: prunes the same elements of the checkpoint before pruning, as far as both have the
            same parameters, each with the step that did; None if that checkpoint is not known.
        reference: the checkpoint to compare with; None if there is none.
        retraced: whether the steps of `origin` are those that the metadata of the file record.
        warnings: remarks for the user.
    """

    checkpoint: Checkpoint
    result: Resolution
    origin: Resolution | None = None
    reference: Checkpoint | None = None
    retraced: bool = False
    warnings: tuple[str, ...] = ()


def subject_of_file(
    checkpoint: Checkpoint, reference: Checkpoint | None, original: str, monitor: Monitor
) -> Subject:
    """Return a checkpoint with its zeros; `original` is the fingerprint of the reference."""
    result = initial_resolution(Recipe(start="zeros"), checkpoint, monitor)
    subject = Subject(checkpoint, result, reference=reference)
    if reference is None:
        return subject
    made = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
    if made is not None and made.recipe is not None and made.input == original:
        try:
            origin = initial_resolution(made.recipe, reference, monitor)
            for step in made.recipe.steps:
                origin = origin.with_step(step, monitor)
        except RecipeError as error:
            problem = tr("The recorded steps cannot be repeated. {reason}", reason=error)
            subject = replace(subject, warnings=(problem,))
        else:
            origin = _combined(origin, result, monitor)
            if all(origin.counts[name] == result.counts[name] for name in origin.counts):
                return replace(subject, origin=origin, retraced=True)
            problem = tr(
                "The recorded steps, repeated on {reference}, do not prune the same elements.",
                reference=reference.path.name,
            )
            subject = replace(subject, warnings=(problem,))
    dense = initial_resolution(Recipe(), reference, monitor)
    return replace(subject, origin=_combined(dense, result, monitor))


def subject_of_stack(resolution: Resolution, monitor: Monitor) -> Subject:
    """Return an open checkpoint with what a recipe prunes in it, and its other zeros."""
    checkpoint = resolution.checkpoint
    zeros = initial_resolution(Recipe(start="zeros"), checkpoint, monitor)
    result = _combined(resolution, zeros, monitor)
    return Subject(checkpoint, result, result if resolution.recipe.steps else None)


def _combined(resolution: Resolution, zeros: Resolution, monitor: Monitor) -> Resolution:
    """Return a resolution that also prunes what another one prunes in the file."""
    layers, counts = {}, {}
    to_count = []
    for name in resolution.counts:
        if not comparison.comparable(resolution, zeros, name):
            continue
        first, then = resolution.layers.get(name, ()), zeros.layers.get(name, ())
        if not zeros.counts[name][0]:
            layers[name], counts[name] = first, resolution.counts[name]
        elif not first:
            layers[name], counts[name] = then, zeros.counts[name]
        else:
            layers[name], counts[name] = (*first, *then), resolution.counts[name]
            to_count.append(resolution.checkpoint.tensors[name])
    tasks = [(layers[info.name], info.numel) for info in to_count]
    nbytes = sum(info.nbytes for info in to_count)
    for info, pruned in zip(
        to_count, map_parameters(_count_pruned, tasks, nbytes, monitor), strict=True
    ):
        counts[info.name] = pruned, info.numel
    layers = {name: applied for name, applied in layers.items() if applied}
    return replace(resolution, layers=layers, counts=counts)


def _count_pruned(task: tuple[Sequence[stack.AppliedStep], int], monitor: Monitor) -> int:
    """Return how many elements of a parameter some steps prune."""
    applied, size = task

    def count(span: tuple[int, int]) -> int:
        monitor.advance(span[1] - span[0])
        return int(np.count_nonzero(stack.pruned_by(applied, *span)))

    return sum(run(count, chunks(size)))
