"""The subject of a view of one parameter."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prune_gui.errors import one_line
from prune_gui.language import tr
from prune_gui.number_formats import SHAPE_SEPARATOR, sparsity
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO
from prune_gui.statistics.file_zeros import FileZeros

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A parameter and its resolution, as a snapshot.

    Attributes:
        resolution: of the stack, with the draft if there is one.
        info: the parameter.
        draft: step number of the draft; None without a draft.
        file_zeros: the zeros of the file, as far as they are counted.
    """

    resolution: Resolution
    info: TensorInfo
    draft: int | None
    file_zeros: FileZeros = field(default_factory=FileZeros)

    @property
    def name(self) -> str:
        """The name of the parameter."""
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
        return (
            isinstance(other, Subject)
            and self.name == other.name
            and self.resolution.checkpoint is other.resolution.checkpoint
        )

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
        """Return a summary of what is pruned, and of the zeros in the file."""
        facts, zeros = self.pruned_facts(), self.zero_facts()
        return tr("{facts} · {more}", facts=facts, more=zeros) if zeros else facts

    def pruned_facts(self) -> str:
        """Return a summary: "384 x 1536 · float32 · 294,912 of 589,824 pruned (50.0 %)"."""
        pruned, total = self.resolution.counts[self.name]
        return tr(
            "{shape} · {dtype} · {pruned:,} of {total:,} pruned ({share})",
            shape=_shape(self.info),
            dtype=self.info.dtype,
            pruned=pruned,
            total=total,
            share=sparsity(pruned, total),
        )

    def zero_facts(self) -> str:
        """Return a summary: "50.0 % zero in the file: 2:4"; "" if no zeros are counted."""
        zeros = self.file_zeros.counts.get(self.name, 0)
        if not zeros:
            return ""
        share = sparsity(zeros, self.resolution.counts[self.name][1])
        patterns = self.file_zeros.describe(self.name)
        if not patterns:
            return tr("{share} zero in the file", share=share)
        return tr("{share} zero in the file: {patterns}", share=share, patterns=patterns)


def counts_by_code(pruned: int, total: int, steps: Sequence[int]) -> dict[int, int]:
    """Return the number of elements by code, kept elements first; codes with 0 are left out."""
    by_code = {KEPT: total - pruned, **dict(enumerate(steps, start=1))}
    by_code[IN_FILE] = pruned - sum(steps)
    return {code: count for code, count in by_code.items() if count}


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
    """Describe a tensor that is not prunable or not resolved yet: "(384, 1536) · float32"."""
    return f"{_shape(info)} · {info.dtype}"


def _shape(info: TensorInfo) -> str:
    return f" {SHAPE_SEPARATOR} ".join(map(str, info.shape)) or tr("a single number")
