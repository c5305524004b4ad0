"""The subject of a view of all parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prune_gui.audit.view_data.subject import counts_by_code, title
from prune_gui.language import trn
from prune_gui.number_formats import sparsity
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.statistics.file_zeros import FileZeros

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True, eq=False)
class ModelSubject:
    """All prunable parameters and their resolution, as a snapshot.

    Attributes:
        resolution: of the stack, with the draft if there is one.
        draft: step number of the draft; None without a draft.
        file_zeros: the zeros of the file, as far as they are counted.
    """

    resolution: Resolution
    draft: int | None
    file_zeros: FileZeros = field(default_factory=FileZeros)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.resolution.checkpoint.path.name

    def same_parameter(self, other: object) -> bool:
        """Return whether both are about the same open file."""
        return (
            isinstance(other, ModelSubject)
            and self.resolution.checkpoint is other.resolution.checkpoint
        )

    @property
    def zeros(self) -> int:
        """Number of elements that are zero in the file and do not count as pruned in it."""
        return max(0, self.file_zeros.zeros - self.counts().get(IN_FILE, 0))

    def counts(self) -> dict[int, int]:
        """Return the number of elements by code, kept elements first; codes with 0 are left out."""
        steps = [outcome.total[0] for outcome in self.resolution.outcomes]
        return counts_by_code(*self.resolution.total, steps)

    def title(self, code: int) -> str:
        """Return the name of a code: "kept", "step 2: L1 unstructured"."""
        return title(self.resolution, self.draft, code)

    def facts(self) -> str:
        """Return a summary: "78 parameters · 294,912 of 589,824 weights pruned (50.0 %)"."""
        pruned, total = self.resolution.total
        return trn(
            "{count:,} parameter · {pruned:,} of {total:,} weights pruned ({share})",
            "{count:,} parameters · {pruned:,} of {total:,} weights pruned ({share})",
            len(self.resolution.counts),
            pruned=pruned,
            total=total,
            share=sparsity(pruned, total),
        )
