"""The subjects of the views: the chosen parameter, or all parameters of the open checkpoint."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import one_line
from prune_gui.language import deferred, tr, trn
from prune_gui.number_formats import shape_text, sparsity
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO
from prune_gui.statistics.file_zeros import FileZeros

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.recipe import Resolution, Step
    from prune_gui.session.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A parameter and its resolution, as a snapshot."""

    resolution: Resolution
    info: TensorInfo
    draft: int | None
    file_zeros: FileZeros = field(default_factory=FileZeros)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def mask_key(self) -> tuple[Hashable, ...]:
        """A key that is equal for subjects with the same parameter and the same mask."""
        resolution = self.resolution
        return resolution.checkpoint, self.name, resolution.layers.get(self.name, ())

    @property
    def marked(self) -> Resolution:
        """The resolution, in which kept zeros of the file have the code `ZERO`; for pictures."""
        return self.resolution.marking_zeros(self.name) if self.zeros else self.resolution

    @property
    def marked_key(self) -> tuple[Hashable, ...]:
        """A key that is equal for subjects with the same parameter and mask in `marked`."""
        return *self.mask_key, self.zeros > 0

    def same_parameter(self, other: object) -> bool:
        """Return whether both are about the same parameter of the same open file."""
        mine = self.name, self.resolution.checkpoint
        return isinstance(other, Subject) and mine == (other.name, other.resolution.checkpoint)

    @property
    def zeros(self) -> int:
        """Number of elements that are zero in the file and do not count as pruned in it."""
        in_file = self.counts().get(IN_FILE, 0)
        return max(0, self.file_zeros.counts.get(self.name, 0) - in_file)

    def counts(self) -> dict[int, int]:
        """Return the number of elements by code, kept elements first; codes with 0 are left out."""
        steps = [outcome.pruned.get(self.name, 0) for outcome in self.resolution.outcomes]
        return counts_by_code(*self.resolution.counts[self.name], steps)

    def title(self, code: int) -> str:
        """Return the name of a code: "kept", "step 2: L1 unstructured"; "zero" in a mask."""
        if code == IN_FILE and self.info.not_prunable is not None:
            return tr("zero")
        return title(self.resolution, self.draft, code)

    def facts(self) -> str:
        """Return a summary: "384 x 1,536 · float32 · 294,912 of 589,824 pruned (50.0 %)"."""
        pruned, total = self.resolution.counts[self.name]
        shape, dtype, share = shape_text(self.info.shape), self.info.dtype, sparsity(pruned, total)
        message = deferred("{shape} · {dtype} · {pruned:,} of {total:,} pruned ({share})")
        facts = tr(message, shape=shape, dtype=dtype, pruned=pruned, total=total, share=share)
        zeros = self._zero_facts()
        return tr("{facts} · {more}", facts=facts, more=zeros) if zeros else facts

    def _zero_facts(self) -> str:
        """Return a summary: "50.0 % zero in the file: 2:4"; "" if no zeros are counted."""
        zeros = self.file_zeros.counts.get(self.name, 0)
        if not zeros:
            return ""
        share = sparsity(zeros, self.resolution.counts[self.name][1])
        if patterns := self.file_zeros.describe(self.name):
            return tr("{share} zero in the file: {patterns}", share=share, patterns=patterns)
        return tr("{share} zero in the file", share=share)


def counts_by_code(pruned: int, total: int, steps: Sequence[int]) -> dict[int, int]:
    """Return the number of elements by code, kept elements first; codes with 0 are left out."""
    by_code = {KEPT: total - pruned, **dict(enumerate(steps, start=1))}
    by_code[IN_FILE] = pruned - sum(steps)
    return {code: count for code, count in by_code.items() if count}


def with_zeros(counts: dict[int, int], zeros: int) -> dict[int, int]:
    """Return numbers of elements by code, with zeros in the file apart from kept elements.

    They stay with them if there are steps, which may prune some of them.
    """
    if not counts.keys() <= {KEPT, IN_FILE}:
        return counts
    parted = {**counts, KEPT: counts.get(KEPT, 0) - zeros, ZERO: zeros}
    return {code: count for code, count in parted.items() if count}


