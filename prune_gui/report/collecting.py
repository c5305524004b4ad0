"""Collecting the content of a report from open checkpoints."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Final

import numpy as np

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.comparison import mask_overlap
from prune_gui.comparison.state_losses import compute_losses, empty_losses
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import join_clauses, tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import run
from prune_gui.recipe import Recipe, Resolution, initial_resolution, stack
from prune_gui.recipe.loading_code import reading_code
from prune_gui.recipe.outcome import Outcome
from prune_gui.recipe.recipe import (
    IN_FILE,
    KEPT,
    Provenance,
    own_version,
    pruned_before,
    reconstruction_errors,
)
from prune_gui.recipe.resolution import resolved
from prune_gui.report.records import FileRecord, Layer, PairRecord, Report, StepRecord
from prune_gui.statistics.dispatch import map_parameters
from prune_gui.statistics.file_zeros import ZeroPatterns
from prune_gui.statistics.layer_rows import Rows, grouping, rows_of
from prune_gui.statistics.layer_statistics import (
    compute,
    empty_statistics,
    energies,
)
from prune_gui.statistics.pattern_scan import PatternChunk, PatternScan

READS: Final = 5
REPEATED_READS: Final = 3
"""How often the bytes of a checkpoint are read, and how often more with a reference; about, for
the progress."""
LIBRARIES: Final = ("torch", "numpy", "safetensors")


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """A checkpoint to report on.

    Attributes:
        result: prunes exactly the elements that are zero in the result.
        origin: prunes the same elements of the checkpoint before pruning, as far as both have the
            same parameters, each with the step that did; None if that checkpoint is not known.
        retraced: whether the steps of `origin` are those that the metadata of the file record.
        is_measured: whether the energy before pruning is that of `origin`.
    """

    checkpoint: Checkpoint
    result: Resolution
    origin: Resolution | None = None
    reference: Checkpoint | None = None
    retraced: bool = False
    is_measured: bool = True
    warnings: tuple[str, ...] = ()


def report_on_files(
    checkpoints: Sequence[Checkpoint],
    reference: Checkpoint | None,
    monitor: Monitor,
    *,
    with_folders: bool = False,
) -> Report:
    """Report on the zeros of checkpoints; `reference` is the checkpoint before pruning, or None.

    `CheckpointError` if it is that of another model.
    """
    shared = {name for each in checkpoints for name in each.tensors}
    if reference is not None and shared.isdisjoint(reference.tensors):
        raise CheckpointError(
            "{reference} has no parameter of {name}, so it is not the checkpoint before pruning. "
            "Choose another reference.",
            reference=reference.path,
            name=checkpoints[0].path.name,
        )
    reads = READS + (REPEATED_READS if reference else 0)
    with monitor.plan(reads * sum(map(_nbytes, checkpoints))):
        original = reference.fingerprint(monitor) if reference else ""
        subjects = [_subject_of_file(each, reference, original, monitor) for each in checkpoints]
        return _report(subjects, monitor, with_folders=with_folders)


def report_on_stack(
    resolution: Resolution,
    reference: Checkpoint | None,
    monitor: Monitor,
    *,
    with_folders: bool = False,
) -> Report:
    """Report on what a recipe prunes in an open checkpoint, and on the other zeros in it.

    The `reference` is the checkpoint before pruning, often the open one; None if it is not known.
    """
    checkpoint = resolution.checkpoint
    with monitor.plan(READS * _nbytes(checkpoint)):
        zeros = initial_resolution(Recipe(start="zeros"), checkpoint, monitor)
        result = _combined(resolution, zeros, monitor)
        subject = ReportSubject(checkpoint, result, is_measured=reference is not None)
        if reference is not None and reference is not checkpoint:
            subject = replace(subject, origin=_measured_on(reference, result), reference=reference)
        elif reference is checkpoint or resolution.recipe.steps:
            subject = replace(subject, origin=result)
        return _report([subject], monitor, with_folders=with_folders)


def _subject_of_file(
    checkpoint: Checkpoint, reference: Checkpoint | None, original: str, monitor: Monitor
) -> ReportSubject:
    """Return a checkpoint with its zeros; `original` is the fingerprint of the reference."""
    result = initial_resolution(Recipe(start="zeros"), checkpoint, monitor)
    subject = ReportSubject(checkpoint, result, reference=reference)
    if reference is None:
        return subject
    made = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
    # the masks of a reconstruction follow from calibration data
    repeatable = made.recipe if made is not None and not made.errors else None
    if made is not None and repeatable is not None and made.input == original:
        try:
            origin = resolved(repeatable, reference, monitor)
        except RecipeError as error:
            problem = tr("The recorded steps cannot be repeated. {reason}", reason=error)
        else:
            origin = _combined(origin, result, monitor)
            if all(origin.counts[name] == result.counts[name] for name in origin.counts):
                return replace(subject, origin=origin, retraced=True)
            problem = tr(
                "The recorded steps, repeated on {reference}, do not prune the same elements.",
                reference=reference.path.name,
            )
        subject = replace(subject, warnings=(problem,))
    return replace(subject, origin=_measured_on(reference, result))


def _combined(resolution: Resolution, zeros: Resolution, monitor: Monitor) -> Resolution:
    """Return a resolution that also prunes what another one prunes in the file."""
    names = [name for name in resolution.counts if mask_overlap.comparable(resolution, zeros, name)]
    counts = {name: resolution.counts[name] for name in names}
    layers, to_count = {}, []
    for name in names:
        layers[name] = resolution.layers.get(name, ())
        if zeros.counts[name][0]:
            if layers[name]:
                to_count.append(resolution.checkpoint.tensors[name])
            else:
                counts[name] = zeros.counts[name]
            layers[name] = (*layers[name], *zeros.layers.get(name, ()))
    tasks = [((layers[info.name],), info.numel) for info in to_count]
    nbytes = sum(info.nbytes for info in to_count)
    pruned = map_parameters(mask_overlap.count_pruned_by_all, tasks, nbytes, monitor)
    counts |= {info.name: (n, info.numel) for info, n in zip(to_count, pruned, strict=True)}
    layers = {name: applied for name, applied in layers.items() if applied}
    return replace(resolution, layers=layers, counts=counts)


def _measured_on(reference: Checkpoint, result: Resolution) -> Resolution:
    """Return a resolution with its masks for the weights of a reference of the same shapes."""
    shapes = {info.name: info.shape for info in reference.tensors.values() if not info.not_prunable}
    own = result.checkpoint.tensors
    names = [name for name in result.counts if shapes.get(name) == own[name].shape]
    counts = {name: result.counts[name] for name in names}
    layers = {name: result.layers[name] for name in names if name in result.layers}
    return replace(result, checkpoint=reference, counts=counts, layers=layers)


def _nbytes(checkpoint: Checkpoint) -> int:
    return sum(info.nbytes for info in checkpoint.tensors.values())


def _report(subjects: Sequence[ReportSubject], monitor: Monitor, *, with_folders: bool) -> Report:
    files = tuple(
        _file_record(_label(index), subject, monitor, with_folders=with_folders)
        for index, subject in enumerate(subjects)
    )
    sides = [(_label(index), subject.result) for index, subject in enumerate(subjects)]
    pairs = []
    for (left, of_left), (right, of_right) in combinations(sides, 2):
        losses = compute_losses(empty_losses(of_left, of_right), lambda _: True, monitor)
        rows = tuple(map(losses.overlap, np.flatnonzero(~losses.unmatched).tolist()))
        pairs.append(PairRecord(left, right, rows, losses.omitted + int(losses.unmatched.sum())))
    for subject in subjects:
        subject.checkpoint.check()
    versions = {"Prune GUI": own_version(), "Python": platform.python_version()}
    versions |= {name: version(name) for name in LIBRARIES}
    created = datetime.now(UTC).isoformat(" ", "minutes").removesuffix("+00:00")
    return Report(files, tuple(pairs), versions, created)


def _label(index: int) -> str:
    """Return A, B, ..., Z, A2, B2, ..."""
    turn, letter = divmod(index, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(turn + 1) if turn else "")


def _file_record(
    label: str, subject: ReportSubject, monitor: Monitor, *, with_folders: bool
) -> FileRecord:
    checkpoint, origin = subject.checkpoint, subject.origin
    made = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
    recorded = made.recipe if made is not None else None
    applied = origin if origin is not None and origin.recipe.steps else None
    recipe = applied.recipe if applied else recorded
    names_files = any(step.method.files for step in recipe.steps) if recipe else False
    warnings = (*checkpoint.warnings, *(made.remarks if made else ()), *subject.warnings)
    if not with_folders:
        warnings = _without_folders(warnings, (checkpoint, subject.reference), (recipe, recorded))
    references = subject.reference.weight_names if subject.reference else frozenset()
    layers = tuple(_layers(subject, references, monitor))
    measured = {layer.name for layer in layers if layer.energy_before is not None}
    return FileRecord(
        label=label,
        name=checkpoint.path.name,
        folder=str(checkpoint.path.absolute().parent) if with_folders else "",
        format=checkpoint.format,
        description=checkpoint.description,
        files=len(checkpoint.files),
        nbytes=_nbytes(checkpoint),
        tensors=len(checkpoint.tensors),
        fingerprint=checkpoint.fingerprint(monitor),
        made_by=made.version if made else "",
        form=made.form if made else "",
        input=made.input if made else "",
        calibration=made.calibration if made else "",
        reference=subject.reference.path.name if subject.reference else "",
        covers_reference=references <= measured,
        recorded=tuple(_steps(recorded)) if recorded and not subject.retraced else (),
        steps=tuple(_steps(applied.recipe, applied.outcomes)) if applied else (),
        retraced=subject.retraced,
        recipe=recipe.to_yaml() if recipe and (with_folders or not names_files) else "",
        load_code=tuple(reading_code(checkpoint, Path())),
        layers=layers,
        warnings=warnings,
    )


def _without_folders(
    messages: tuple[str, ...],
    checkpoints: Iterable[Checkpoint | None],
    recipes: Iterable[Recipe | None],
) -> tuple[str, ...]:
    """Return messages in which files of checkpoints and recipes are named without their folders."""
    paths = {path for each in checkpoints if each for path in (each.path, *each.files)}
    steps = [step for recipe in recipes if recipe for step in recipe.steps]
    paths |= {Path(path) for step in steps for path in step.method.files.values()}
    folders = {folder for path in paths for folder in (path.parent, path.absolute().parent)}
    names = {str(folder) for folder in folders if folder.name}
    for name in sorted(names, key=len, reverse=True):
        messages = tuple(text.replace(f"{name.rstrip(os.sep)}{os.sep}", "") for text in messages)
    return messages


def _steps(recipe: Recipe, outcomes: Sequence[Outcome] = ()) -> Iterator[StepRecord]:
    for number, step in enumerate(recipe.steps, start=1):
        method, targets = step.method, ", ".join(step.targets)
        title, options = tr(method.title), method.options_text()
        record = StepRecord(number, title, options, targets, step.enabled)
        if outcomes:
            outcome = outcomes[number - 1]
            notes = tuple(join_clauses((name, note)) for name, note in outcome.notes.items())
            pruned, total = outcome.total
            record = replace(record, pruned=pruned, total=total, notes=notes)
        yield record


def _rows(resolution: Resolution, monitor: Monitor) -> Rows:
    statistics = compute(empty_statistics(resolution), lambda _: True, monitor)
    return rows_of(statistics, grouping(statistics.infos, None))


def _layers(
    subject: ReportSubject, references: frozenset[str], monitor: Monitor
) -> Iterator[Layer]:
    result, origin = subject.result, subject.origin
    if not result.counts:
        return
    rows = _rows(result, monitor)
    before = rows if origin is result else _rows(origin, monitor) if origin else None
    if origin is None and any(info.pair for info in rows.infos):  # reparametrized: nothing is lost
        before = rows
    index_of = {name: index for index, name in enumerate(before.names)} if before else {}
    patterns = _patterns(result, rows.infos, monitor)
    metadata = subject.checkpoint.metadata
    recorded, errors = pruned_before(metadata), reconstruction_errors(metadata)
    for row, info in enumerate(rows.infos):
        is_known = before is not None and info.name in index_of
        of, at = (before, index_of[info.name]) if before and is_known else (rows, row)
        codes, counts = of.codes, of.counts[:, at].tolist()
        is_measured = is_known and subject.is_measured and info.kind is None
        energy_kept = float(of.kept[at]) if is_measured else None
        energy_before = float(of.energy[at]) if is_measured else None
        if not is_known and info.name in references:  # of another shape, as in a compact file
            applied = result.layers.get(info.name, ())
            found = energies(subject.reference, subject.checkpoint, info, applied, monitor)
            if math.isfinite(found[0]):
                energy_before, energy_kept = found
        by_code = {code: count for code, count in zip(codes, counts, strict=True) if count}
        # Biases often begin as zeros.
        may_be_pruned = info.name in recorded if recorded else len(info.shape) > 1
        may_be_pruned |= any(code != IN_FILE for code in by_code)
        was_pruned = may_be_pruned and energy_before != 0
        zeros, total = result.counts[info.name]
        monitor.advance()
        yield Layer(
            name=info.name,
            shape=info.shape,
            dtype=info.dtype,
            total=total,
            zeros=zeros,
            by_code=by_code,
            dead_channels=int(rows.dead[row]),
            patterns=patterns.get(info.name),
            energy=energy_kept if info.not_prunable or info.kind else float(rows.kept[row]),
            energy_before=energy_before,
            energy_kept=energy_kept,
            warnings=tuple(rows.warnings(row, was_pruned=was_pruned)),
            error=errors.get(info.name),
            is_counted=info.name in result.counted,
        )


def _patterns(
    result: Resolution, infos: Iterable[TensorInfo], monitor: Monitor
) -> Mapping[str, ZeroPatterns]:
    """Return the patterns in the zeros of parameters that have zeros and at least two dims."""
    wanted = [info for info in infos if len(info.shape) > 1 and result.counts[info.name][0]]
    tasks = [(result.checkpoint, info, result.layers.get(info.name, ())) for info in wanted]
    nbytes = sum(info.nbytes for info in wanted)
    found = map_parameters(_find_patterns, tasks, nbytes, monitor)
    return {info.name: own for info, own in zip(wanted, found, strict=True)}


def _find_patterns(
    task: tuple[Checkpoint, TensorInfo, Sequence[stack.AppliedStep]], monitor: Monitor
) -> ZeroPatterns:
    """Return the patterns in what some steps prune of a parameter."""
    checkpoint, info, applied = task
    scan = PatternScan.of(checkpoint, info)

    def look(span: tuple[int, int]) -> PatternChunk | None:
        monitor.advance((span[1] - span[0]) * info.nbytes // info.numel)
        return scan.look(span[0], stack.pruned_by(applied, *span) != KEPT)

    for chunk in run(look, scan.spans()):
        scan.add(chunk)
    return scan.found()
