"""The sides of a comparison: what the user chose for a side, and what that is resolved to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from prune_gui.audit.view_data.subject import Subject
from prune_gui.errors import one_line
from prune_gui.language import tr
from prune_gui.number_formats import sparsity

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.recipe import Resolution, Step

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


@dataclass(frozen=True, slots=True, eq=False)
class ComparedState:
    """What a side is resolved to.

    Attributes:
        base: the resolution that the state is taken from.
        steps: number of its steps that are applied; None for all.
        draft: step number of the draft in `base`; None without a draft.
        text: name of the side.
    """

    base: Resolution
    steps: int | None
    draft: int | None
    text: str

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
        """Return one parameter in this state."""
        return Subject(self.resolution([name]), self.base.checkpoint.tensors[name], self.draft)

    def obstacle(self, info: TensorInfo) -> str | None:
        """Return why this state cannot be compared for a parameter; None if it can.

        Args:
            info: the parameter of the open checkpoint.
        """
        checkpoint, name = self.base.checkpoint, info.name
        file, found = checkpoint.path.name, checkpoint.tensors.get(name)
        if found is None:
            reason = tr("{file} has no parameter {name}.", file=file, name=name)
        elif found.shape != info.shape:
            reason = tr(
                "{file}: {name} has shape {there}, but {here} in this checkpoint.",
                file=file,
                name=name,
                there=list(found.shape),
                here=list(info.shape),
            )
        elif found.not_prunable is not None and name not in self.base.counts:
            why = tr(found.not_prunable)
            reason = tr("{file}: {name} cannot be pruned: {why}.", file=file, name=name, why=why)
        else:
            return None
        hint = tr("Choose another parameter, or something else to compare with.")
        return f"{one_line(reason)}\n{hint}"

    def same_as(self, other: ComparedState | None) -> bool:
        """Return whether both are the same state."""
        return other is not None and self.base is other.base and self.steps == other.steps


def text_of(side: Side, steps: Sequence[Step], *, drafted: bool) -> str:
    """Return the name of a side in the window.

    Args:
        side: the side.
        steps: the resolved steps of the stack.
        drafted: whether the views show a draft.
    """
    match side:
        case AfterStep(0):
            return tr("The original file")
        case AfterStep(number) if number <= len(steps):
            method = one_line(tr(steps[number - 1].method.title))
            return tr("After step {number}: {method}", number=number, method=method)
        case AfterStep(number):
            return tr("After step {number}", number=number)
        case Stack():
            return tr("The stack without the draft")
        case Present():
            return tr("The stack and the draft") if drafted else tr("The stack")
        case NamedState(name):
            return tr("Named state: {name}", name=one_line(name, MAX_NAME_LENGTH))
        case OtherCheckpoint(path):
            return file_text(path)


def file_text(path: Path) -> str:
    """Return the name of a file and of its folder: many checkpoints have the same name."""
    return one_line(f"{path.parent.name}/{path.name}", MAX_NAME_LENGTH)


def frame_title(subject: Subject, steps: int) -> str:
    """Return the title of a frame of a film: "After step 2: L1 unstructured, 50.0 % pruned".

    Args:
        subject: a parameter after the first `steps` steps.
        steps: number of steps.
    """
    share = sparsity(*subject.resolution.counts[subject.name])
    if not steps:
        return tr("The original file, {share} pruned", share=share)
    method = one_line(tr(subject.resolution.recipe.steps[steps - 1].method.title))
    if steps == subject.draft:
        return tr("With the draft: {method}, {share} pruned", method=method, share=share)
    return tr(
        "After step {number}: {method}, {share} pruned", number=steps, method=method, share=share
    )