def title(resolution: Resolution, draft: int | None, code: int) -> str:
    """Return the name of a code; `draft` is the step number of the draft, or None."""
    if code == KEPT:
        return tr("kept")
    if code == IN_FILE:
        return tr("pruned in the file")
    if code == ZERO:
        return tr("zero in the file")
    method = one_line(tr(resolution.recipe.steps[code - 1].method.title))
    if code == draft:
        return tr("the draft: {method}", method=method)
    return tr("step {number}: {method}", number=code, method=method)


def by(title: str, count: int, pruned: int) -> str:
    """Describe how many of `pruned` elements the step called `title` pruned."""
    if count == pruned:
        return tr("all by {step}", step=title)
    return tr("{count:,} by {step}", count=count, step=title)


def bare_facts(info: TensorInfo) -> str:
    """Describe a tensor that is not prunable or not resolved yet: "384 x 1,536 · float32"."""
    return f"{shape_text(info.shape)} · {info.dtype}"


@dataclass(frozen=True, slots=True, eq=False)
class ModelSubject:
    """All prunable parameters and their resolution, as a snapshot.

    Attributes:
        reference: the checkpoint that kept energy is relative to, which may be the open one; None
            if it is not known.
    """

    resolution: Resolution
    draft: int | None
    file_zeros: FileZeros = field(default_factory=FileZeros)
    reference: Checkpoint | None = None

    @property
    def name(self) -> str:
        """The name of the file; of shards, that of their folder."""
        path = self.resolution.checkpoint.path
        return (path.parent if has_several_files(path) else path).name

    def same_parameter(self, other: object) -> bool:
        mine = self.resolution.checkpoint
        return isinstance(other, ModelSubject) and mine is other.resolution.checkpoint

    @property
    def zeros(self) -> int:
        return max(0, self.file_zeros.zeros - self.counts().get(IN_FILE, 0))

    def counts(self) -> dict[int, int]:
        steps = [outcome.total[0] for outcome in self.resolution.outcomes]
        return counts_by_code(*self.resolution.total, steps)

    def title(self, code: int) -> str:
        return title(self.resolution, self.draft, code)

    def facts(self) -> str:
        """Return a summary: "78 parameters · 294,912 of 589,824 weights pruned (50.0 %)"."""
        pruned, total = self.resolution.total
        fields = {"pruned": pruned, "total": total, "share": sparsity(pruned, total)}
        return trn(
            "{count:,} parameter · {pruned:,} of {total:,} weights pruned ({share})",
            "{count:,} parameters · {pruned:,} of {total:,} weights pruned ({share})",
            len(self.resolution.counted),
            **fields,
        )


NOTHING_IS_OPEN: Final = deferred("Nothing is open.\nOpen a checkpoint to look at its parameters.")


def subject_of(
    session: Session | None,
    shown: Resolution | None,
    name: str | None,
    draft: int | None,
    masks: Resolution | None = None,
) -> Subject | str:
    """Return the subject of the views of one parameter, or why there is none, as a message."""
    if session is None:
        return tr(NOTHING_IS_OPEN)
    info = session.checkpoint.tensors.get(name) if name is not None else None
    if info is None:
        return tr("Choose a parameter in the tree of modules to look at it.")
    if masks is not None and masks.checkpoint is session.checkpoint and info.name in masks.counts:
        return Subject(masks, info, None)
    if info.not_prunable is not None:
        why = tr(info.not_prunable)
        return tr("{name} cannot be pruned: {why}.", name=one_line(info.name), why=why)
    if shown is None or shown.checkpoint is not session.checkpoint:
        return tr("Computing the masks…")
    return Subject(shown, info, draft, session.file_zeros)


def model_subject_of(
    session: Session | None,
    shown: Resolution | None,
    draft: int | None,
    reference: Checkpoint | None = None,
) -> ModelSubject | str:
    """Return the subject of the views of all parameters, or why there is none, as a message."""
    if session is None:
        return tr(NOTHING_IS_OPEN)
    if shown is None or shown.checkpoint is not session.checkpoint:
        return tr("Computing the masks…")
    if not shown.counts:
        return tr("Nothing in {file} can be pruned.", file=session.checkpoint.path.name)
    return ModelSubject(shown, draft, session.file_zeros, reference)


Which = Literal["left", "right"]
MAX_NAME_LENGTH: Final = 60


@dataclass(frozen=True, slots=True)
class AfterStep:
    """The stack up to and including a step, from 1; 0 is the file as opened."""

    number: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack without the draft."""


@dataclass(frozen=True, slots=True)
class Present:
    """What the views show: the stack, with the draft if there is one."""


@dataclass(frozen=True, slots=True)
class NamedState:
    """A named state of the stack."""

    name: str


@dataclass(frozen=True, slots=True)
class OtherCheckpoint:
    """Another checkpoint, whose zeros count as pruned."""

    path: Path


Side = AfterStep | Stack | Present | NamedState | OtherCheckpoint
FILE: Final = AfterStep(0)


@dataclass(frozen=True, slots=True)
class ComparedState:
    """What a side is resolved to."""

    base: Resolution
    steps: int | None
    draft: int | None = field(compare=False)
    text: str = field(compare=False)

    def resolution(self, names: Iterable[str] | None = None) -> Resolution:
        """Return the resolution, for some parameters or for all.

        For all, the time grows with the number of parameters: call it on the engine's thread.
        """
        from prune_gui.comparison.mask_overlap import until  # torch: slow to import

        if self.steps is None and names is None:
            return self.base
        steps = len(self.base.outcomes) if self.steps is None else self.steps
        return until(self.base, steps, names)

    def subject(self, name: str) -> Subject:
        return Subject(self.resolution([name]), self.base.checkpoint.tensors[name], self.draft)

    def obstacle(self, info: TensorInfo) -> str | None:
        """Return why this state cannot be compared for a parameter; None if it can."""
        checkpoint, name = self.base.checkpoint, info.name
        file, found = checkpoint.path.name, checkpoint.tensors.get(name)
        if found is None:
            reason = tr("{file} has no parameter {name}.", file=file, name=name)
        elif found.shape != info.shape:
            shapes = {"there": list(found.shape), "here": list(info.shape)}
            message = deferred("{file}: {name} has shape {there}, but {here} in this checkpoint.")
            reason = tr(message, file=file, name=name, **shapes)
        elif found.not_prunable is not None and name not in self.base.counts:
            why = tr(found.not_prunable)
            reason = tr("{file}: {name} cannot be pruned: {why}.", file=file, name=name, why=why)
        else:
            return None
        hint = tr("Choose another parameter, or something else to compare with.")
        return f"{one_line(reason)}\n{hint}"


def text_of(side: Side, steps: Sequence[Step], *, drafted: bool) -> str:
    """Return the name of a side in the window."""
    match side:
        case AfterStep(0):
            return tr("The file as opened")
        case AfterStep(number) if number <= len(steps):
            method = one_line(tr(steps[number - 1].method.title))
            return tr("After step {number}: {method}", number=number, method=method)
        case AfterStep(number):
            return tr("After step {number}", number=number)
        case Stack():
            return tr("The stack without the draft")
        case Present():
            if drafted:
                return tr("The stack and the draft")
            return tr("The stack") if steps else tr("This file, no steps yet")
        case NamedState(name):
            return tr("Named state: {name}", name=one_line(name, MAX_NAME_LENGTH))
        case OtherCheckpoint(path):
            return file_text(path)


def file_text(path: Path) -> str:
    """Return the name of a file and of its folder: many checkpoints have the same name."""
    path = path.parent if has_several_files(path) else path
    return one_line(f"{path.parent.name}/{path.name}", MAX_NAME_LENGTH)


def frame_title(subject: Subject, steps: int) -> str:
    """Return the title of a frame of a film: "After step 2: L1 unstructured, 50.0 % pruned"."""
    share = sparsity(*subject.resolution.counts[subject.name])
    if not steps:
        return tr("The file as opened, {share} pruned", share=share)
    method = one_line(tr(subject.resolution.recipe.steps[steps - 1].method.title))
    message = deferred("After step {number}: {method}, {share} pruned")
    if steps == subject.draft:
        message = deferred("With the draft: {method}, {share} pruned")
    return tr(message, number=steps, method=method, share=share)
